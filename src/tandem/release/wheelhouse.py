"""A wheelhouse: a directory with exactly the wheels of one platform of a release.

``.index.json`` in it records size and time of every wheel whose hash was found right, so that a complete
wheelhouse is recognized without reading half a gigabyte. A wheel gets its own name only after its hash was
checked.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tandem.release.lockfile import LockError, Pin, Wheel, read_lock
from tandem.release.schema import Platform, Release

INDEX = ".index.json"
PARTIAL = ".partial"


@dataclass(frozen=True)
class Wanted:
    """One wheel that belongs into the wheelhouse, and the package it is for."""

    pin: Pin
    wheel: Wheel


@dataclass
class State:
    """How a wheelhouse compares with its lock."""

    good: list[Wanted] = field(default_factory=list)
    missing: list[Wanted] = field(default_factory=list)
    unchecked: list[Wanted] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every wheel is there with the recorded size and time."""
        return not self.missing and not self.unchecked


def wanted_wheels(directory: Path, release: Release, platform: Platform) -> list[Wanted]:
    """All wheels of a platform: those of its lock and of the build lock; raises LockError."""
    wanted: list[Wanted] = []
    for source in (directory / platform.lock, directory / release.build_lock):
        for pin in read_lock(source):
            wheels = [wheel for wheel in pin.wheels if wheel.fits(platform.machine)]
            if not wheels:
                raise LockError(
                    f"{source}: {pin.name}=={pin.version} has no wheel for {platform.name}. "
                    f"Fix: tandem release lock {release.name}"
                )
            wanted += [Wanted(pin, wheel) for wheel in wheels]
    return list({item.wheel: item for item in wanted}.values())


def read_index(destination: Path) -> dict[str, dict[str, Any]]:
    """``{file: {"sha256", "size", "mtime_ns"}}``; empty where there is none or it is damaged."""
    try:
        document = json.loads((destination / INDEX).read_text(encoding="utf-8"))
        files = document["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    if not isinstance(files, dict):
        return {}
    return {name: entry for name, entry in files.items() if Path(name).name == name}


def write_index(destination: Path, files: dict[str, dict[str, Any]]) -> None:
    """Replace the index in one step; raises OSError."""
    part = destination / f"{INDEX}.part"
    text = json.dumps({"schema": 1, "files": dict(sorted(files.items()))}, indent=1)
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(destination / INDEX)


def record(path: Path, sha256: str) -> dict[str, Any]:
    """The index entry of a wheel whose hash is known to be ``sha256``."""
    status = path.stat()
    return {"sha256": sha256, "size": status.st_size, "mtime_ns": status.st_mtime_ns}


def compare(destination: Path, wanted: Sequence[Wanted]) -> State:
    """Which wheels are there, judged by the index alone; nothing is read or hashed."""
    index = read_index(destination)
    state = State()
    for item in wanted:
        path = destination / item.wheel.file
        if not path.is_file():
            state.missing.append(item)
        elif index.get(item.wheel.file) == record(path, item.wheel.sha256):
            state.good.append(item)
        else:
            state.unchecked.append(item)
    return state


@contextmanager
def exclusive(destination: Path) -> Iterator[None]:
    """Hold the wheelhouse for this process; waits for another ``fetch`` into it to end."""
    destination.mkdir(parents=True, exist_ok=True)
    with (destination / ".lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
