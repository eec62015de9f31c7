"""Writing files so that a reader sees the old content or the new one, never a part of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace ``path`` with ``text`` (UTF-8) in one step; raises OSError and leaves the old file."""
    # Not tempfile, whose imports take longer than all of this. Only one process writes a given file, so what
    # has this name was left by a process with the same number that was killed.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with suppress(FileNotFoundError):
            temporary.unlink()
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException as problem:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(problem, OSError):  # name the file that the caller knows
            raise OSError(problem.errno, problem.strerror, str(path)) from problem
        raise


def remove(path: Path) -> bool:
    """Remove a file if it is there; returns whether it was."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
