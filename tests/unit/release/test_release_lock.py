"""``tandem release lock``: with an index on this machine, and ``--check`` without one."""

from __future__ import annotations

from pathlib import Path

import pytest
from releasetree import Index, Tandem, entry, sha256, wheel

from tandem.release.agreement import left_out, pinned

LOCKS = ("x86_64.lock", "aarch64.lock", "build.lock")
X86_ENGINE = "engine-2.0-cp311-cp311-manylinux_2_28_x86_64.whl"


def contents(release: Path) -> list[str]:
    return [(release / file).read_text() for file in LOCKS]


def change(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))


def test_locks_are_made_from_the_index(tandem: Tandem, release: Path, index: Index) -> None:
    for file in LOCKS:
        (release / file).unlink()
    result = tandem("lock")
    assert result.exit_code == 0, result.output
    engine, build = (release / "x86_64.lock").read_text(), (release / "build.lock").read_text()
    assert f"--hash=sha256:{sha256(index.wheels / X86_ENGINE)}\n    # wheel: {X86_ENGINE}" in engine
    assert "plain==1.5" in engine
    assert "aarch64" not in engine
    assert build.count("--hash=sha256:") == 2
    assert tandem("lock", "--check").exit_code == 0


def test_a_second_run_changes_nothing(tandem: Tandem, release: Path) -> None:
    tandem("lock")
    before = contents(release)
    assert tandem("lock").output.count("unchanged") == 3
    assert contents(release) == before


def test_versions_stay_until_an_upgrade(tandem: Tandem, release: Path, index: Index) -> None:
    wheel(index.wheels, "plain-1.6-py3-none-any.whl")
    tandem("lock")
    assert "plain==1.5" in contents(release)[0]
    tandem("lock", "--upgrade")
    assert "plain==1.6" in contents(release)[0]


def test_a_package_that_is_left_out(tandem: Tandem, release: Path) -> None:
    (release / "overrides.txt").write_text("plain ; sys_platform == 'never'\n")
    assert tandem("lock").exit_code == 0
    assert "plain" not in contents(release)[0]


def test_without_a_solution_the_locks_stay(tandem: Tandem, release: Path) -> None:
    before = contents(release)
    (release / "requirements-build.in").write_text("installer==9.0\n")
    result = tandem("lock")
    assert result.exit_code == 1
    assert "requirements-build.in: uv has no answer for linux-x86_64-cpu-py311" in result.output
    assert contents(release) == before


def test_a_wheel_that_the_index_does_not_have(tandem: Tandem, release: Path, index: Index) -> None:
    file = X86_ENGINE.replace("engine-2.0", "engine-2.0+cpu")
    lines = [
        "external:",
        "  - name: engine",
        "    version: 2.0+cpu",
        "    reason: test",
        "    requires: [plain]",
    ]
    lines += [
        "    wheels:",
        f"      linux-x86_64-cpu-py311: {{file: {file}, sha256: {'a' * 64}}}",
        "minimum:",
    ]
    change(release / "release.yml", "minimum:", "\n".join(lines))
    change(release / "release.yml", 'engine: "2.0"', "plain: '1.5'")
    (release / "requirements.in").write_text("engine\n")
    result = tandem("lock", "--upgrade")
    assert result.exit_code == 0, result.output
    x86, arm, _build = contents(release)
    assert f"engine==2.0+cpu \\\n    --hash=sha256:{'a' * 64}\n    # wheel: {file}\n" in x86
    assert "engine==2.0 \\" in arm
    assert tandem("lock", "--check").exit_code == 0
    change(release / "release.yml", "a" * 64, "b" * 64)
    result = tandem("lock", "--check")
    assert result.exit_code == 1
    assert f"wanted {file} with SHA-256 {'b' * 64}" in result.output


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "requirements.in",
            "engine==2.0",
            "engine==2.1",
            "x86_64.lock: engine is 2.0, requirements.in wants 2.1",
        ),
        (
            "requirements.in",
            "engine==2.0",
            "Some_Thing == 3",
            "aarch64.lock: some-thing is not there, requirements.in wants 3",
        ),
        ("release.yml", 'engine: "2.0"', 'plain: "1.4"', "x86_64.lock: plain is 1.5, versions wants 1.4"),
        ("overrides.txt", "heavy", "plain", "x86_64.lock: plain is there, the overrides leave it"),
        (
            "requirements-build.in",
            "1.0",
            "1.1",
            "build.lock: installer is 1.0, requirements-build.in wants 1.1",
        ),
        (
            "release.yml",
            "machine: aarch64",
            "machine: x86_64",
            "engine has no wheel for linux-aarch64-cpu-py311",
        ),
        ("x86_64.lock", "engine==2.0", "engine==2.2", "x86_64.lock: engine is 2.2, versions wants 2.0"),
    ],
)
def test_check_finds_what_is_out_of_date(
    tandem: Tandem, release: Path, index: Index, file: str, old: str, new: str, message: str
) -> None:
    assert tandem("lock", "--check").exit_code == 0
    change(release / file, old, new)
    before = contents(release)
    result = tandem("lock", "--check")
    assert result.exit_code == 1
    assert message in result.output
    assert "Fix: tandem release lock tiny" in result.output
    assert contents(release) == before
    assert index.asked == []


@pytest.mark.parametrize("file", ["x86_64.lock", "requirements.in", "overrides.txt"])
def test_check_names_a_file_that_is_gone(tandem: Tandem, release: Path, file: str) -> None:
    (release / file).unlink()
    result = tandem("lock", "--check")
    assert result.exit_code == 1
    assert f"{release / file}: No such file or directory. Fix: " in result.output


def test_two_platforms_that_need_different_installers(tandem: Tandem, release: Path, index: Index) -> None:
    newer = wheel(index.wheels, "installer-1.1-py3-none-manylinux_2_28_x86_64.whl")
    (release / "requirements-build.in").write_text("installer\n")
    result = tandem("lock", "--upgrade")
    assert result.exit_code == 1
    assert "installer resolves to 1.1 and on linux-aarch64-cpu-py311 to 1.0. Fix: pin it" in result.output
    assert entry("installer", "1.1", newer) not in contents(release)[2]


def test_which_requirements_are_pinned() -> None:
    text = "A_b==1.0  # why\nc[extra] == 2.0+cpu\nd>=3\ne==4 ; python_version < '3'\n# f==5\n"
    assert pinned(text) == {"a-b": "1.0", "c": "2.0+cpu"}


def test_which_packages_are_left_out() -> None:
    assert left_out("A_b ; sys_platform == 'never'  # big\nc==1\n# d ; sys_platform == 'never'\n") == {"a-b"}
