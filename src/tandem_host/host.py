"""The host as a directory tree: the real one, or a copy of parts of it under ``--root``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Host:
    """Reads the files of one host; ``root`` is ``/`` on the host itself."""

    root: Path = Path("/")

    @property
    def live(self) -> bool:
        """Whether the kernel of this machine may be asked (otherwise only the tree is read)."""
        return self.root == Path("/")

    @property
    def name(self) -> str:
        """The host's own name: from ``etc/hostname`` of a tree, from the kernel on a live host."""
        if self.live:
            return os.uname().nodename
        return self.read("/etc/hostname") or self.root.name

    def path(self, absolute: str | Path) -> Path:
        """Where the file with this absolute path on the host is."""
        return self.root / str(absolute).lstrip("/")

    def read(self, absolute: str | Path) -> str | None:
        """The file's text without surrounding white space; None if it cannot be read.

        Sysfs answers EINVAL for attributes that have no value, so "cannot be read" is an ordinary answer.
        """
        try:
            return self.path(absolute).read_text(encoding="utf-8", errors="replace").strip()
        except (OSError, ValueError):  # ValueError: a zero byte in a name
            return None

    def read_int(self, absolute: str | Path) -> int | None:
        """The file's content as a decimal number; None if it cannot be read or is not a number."""
        text = self.read(absolute)
        try:
            return None if text is None else int(text)
        except ValueError:
            return None

    def names(self, absolute: str | Path) -> list[str]:
        """Names in a directory, sorted; empty if there is no such directory."""
        try:
            return sorted(os.listdir(self.path(absolute)))  # noqa: PTH208 - one call, no Path object per entry
        except (OSError, ValueError):
            return []

    def exists(self, absolute: str | Path) -> bool:
        """Whether the path exists, as far as this user can see."""
        try:
            return self.path(absolute).exists()
        except (OSError, ValueError):
            return False
