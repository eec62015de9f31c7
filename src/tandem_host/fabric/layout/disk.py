"""Files with everything that makes them what they were: bytes, mode, owner, time of change."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

#: No program takes a file of this name for configuration: a run that is killed may leave one.
_BESIDE = ".{}.tandem"


@dataclass(frozen=True)
class Look:
    """One regular file; ``mtime`` in nanoseconds."""

    content: bytes
    mode: int
    uid: int
    gid: int
    mtime: int

    @property
    def sha256(self) -> str:
        """The content's hash in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


def look(path: Path) -> Look | None:
    """The file as it is; None where there is none. Raises OSError, also for a link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(stream.fileno())
        return Look(stream.read(), status.st_mode & 0o7777, status.st_uid, status.st_gid, status.st_mtime_ns)


def write(path: Path, wanted: Look, keep_time: bool = True) -> None:
    """Make the file this, in one step and so that a power cut leaves the old one or this; raises OSError."""
    beside = _beside(path)
    with suppress(FileNotFoundError):
        beside.unlink()
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(wanted.content)
        stream.flush()
        if (wanted.uid, wanted.gid) != (os.geteuid(), os.getegid()):
            os.fchown(stream.fileno(), wanted.uid, wanted.gid)
        os.fchmod(stream.fileno(), wanted.mode)
        if keep_time:
            os.utime(stream.fileno(), ns=(wanted.mtime, wanted.mtime))
        os.fsync(stream.fileno())
    beside.replace(path)
    settle(path.parent)


def remove(path: Path) -> None:
    """Remove the file, and what a killed run left beside it."""
    for each in (_beside(path), path):
        with suppress(FileNotFoundError):
            each.unlink()
    if path.parent.is_dir():
        settle(path.parent)


def tidy(path: Path) -> None:
    """Remove what a killed run left beside the file."""
    with suppress(FileNotFoundError):
        _beside(path).unlink()


def settle(folder: Path) -> None:
    """Names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Only one process at a time is inside for this file; the kernel lets go when it is killed."""
    import fcntl

    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _beside(path: Path) -> Path:
    return path.with_name(_BESIDE.format(path.name))
