"""The files of a built release: how they are listed, hashed and written down.

Two lists stand beside the manifest. ``files.sha256`` has the format of sha256sum (``sha256sum -c`` reads it);
``files.stat`` has size, time in nanoseconds, rights and name, tab-separated, and for a symbolic link
``link``, its target and its name. Bytecode in ``__pycache__`` is a part of the tree: it is compiled at build
time with ``--invalidation-mode unchecked-hash``, so it depends on the sources alone and is the same in every
build.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tandem_host.hashing import sha256_of, threads

MANIFEST = "manifest.json"
HASHES = "files.sha256"
STATS = "files.stat"
OWN = frozenset({MANIFEST, HASHES, STATS})
_LINK_FIELDS = 3


class ListError(ValueError):
    """A list that cannot be read; the message names file and line."""


class UnlistableError(ValueError):
    """A name that the lists cannot hold; the message names directory and name."""


@dataclass(frozen=True)
class Entry:
    """A regular file or symbolic link; ``name`` is relative with ``/``, ``target`` is empty for a file."""

    name: str
    size: int = 0
    mtime_ns: int = 0
    mode: int = 0
    target: str = ""
    sha256: str = ""

    @property
    def executable(self) -> bool:
        """Whether the owner may execute it."""
        return bool(self.mode & stat.S_IXUSR)


def walk(directory: Path) -> Iterator[Entry]:
    """Every file and link below ``directory`` except the lists and the manifest, not in order.

    Links are not followed. Raises OSError; UnlistableError for a name or target that the lists cannot hold.
    """
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(directory / prefix) as entries:
            for item in entries:
                name = prefix + item.name
                _check_listable(directory / prefix, item.name)
                if item.is_symlink():
                    target = str(Path(item.path).readlink())
                    _check_listable(directory / name, target)
                    yield Entry(name, target=target)
                elif item.is_dir():
                    pending.append(f"{name}/")
                elif item.is_file() and name not in OWN:
                    status = item.stat()
                    yield Entry(name, status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode))


def _check_listable(where: Path, name: str) -> None:
    if any(letter in name for letter in "\n\r\t\\"):
        raise UnlistableError(f"{where}: {name!r} has a line break, tab or backslash")
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise UnlistableError(f"{where}: {name!r} is not UTF-8") from None


def hash_all(directory: Path, names: Iterable[str], workers: int) -> dict[str, str]:
    """SHA-256 by name. Files that cannot be read (any more) are left out."""

    def one(name: str) -> str:
        try:
            return sha256_of(directory / name)
        except OSError:
            return ""

    listed = list(names)
    with ThreadPoolExecutor(max_workers=threads(workers)) as pool:
        hashes = pool.map(one, listed, chunksize=64)
    return {name: sha256 for name, sha256 in zip(listed, hashes, strict=True) if sha256}


def tree_digest(entries: Iterable[Entry]) -> str:
    """One SHA-256 over names, contents, link targets and executable bits; times and owners do not count."""
    whole = hashlib.sha256()
    for entry in sorted(entries, key=lambda entry: entry.name):
        kind = "link" if entry.target else "exec" if entry.executable else "file"
        whole.update(f"{kind} {entry.target or entry.sha256} {entry.name}\n".encode())
    return whole.hexdigest()


def hashes_text(entries: Iterable[Entry]) -> str:
    """The text of ``files.sha256``."""
    files = sorted((entry.name, entry.sha256) for entry in entries if not entry.target)
    return "".join(f"{sha256}  {name}\n" for name, sha256 in files)


def stats_text(entries: Iterable[Entry]) -> str:
    """The text of ``files.stat``."""
    lines = []
    for entry in sorted(entries, key=lambda entry: entry.name):
        if entry.target:
            lines.append(f"link\t{entry.target}\t{entry.name}\n")
        else:
            lines.append(f"{entry.size}\t{entry.mtime_ns}\t{entry.mode:04o}\t{entry.name}\n")
    return "".join(lines)


def parse(hashes: str, stats: str) -> list[Entry]:
    """The entries of the two lists; raises ListError where they are damaged or contradict each other."""
    by_name: dict[str, str] = {}
    for number, line in enumerate(_lines(hashes), 1):
        sha256, separator, name = line.partition("  ")
        if not separator or len(sha256) != hashlib.sha256().digest_size * 2:
            raise ListError(f"{HASHES}:{number}: {line[:80]!r} is not a hash and a name")
        by_name[name] = sha256
    entries = []
    for number, line in enumerate(_lines(stats), 1):
        try:
            entries.append(_entry(line.split("\t"), by_name))
        except (ValueError, KeyError):
            raise ListError(f"{STATS}:{number}: {line[:80]!r} does not fit {HASHES}") from None
    if by_name:
        raise ListError(f"{HASHES}: {next(iter(by_name))!r} is not in {STATS}")
    return entries


def _entry(fields: list[str], hashes: dict[str, str]) -> Entry:
    """The entry of one line of ``files.stat``; takes its hash out of ``hashes``."""
    if fields[0] == "link" and len(fields) == _LINK_FIELDS:
        return Entry(fields[2], target=fields[1])
    size, mtime_ns, mode, name = fields
    return Entry(name, int(size), int(mtime_ns), int(mode, 8), sha256=hashes.pop(name))


def _lines(text: str) -> list[str]:
    """Lines ended by a line feed: a name may hold the other characters that ``splitlines`` cuts at."""
    return text.removesuffix("\n").split("\n") if text else []
