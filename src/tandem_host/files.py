"""Writing files so that a reader sees the old content or the new one, never a part of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace ``path`` with ``text`` (UTF-8) in one step; raises OSError and leaves the old file."""
    # Not tempfile, whose imports take longer than all of this. Only one process writes a given file.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def remove(path: Path) -> bool:
    """Remove a file if it is there; returns whether it was."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
