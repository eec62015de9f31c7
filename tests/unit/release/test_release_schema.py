"""release.yml: what is wrong is named with file, field and value, and with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.release.schema import ReleaseError, load_release

EXTERNAL = """\
external:
  - name: engine
    version: "2.0"
    reason: only its maker has it
    requires: []
    wheels:
      {platform}: {{file: {file}, sha256: {sha256}}}
minimum:"""
WHEEL = "engine-2.0-cp311-cp311-manylinux_2_28_x86_64.whl"
X86 = "linux-x86_64-cpu-py311"


def problem(release: Path, old: str, new: str) -> str:
    """What is said after one change to release.yml."""
    source = release / "release.yml"
    assert old in source.read_text()
    source.write_text(source.read_text().replace(old, new, 1))
    with pytest.raises(ReleaseError) as caught:
        load_release(release)
    assert str(source) in str(caught.value)
    return str(caught.value).replace(f"{source}: ", "")


def external(platform: str = X86, file: str = WHEEL, sha256: str = "a" * 64) -> str:
    return EXTERNAL.format(platform=platform, file=file, sha256=sha256)


def test_a_release(release: Path) -> None:
    loaded = load_release(release)
    assert [item.name for item in loaded.platforms] == [X86, "linux-aarch64-cpu-py311"]
    assert loaded.minimum.memory_gib == 0.5
    assert loaded.build.bytecode == "unchecked-hash"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "    glibc:",
            "    glib:",
            "platforms[0].glib is not known here (its value is '2.31'). Fix: write 'glibc'.",
        ),
        ("  disk_gib: 1", "  colour: red\n  disk_gib: 1", "remove it; known here are disk_gib, memory_gib."),
        ("description: Two", "descriptoin: Two", "description is missing. Fix: add it."),
        (
            '    python: "3.11"\n',
            "",
            "platforms[0].python is missing. Fix: add it (version of the host's /usr/bin/python3",
        ),
        (
            'python: "3.11"',
            "python: 3.11",
            "platforms[0].python is 3.11, wanted text. Fix: put it in quotes.",
        ),
        ("machine: x86_64", "machine: amd64", "platforms[0].machine is 'amd64': Input should be 'x86_64'"),
        (
            "memory_gib: 0.5",
            "memory_gib: 0",
            "minimum.memory_gib is 0: Input should be greater than 0. Fix: correct it (total memory",
        ),
        ("disk_gib: 1", "disk_gib: much", "minimum.disk_gib is 'much': Input should be a valid number"),
        ("minimum:", "engine: {args: 7}\nminimum:", "engine.args is 7: Input should be a valid dictionary"),
        ("lock: x86_64.lock", "lock: ../x86_64.lock", "platforms[0].lock is '../x86_64.lock': String should"),
        ("dir: files/patches/", "dir: /files/patches/", "patches[0].dir is '/files/patches/engine-2.0': "),
        ("schema: 1", "schema: 2", "schema is 2: Input should be 1."),
        ("  engine:", "  My_Engine:", "versions.My_Engine.[key] is 'My_Engine': String should"),
        (
            "aarch64.lock",
            "x86_64.lock",
            "platforms: the lock 'x86_64.lock' is given twice. Fix: one for each",
        ),
        (
            "linux-aarch64",
            "linux-x86_64",
            "platforms: the name 'linux-x86_64-cpu-py311' is given twice. Fix: ",
        ),
        (
            "minimum:",
            external(platform="mars"),
            "external engine: wheels: 'mars' is no platform. Fix: one of linux-x86_64-cpu-py311",
        ),
        (
            "minimum:",
            external(file=WHEEL.replace("2.0", "2.1")),
            "wheels: 'engine-2.1-cp311-cp311-manylinux_2_28_x86_64.whl' is no wheel of engine 2.0",
        ),
        (
            "minimum:",
            external(file=f"../{WHEEL}"),
            f"external[0].wheels.{X86}.file is '../{WHEEL}': String should match",
        ),
        (
            "minimum:",
            external(sha256="abc"),
            f"external[0].wheels.{X86}.sha256 is 'abc': String should match",
        ),
        (
            "name: tiny",
            "name: huge",
            "name is 'huge', wanted 'tiny', the folder's name. Fix: give both the same",
        ),
        ("schema: 1", "schema: [1", "is not YAML: "),
    ],
)
def test_a_mistake(release: Path, old: str, new: str, message: str) -> None:
    text = problem(release, old, new)
    assert message in text
    assert "Fix: " in text


def test_all_mistakes_are_told_at_once(release: Path) -> None:
    text = problem(release, 'python: "3.11"\n    accelerator: cpu', "python: 3\n    accelerator: fpga")
    assert len(text.splitlines()) == 2


@pytest.mark.parametrize("content", [b"", b"- a list\n", b"name: \xff\n"])
def test_a_file_that_is_no_release(release: Path, content: bytes) -> None:
    (release / "release.yml").write_bytes(content)
    with pytest.raises(ReleaseError, match=r"release\.yml: (.|\n)* Fix: correct"):
        load_release(release)


def test_a_release_that_is_not_there_names_those_that_are(release: Path) -> None:
    with pytest.raises(ReleaseError, match=r"huge/release\.yml: No such file or directory\. Fix: .*\(tiny\)"):
        load_release(release.parent / "huge")


def test_a_platform_is_found_by_machine_or_name(release: Path) -> None:
    loaded = load_release(release)
    assert loaded.platform("aarch64") is loaded.platform("linux-aarch64-cpu-py311")


def test_a_machine_without_a_platform(release: Path) -> None:
    with pytest.raises(
        ReleaseError, match=r"tiny: no platform for 'riscv64'\. Fix: choose one by name: linux-"
    ):
        load_release(release).platform("riscv64")


def test_a_machine_with_two_platforms(release: Path) -> None:
    source = release / "release.yml"
    source.write_text(source.read_text().replace("machine: aarch64", "machine: x86_64"))
    with pytest.raises(ReleaseError, match="tiny: several platforms for 'x86_64'"):
        load_release(release).platform("x86_64")
