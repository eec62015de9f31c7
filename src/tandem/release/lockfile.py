"""Lock files: a requirements file with hashes that also says which wheel each hash belongs to.

An entry looks like this; pip and uv read the first lines, the comments are ours::

    aiohttp==3.14.5 \\
        --hash=sha256:0133c3…
        # wheel: aiohttp-3.14.5-cp311-cp311-manylinux_2_28_x86_64.whl 1749832

Hashes and wheel comments come in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9-]*)==(?P<version>[^\s;\\]+)(?: \\)?$")
_HASH = re.compile(r"^    --hash=sha256:(?P<sha256>[0-9a-f]{64})(?: \\)?$")
_WHEEL = re.compile(r"^    # wheel: (?P<file>\S+)(?: (?P<size>\d+))?$")
# NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl: a file name, so that it cannot lead out of the wheelhouse
WHEEL_NAME = r"^[A-Za-z0-9][\w.]*-[\w.+!]+(-\d\w*)?-[\w.]+-[\w.]+-[\w.]+\.whl$"
_AGAIN = "Fix: run `tandem release lock` again."


class LockError(ValueError):
    """A lock file that cannot be used; the message names file and line."""


@dataclass(frozen=True)
class Wheel:
    """One wheel file: its name, size in bytes (0 where nobody could ask) and SHA-256 in hexadecimal."""

    file: str
    size: int
    sha256: str

    @property
    def tags(self) -> tuple[list[str], list[str], list[str]]:
        """Python, ABI and platform tags of the file name."""
        python, abi, platform = self.file.removesuffix(".whl").split("-")[-3:]
        return python.split("."), abi.split("."), platform.split(".")

    def fits(self, machine: str) -> bool:
        """Whether the wheel is for Linux with glibc on this machine (``x86_64``, ``aarch64``) or for any."""
        return any(
            tag == "any" or (tag.startswith(("linux_", "manylinux")) and tag.endswith(f"_{machine}"))
            for tag in self.tags[2]
        )

    def glibc(self, machine: str) -> list[tuple[int, int]]:
        """The C library versions that its tags for this machine ask for; (0, 0) is any version."""
        return [_glibc(tag) for tag in self.tags[2] if tag == "any" or tag.endswith(f"_{machine}")]


@dataclass(frozen=True)
class Pin:
    """One package of a lock: normalized name, version, and the wheels it may come from."""

    name: str
    version: str
    wheels: tuple[Wheel, ...]

    def text(self) -> str:
        """The entry as it stands in the lock file."""
        lines = [f"{self.name}=={self.version} \\"]
        lines += [f"    --hash=sha256:{wheel.sha256} \\" for wheel in self.wheels]
        lines[-1] = lines[-1].removesuffix(" \\")
        lines += [f"    # wheel: {wheel.file} {wheel.size or ''}".rstrip() for wheel in self.wheels]
        return "\n".join(lines) + "\n"


def _glibc(tag: str) -> tuple[int, int]:
    """C library version of a platform tag: manylinux_2_28_x86_64 is (2, 28)."""
    if match := re.match(r"manylinux_(\d+)_(\d+)_", tag):
        return int(match[1]), int(match[2])
    return {"manylinux2014": (2, 17), "manylinux2010": (2, 12), "manylinux1": (2, 5)}.get(
        tag.partition("_")[0], (0, 0)
    )


def normalized(name: str) -> str:
    """A package's name as package indexes write it: lower case, ``-`` between words."""
    return re.sub(r"[-_.]+", "-", name).lower()


def format_lock(pins: Iterable[Pin], header: str) -> str:
    """The text of a lock file; ``header`` is one or more lines without ``#``."""
    comments = "".join(f"# {line}\n" for line in header.splitlines())
    return comments + "".join(pin.text() for pin in sorted(pins, key=lambda pin: pin.name))


def parse_lock(text: str, source: Path) -> list[Pin]:
    """The entries of a lock file in order; raises LockError naming ``source`` and the line."""
    found: list[tuple[str, str, int, list[str], list[tuple[str, int]]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if match := _PIN.match(line):
            found.append((match["name"], match["version"], number, [], []))
        elif found and (match := _HASH.match(line)):
            found[-1][3].append(match["sha256"])
        elif found and (match := _WHEEL.match(line)):
            found[-1][4].append((match["file"], int(match["size"] or 0)))
        else:
            raise LockError(f"{source}:{number}: {line.strip()!r} is not part of a lock. {_AGAIN}")
    pins = []
    for name, version, number, hashes, files in found:
        if not hashes or len(hashes) != len(files):
            raise LockError(
                f"{source}:{number}: {name}=={version} has {len(hashes)} hashes and {len(files)} wheels, "
                f"wanted one of each per wheel. {_AGAIN}"
            )
        for file, _size in files:
            if not re.match(WHEEL_NAME, file) or normalized(file.partition("-")[0]) != name:
                raise LockError(f"{source}:{number}: {file!r} is no name of a wheel of {name}. {_AGAIN}")
        wheels = tuple(Wheel(file, size, sha256) for (file, size), sha256 in zip(files, hashes, strict=True))
        pins.append(Pin(name, version, wheels))
    return pins


def read_lock(path: Path) -> list[Pin]:
    """The entries of the lock file at ``path``; raises LockError, also where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise LockError(f"{path}: {problem.strerror}. {_AGAIN}") from problem
    except UnicodeDecodeError as problem:
        raise LockError(f"{path}: is not text ({problem.reason}). {_AGAIN}") from problem
    return parse_lock(text, path)
