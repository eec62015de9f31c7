"""What was before: numbered copies of the files that a change replaces, and which change waits to be proved.

``backups/0001`` is the original. Each copy says which state it was taken in (``before``), so that one step
back leads to the state before that one. ``pending.json`` is there from before the first file is touched until
a run has proved the rails, ``current.json`` says which change was proved last (0: none).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem_host import files, strict
from tandem_host.fabric.layout import disk
from tandem_host.fabric.layout.disk import Look
from tandem_host.findings import Finding, UnusableError, error
from tandem_host.host import Host


@dataclass(frozen=True)
class Entry:
    """One file as it was; ``kept`` is None where there was none. ``number``: the copy that it is in."""

    path: str
    number: int
    kept: dict[str, Any] | None


@dataclass(frozen=True)
class Copy:
    """One numbered copy."""

    number: int
    before: int
    entries: tuple[Entry, ...]
    after: dict[str, str | None]


@dataclass(frozen=True)
class Store:
    """The copies of one host; ``folder`` is an absolute path on it."""

    host: Host
    folder: Path

    def at(self, *names: str) -> Path:
        """Where a part of the store is."""
        return self.host.path(self.folder).joinpath(*names)

    def numbers(self) -> list[int]:
        """The copies that are complete, oldest first."""
        folder = self.at("backups")
        if not folder.is_dir():
            return []
        return sorted(int(item.name) for item in folder.iterdir() if item.name.isdecimal())

    def keep(self, paths: Iterable[str], after: dict[str, str | None]) -> int:
        """Copy these files as they are, all on the disk before the copy counts; returns its number.

        ``after`` says what they will be: the sha256 of each, None for one that goes.
        """
        number = max(self.numbers(), default=0) + 1
        partial = self.at("backups", f"{number:04d}.partial")
        if partial.exists():
            shutil.rmtree(partial)
        partial.mkdir(parents=True, mode=0o700)
        listed = []
        for position, path in enumerate(paths):
            seen = disk.look(self.host.path(path))
            kept: dict[str, Any] | None = None
            if seen is not None:
                kept = {
                    "copy": f"{position:04d}",
                    "mode": f"{seen.mode:04o}",
                    "uid": seen.uid,
                    "gid": seen.gid,
                    "mtime_ns": seen.mtime,
                    "sha256": seen.sha256,
                }
                disk.write(partial / f"{position:04d}", Look(seen.content, 0o600, *_me(), seen.mtime))
            listed.append({"path": path, "existed": seen is not None, "kept": kept})
        document = {"schema": 1, "number": number, "before": self.current(), "files": listed, "after": after}
        _write(partial / "manifest.json", document)
        disk.settle(partial)
        partial.rename(self.at("backups", f"{number:04d}"))
        disk.settle(self.at("backups"))
        return number

    def forget(self, number: int) -> None:
        """Drop the copy of a change that was undone: its files are what they were, so it is no original."""
        shutil.rmtree(self.at("backups", f"{number:04d}"), ignore_errors=True)

    def copy(self, number: int) -> Copy:
        """One copy's manifest; raises UnusableError when it is damaged."""
        file = self.at("backups", f"{number:04d}", "manifest.json")
        try:
            document = strict.parse(strict.read_text(file))
            entries = tuple(Entry(item["path"], number, item["kept"]) for item in document["files"])
            return Copy(number, int(document["before"]), entries, dict(document["after"]))
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise UnusableError([_damaged(self.host, str(file), str(problem))]) from problem

    def content(self, entry: Entry) -> Look | None:
        """A file as it was, proved by its hash; raises UnusableError when the copy is damaged."""
        if entry.kept is None:
            return None
        kept = entry.kept
        file = self.at("backups", f"{entry.number:04d}", str(kept["copy"]))
        seen = disk.look(file)
        if seen is None or seen.sha256 != kept["sha256"]:
            raise UnusableError([_damaged(self.host, str(file), f"it is not {entry.path} as it was")])
        return Look(seen.content, int(kept["mode"], 8), kept["uid"], kept["gid"], kept["mtime_ns"])

    def current(self) -> int:
        """The change that was proved last; 0 where Tandem has changed nothing, or all was put back."""
        return int((self._read("current.json") or {}).get("number", 0))

    def set_current(self, number: int, more: dict[str, Any]) -> None:
        """The host is in the state that this change made (0: the original one)."""
        _write(self.at("current.json"), {"number": number, **more})

    def pending(self) -> dict[str, Any] | None:
        """The change that waits to be proved: its ``number`` and ``deadline`` (seconds since the epoch)."""
        return self._read("pending.json")

    def set_pending(self, number: int, deadline: float) -> None:
        """From now on a change waits to be proved."""
        _write(self.at("pending.json"), {"number": number, "deadline": deadline})
        disk.settle(self.at())

    def clear_pending(self) -> None:
        """No change waits any more."""
        disk.remove(self.at("pending.json"))

    def say(self, document: dict[str, Any]) -> dict[str, Any]:
        """Keep the last result for whoever comes later; returns it."""
        _write(self.at("result.json"), document)
        return document

    def _read(self, name: str) -> dict[str, Any] | None:
        file = self.at(name)
        try:
            document = strict.parse(strict.read_text(file))
            return {**document, "number": int(document["number"])}
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as problem:
            text = f"{self.host.name}: {file} may be read by root alone."
            raise UnusableError(
                [error("fabric.backup.denied", text, "Run the same command with sudo.")]
            ) from problem
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise UnusableError([_damaged(self.host, str(file), str(problem))]) from problem


def _write(file: Path, document: dict[str, Any]) -> None:
    files.write_atomic(file, json.dumps(document, indent=2) + "\n", 0o600)


def _me() -> tuple[int, int]:
    import os

    return os.geteuid(), os.getegid()


def _damaged(host: Host, file: str, what: str) -> Finding:
    text = f"{host.name}: {file} is damaged ({what})."
    fix = (
        f"Look at the copies (sudo ls -lR {Path(file).parent}), put back by hand "
        f"what differs, then remove {file}: the next site.yml goes on from what is there."
    )
    return error("fabric.backup.damaged", text, fix)
