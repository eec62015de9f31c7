"""Is a release on this host what its manifest says?"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tandem_host.findings import Finding, as_json, error, warning
from tandem_host.release import tree
from tandem_host.release.tree import Entry

_SHOWN = 20  # findings about single files; the rest is a number
_AGAIN = "Remove the directory and run ansible-playbook site.yml: the release is built again."


def command(directory: Path, manifest: Path | None, quick: bool, workers: int) -> dict[str, Any]:
    """Compare ``directory`` with its manifest: every hash, or with ``quick`` size, time and rights.

    ``manifest`` is another one to go by (``-``: standard input), for a tree whose own has not arrived yet.
    A directory without a manifest is an answer (``release.manifest.missing``), not bad usage.
    """
    begun = time.monotonic()
    document, findings = _read_manifest(manifest or directory / tree.MANIFEST)
    entries: list[Entry] = []
    if document is not None:
        entries, problems = _read_lists(directory, document)
        findings += problems
    if document is not None and not findings:
        found = _quick(directory, entries) if quick else _full(directory, entries, document, workers)
        findings += _limited(list(found), directory)
    return {
        "directory": str(directory),
        "complete": not any(item.level == "error" for item in findings),
        "quick": quick,
        **{key: (document or {}).get(key) for key in ("name", "digest")},
        "files": len(entries),
        "seconds": round(time.monotonic() - begun, 2),
        "findings": as_json(findings),
    }


def _read_manifest(path: Path) -> tuple[dict[str, Any] | None, list[Finding]]:
    where = "standard input" if str(path) == "-" else str(path)
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        text = f"{path} does not exist: the release was not built here, or not to its end."
        return None, [error("release.manifest.missing", text, "Run ansible-playbook site.yml.")]
    try:
        document = json.loads(content)
        stated = [
            *(document["lists"][file] for file in (tree.HASHES, tree.STATS)),
            document["tree"]["digest"],
        ]
    except (ValueError, KeyError, TypeError):
        stated = [None]
    if not all(isinstance(value, str) for value in stated):
        text = f"{where} is not the manifest of a release."
        return None, [error("release.manifest.invalid", text, _AGAIN)]
    return document, []


def _read_lists(directory: Path, document: dict[str, Any]) -> tuple[list[Entry], list[Finding]]:
    texts = {}
    for file in (tree.HASHES, tree.STATS):
        path = directory / file
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return [], [error("release.list.missing", f"{path} does not exist.", _AGAIN)]
        actual = hashlib.sha256(content).hexdigest()
        if actual != document["lists"][file]:
            text = f"{path} has SHA-256 {actual}, the manifest says {document['lists'][file]}."
            return [], [error("release.list.changed", text, _AGAIN)]
        texts[file] = content.decode("utf-8", errors="replace")
    try:
        return tree.parse(texts[tree.HASHES], texts[tree.STATS]), []
    except tree.ListError as problem:
        return [], [error("release.list.invalid", f"{directory}: {problem}.", _AGAIN)]


def _quick(directory: Path, entries: list[Entry]) -> Iterator[Finding]:
    for entry in entries:
        path = directory / entry.name
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            yield error("release.file.missing", f"{path} is missing.", _AGAIN)
            continue
        if entry.target:
            yield from _link(path, entry)
        elif not stat.S_ISREG(status.st_mode):
            text = f"{path} is not a file of its own, the manifest says that it is."
            yield error("release.file.changed", text, _AGAIN)
        elif status.st_size != entry.size:
            text = f"{path} has {status.st_size} bytes, the manifest says {entry.size}."
            yield error("release.file.changed", text, _AGAIN)
        elif status.st_mtime_ns != entry.mtime_ns or stat.S_IMODE(status.st_mode) != entry.mode:
            text = f"{path} has another time or other rights than when it was sealed."
            yield error(
                "release.file.touched",
                text,
                f"/opt/tandem/libexec/tandem-host release verify {directory}; or build it again.",
            )


def _link(path: Path, entry: Entry) -> Iterator[Finding]:
    actual = str(path.readlink()) if path.is_symlink() else "no link"
    if actual != entry.target:
        text = f"{path} leads to {actual}, the manifest says {entry.target}."
        yield error("release.file.changed", text, _AGAIN)


def _full(directory: Path, entries: list[Entry], document: dict[str, Any], workers: int) -> Iterator[Finding]:
    if tree.tree_digest(entries) != document["tree"]["digest"]:
        text = f"{directory}: the lists do not give the tree digest of the manifest."
        yield error("release.list.invalid", text, _AGAIN)
    try:
        there = {entry.name: entry for entry in tree.walk(directory)}
    except tree.UnlistableError as problem:
        yield error("release.file.name", f"{problem}, and is not part of the release.", _AGAIN)
        return
    hashes = tree.hash_all(directory, (entry.name for entry in entries if not entry.target), workers)
    for entry in entries:
        path = directory / entry.name
        present = there.pop(entry.name, None)
        if present is None:
            yield error("release.file.missing", f"{path} is missing.", _AGAIN)
        elif entry.target:
            yield from _link(path, entry)
        elif present.target:
            text = f"{path} is a link to {present.target}, the manifest says that it is a file of its own."
            yield error("release.file.changed", text, _AGAIN)
        elif hashes.get(entry.name) != entry.sha256:
            actual = hashes.get(entry.name, "unreadable")
            text = f"{path} has SHA-256 {actual}, the manifest says {entry.sha256}."
            yield error("release.file.changed", text, _AGAIN)
        elif present.executable != entry.executable:
            wanted = "executable" if entry.executable else "not executable"
            yield error("release.file.mode", f"{path} must be {wanted}.", _AGAIN)
    for name in sorted(there):
        path = directory / name
        if name.endswith(".pyc"):
            text = f"{path} was compiled after the release was sealed."
            yield warning(
                "release.bytecode.extra", text, f"rm {path}; run the release's Python as an ordinary user."
            )
        else:
            yield error("release.file.extra", f"{path} is not part of the release.", f"rm {path}")


def _limited(findings: list[Finding], directory: Path) -> list[Finding]:
    findings.sort(key=lambda item: item.level != "error")
    rest = len(findings) - _SHOWN
    if rest <= 0:
        return findings
    level = error if findings[_SHOWN].level == "error" else warning
    return [
        *findings[:_SHOWN],
        level("release.file.more", f"{directory}: {rest} more findings of this kind.", _AGAIN),
    ]
