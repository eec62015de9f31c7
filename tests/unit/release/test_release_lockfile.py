"""Lock files: written and read, and the one wheel per package that is chosen for a platform."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tandem.release.lockfile import LockError, Pin, Wheel, format_lock, parse_lock, read_lock
from tandem.release.resolve import choose_wheel
from tandem.release.schema import Platform

A, B = "a" * 64, "b" * 64
LOCK = f"""\
# two packages
engine==2.0+cpu \\
    --hash=sha256:{A} \\
    --hash=sha256:{B}
    # wheel: engine-2.0+cpu-cp311-cp311-manylinux_2_28_aarch64.whl
    # wheel: engine-2.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl 1234
ruamel-yaml==1.5 \\
    --hash=sha256:{A}
    # wheel: ruamel.yaml-1.5-1a-py3-none-any.whl 99
"""
X86 = Platform(
    name="p", machine="x86_64", python="3.11", accelerator="cpu", glibc="2.31", lock="requirements.lock"
)


def test_a_lock_is_read() -> None:
    engine, plain = parse_lock(LOCK, Path("here.lock"))
    assert (engine.name, engine.version) == ("engine", "2.0+cpu")
    assert [(wheel.size, wheel.sha256) for wheel in engine.wheels] == [(0, A), (1234, B)]
    assert plain == Pin("ruamel-yaml", "1.5", (Wheel("ruamel.yaml-1.5-1a-py3-none-any.whl", 99, A),))


def test_a_lock_is_written_as_it_was_read() -> None:
    assert format_lock(reversed(parse_lock(LOCK, Path("here.lock"))), "two packages") == LOCK


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "ruamel-yaml==1.5",
            "ruamel-yaml>=1.5",
            r"here\.lock:7: 'ruamel-yaml>=1\.5 .*' is not part of a lock",
        ),
        ("# wheel: ruamel", "# whl: ruamel", r"here\.lock:9: '# whl: .*' is not part of a lock"),
        (A, "A" * 64, "is not part of a lock"),
        (f" \\\n    --hash=sha256:{B}", "", r"here\.lock:2: engine==2\.0\+cpu has 1 hashes and 2 wheels"),
        (
            f"    --hash=sha256:{A}\n    # wheel: ruamel.yaml-1.5-1a-py3-none-any.whl 99\n",
            "",
            "has 0 hashes and 0",
        ),
        (
            "ruamel.yaml-1.5-1a-py3",
            "../ruamel.yaml-1.5-1a-py3",
            r"here\.lock:7: '\.\./ruamel\.yaml.*' is no name",
        ),
        ("ruamel.yaml-1.5-1a-py3", "/tmp/yaml-1.5-py3", "is no name of a wheel of ruamel-yaml"),
        ("ruamel.yaml-1.5-1a-py3", "other-1.5-py3", "'other-1.5-py3-none-any.whl' is no name of a wheel of"),
        ("ruamel.yaml-1.5-1a-py3-none-any.whl", "ruamel.yaml.whl", "is no name of a wheel"),
        ("ruamel.yaml-1.5-1a-py3-none-any.whl", "ruamel.yaml-1.5.tar.gz", "is no name of a wheel"),
    ],
)
def test_a_damaged_lock_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    assert old in LOCK
    with pytest.raises(LockError, match=message) as caught:
        parse_lock(LOCK.replace(old, new), Path("here.lock"))
    assert "Fix: run `tandem release lock` again." in str(caught.value)


def test_a_lock_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.lock").write_bytes(b"\xff\xfe")
    for file in ("gone.lock", "binary.lock"):
        with pytest.raises(LockError, match=rf"{file}: .* Fix: "):
            read_lock(tmp_path / file)


@pytest.mark.parametrize(
    ("tag", "machines"),
    [
        ("any", {"x86_64", "aarch64"}),
        ("manylinux_2_17_x86_64.manylinux2014_x86_64", {"x86_64"}),
        ("linux_aarch64", {"aarch64"}),
        ("musllinux_1_2_x86_64", set()),
        ("macosx_11_0_x86_64", set()),
        ("win_amd64", set()),
    ],
)
def test_which_machines_a_wheel_fits(tag: str, machines: set[str]) -> None:
    wheel = Wheel(f"engine-2.0-cp311-cp311-{tag}.whl", 0, A)
    assert {machine for machine in ("x86_64", "aarch64") if wheel.fits(machine)} == machines


def package(*tags: str) -> dict[str, Any]:
    """A package as uv names it, with a wheel for each ``python-abi-platform``."""
    files = [f"engine-2.0-{tag}.whl" for tag in tags]
    wheels = [{"url": f"https://wheels.example/a/{file}", "hashes": {"sha256": A}} for file in files]
    return {"name": "engine", "version": "2.0", "wheels": wheels}


@pytest.mark.parametrize(
    ("chosen", "others"),
    [
        ("cp311-cp311-manylinux_2_17_x86_64", ["cp39-abi3-manylinux_2_28_x86_64", "py3-none-any"]),
        ("cp39-abi3-manylinux_2_17_x86_64", ["py3-none-any"]),
        ("cp311-cp311-manylinux_2_28_x86_64", ["cp311-cp311-manylinux_2_17_x86_64"]),
        ("cp311-cp311-manylinux_2_28_x86_64", ["cp311-cp311-manylinux_2_34_x86_64"]),
        ("cp311-cp311-manylinux_2_28_x86_64", ["cp311-cp311-manylinux_2_28_aarch64"]),
        ("cp311-cp311-manylinux2014_x86_64", ["cp311-cp311-musllinux_1_2_x86_64"]),
        ("py3-none-any", ["cp311-cp311-macosx_11_0_x86_64"]),
    ],
)
@pytest.mark.parametrize("turn", [1, -1])
def test_the_wheel_for_a_platform(chosen: str, others: list[str], turn: int) -> None:
    wheel = choose_wheel(package(*[chosen, *others][::turn]), X86)
    assert wheel == Wheel(f"engine-2.0-{chosen}.whl", 0, A)


def test_a_name_in_a_url_is_decoded() -> None:
    found = package("cp311-cp311-manylinux_2_28_x86_64")
    found["wheels"][0]["url"] = "https://wheels.example/engine-2.0%2Bcpu-py3-none-any.whl#egg"
    assert choose_wheel(found, X86).file == "engine-2.0+cpu-py3-none-any.whl"


def test_a_package_without_a_wheel_for_the_platform() -> None:
    with pytest.raises(LockError, match=r"engine==2\.0 has no wheel for p\. Fix: leave it out"):
        choose_wheel(package("cp311-cp311-manylinux_2_39_x86_64", "cp311-cp311-win_amd64"), X86)


def test_an_index_without_hashes() -> None:
    found = package("py3-none-any")
    found["wheels"][0]["hashes"] = {}
    with pytest.raises(LockError, match=r"no SHA-256 of engine-2\.0-py3-none-any\.whl\. Fix: use an index"):
        choose_wheel(found, X86)
