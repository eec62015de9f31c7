"""SHA-256 of files, many at once. Hashing leaves Python's lock, so threads use the cores."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_CHUNK = 4 * 1024 * 1024
_DEFAULT_THREADS = 8
_MOST_THREADS = 64


def hash_file(path: Path) -> tuple[int, str]:
    """Size in bytes and SHA-256 in hexadecimal of what is read from a file; raises OSError."""
    digest = hashlib.sha256()
    view = memoryview(bytearray(_CHUNK))
    size = 0
    with path.open("rb", buffering=0) as stream:
        while count := stream.readinto(view):
            digest.update(view[:count])
            size += count
    return size, digest.hexdigest()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file in hexadecimal; raises OSError."""
    return hash_file(path)[1]


def threads(wanted: int | None) -> int:
    """``wanted``, at most 64; where that is nothing the CPUs this process may use, at most 8."""
    if wanted and wanted > 0:
        return min(wanted, _MOST_THREADS)
    return min(_DEFAULT_THREADS, len(os.sched_getaffinity(0)))
