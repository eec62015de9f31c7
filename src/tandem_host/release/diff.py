"""Unified diffs, read strictly and applied exactly.

A hunk applies at the line its header names and nowhere else, and every context and removed line must be there
byte for byte. A release installs known bytes, so a patch that needs searching was made for something else.
Understood are changed files and new files (``--- /dev/null``); renames, deletions and binary patches are
not. What stands above the first file is the header: a title and the fields of ``HEADER``, so that whoever
meets the patch later knows whether it is still needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

HEADER = (b"Why:", b"Upstream:", b"Drop when:")
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = b"\\ No newline at end of file"
_REFUSED = (
    b"rename from ",
    b"deleted file mode ",
    b"GIT binary patch",
    b"Binary files ",
    b"new file mode 120000",
)
_SHOWN = 80  # characters of a line in a message


class DiffError(ValueError):
    """A diff that cannot be read; the message names the line."""


class MismatchError(ValueError):
    """A file that is not what the diff was made for; the message names hunk and line."""


@dataclass(frozen=True)
class Hunk:
    """One change: ``before`` at line ``old_start`` becomes ``after`` at line ``new_start``.

    Lines are bytes with their line end; starts count from 1, and are 0 for an empty side of a new file.
    """

    old_start: int
    new_start: int
    before: tuple[bytes, ...]
    after: tuple[bytes, ...]

    def reversed(self) -> Hunk:
        """The hunk that undoes this one."""
        return Hunk(self.new_start, self.old_start, self.after, self.before)


@dataclass(frozen=True)
class FileDiff:
    """All hunks for one file, in order; ``path`` is relative, without the ``a/`` or ``b/``."""

    path: str
    created: bool
    hunks: tuple[Hunk, ...]


def parse(text: bytes) -> list[FileDiff]:
    """The files that a patch changes; raises DiffError, also where its header says too little."""
    lines = text.split(b"\n")
    if lines and lines[-1] == b"":
        lines.pop()
    files: list[FileDiff] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith(_REFUSED):
            raise DiffError(
                f"line {at + 1}: {_show(lines[at])} is not supported; only changed and new files are"
            )
        if lines[at].startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ "):
            if not files:
                _check_header(lines[:at])
            diff, at = _file(lines, at)
            files.append(diff)
        elif lines[at].startswith(b"@@ "):
            raise DiffError(f"line {at + 1}: a hunk without `---` and `+++` lines before it")
        else:
            at += 1
    if not files:
        raise DiffError("no `---` and `+++` lines: nothing to apply")
    return files


def _check_header(header: Sequence[bytes]) -> None:
    if not header or not header[0].strip() or header[0].startswith((*HEADER, b"diff ")):
        raise DiffError("line 1: the header has no title; it says in one line what the patch makes true")
    for field in HEADER:
        if not any(line.startswith(field) and line != field for line in header):
            raise DiffError(f"the header has no line `{field.decode()} …` above the first `---`")


def _file(lines: Sequence[bytes], at: int) -> tuple[FileDiff, int]:
    old, new = (line[4:].split(b"\t")[0].strip().decode("utf-8") for line in lines[at : at + 2])
    if new == "/dev/null":
        raise DiffError(f"line {at + 2}: a deleted file is not supported")
    path = _relative(new, "b/", at + 2)
    created = old == "/dev/null"
    if not created and _relative(old, "a/", at + 1) != path:
        raise DiffError(f"line {at + 1}: {old} becomes {new}; renames are not supported")
    at += 2
    hunks: list[Hunk] = []
    while at < len(lines) and lines[at].startswith(b"@@ "):
        hunk, at = _hunk(lines, at)
        hunks.append(hunk)
    if not hunks:
        raise DiffError(f"line {at}: {path} has no hunks")
    if created and (len(hunks) > 1 or hunks[0].before):
        raise DiffError(f"line {at}: {path} is new and yet has old lines")
    return FileDiff(path, created, tuple(hunks)), at


def _relative(name: str, prefix: str, line: int) -> str:
    path = PurePosixPath(name.removeprefix(prefix))
    if (
        not name.startswith(prefix)
        or path.is_absolute()
        or ".." in path.parts
        or not path.parts
        or "\0" in name
    ):
        raise DiffError(f"line {line}: {name!r} is not a path below {prefix}")
    return str(path)


def _hunk(lines: Sequence[bytes], at: int) -> tuple[Hunk, int]:
    match = _HUNK.match(lines[at])
    if not match:
        raise DiffError(f"line {at + 1}: {_show(lines[at])} is not a hunk header")
    old_start, old_count, new_start, new_count = (int(value) if value else 1 for value in match.groups())
    header = at + 1
    before: list[bytes] = []
    after: list[bytes] = []
    last: list[list[bytes]] = []
    at += 1
    while at < len(lines) and (len(before) < old_count or len(after) < new_count or lines[at] == _NO_NEWLINE):
        line = lines[at]
        if line == _NO_NEWLINE and last:
            for side in last:
                side[-1] = side[-1].removesuffix(b"\n")
            last = []
        elif line[:1] in (b" ", b"-", b"+") or not line:
            last = [side for side, marks in ((before, b" -"), (after, b" +")) if (line[:1] or b" ") in marks]
            for side in last:
                side.append(line[1:] + b"\n")
        else:
            raise DiffError(f"line {at + 1}: {_show(line)} is no line of a hunk")
        at += 1
    if (len(before), len(after)) != (old_count, new_count):
        raise DiffError(
            f"line {header}: the hunk names {old_count} old and {new_count} new lines and has "
            f"{len(before)} and {len(after)}"
        )
    rest = lines[at] if at < len(lines) else b""
    # Lines beyond the header's numbers would be lost without a word. `-- ` is git format-patch's signature.
    if rest.startswith((b" ", b"-", b"+")) and not rest.startswith(b"--- ") and rest != b"-- ":
        raise DiffError(
            f"line {header}: the hunk names {old_count} old and {new_count} new lines and goes on: "
            f"{_show(rest)}"
        )
    return Hunk(old_start, new_start, tuple(before), tuple(after)), at


def apply(content: bytes, hunks: Sequence[Hunk]) -> bytes:
    """``content`` with all hunks applied; raises MismatchError, and never applies a part."""
    old = _split(content)
    new: list[bytes] = []
    taken = 0
    for number, hunk in enumerate(hunks, 1):
        start = hunk.old_start - 1 if hunk.before else hunk.old_start
        if start < taken:
            raise MismatchError(
                f"hunk {number}: line {hunk.old_start} lies before the end of the hunk above it"
            )
        for offset, wanted in enumerate(hunk.before):
            line = start + offset
            if line >= len(old):
                raise MismatchError(
                    f"hunk {number}: line {line + 1}: the file ends here, wanted {_show(wanted)}"
                )
            if old[line] != wanted:
                raise MismatchError(
                    f"hunk {number}: line {line + 1} is {_show(old[line])}, wanted {_show(wanted)}"
                )
        if start > len(old):
            raise MismatchError(f"hunk {number}: line {hunk.old_start}: the file has only {len(old)} lines")
        new += old[taken:start]
        if len(new) != (hunk.new_start - 1 if hunk.after else hunk.new_start):
            raise MismatchError(
                f"hunk {number}: its new line number {hunk.new_start} does not fit the hunks above it"
            )
        new += hunk.after
        taken = start + len(hunk.before)
    return b"".join(new + old[taken:])


def _split(content: bytes) -> list[bytes]:
    parts = content.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _show(line: bytes) -> str:
    text = line.rstrip(b"\n").decode("utf-8", errors="replace")
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
