"""Manifests of model directories: sha256 and size of every file under its relative name."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tandem_host import files, hashing
from tandem_host.findings import Finding, UnusableError, as_json, error, has_errors
from tandem_host.strict import Fields, load, shown

_HEX = frozenset("0123456789abcdef")
_SHA256_DIGITS = 64


@dataclass(frozen=True)
class Entry:
    """One file; ``name`` relative with ``/``, ``size`` in bytes, ``sha256`` in hexadecimal."""

    name: str
    size: int
    sha256: str


def names(directory: Path) -> tuple[list[str], list[Finding]]:
    """Names of all files, sorted, links followed; a finding for each link that leads nowhere.

    Raises UnusableError when there is no such directory.
    """
    try:
        there = stat.S_ISDIR(directory.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        there = False
    except OSError as problem:
        raise UnusableError([unreadable(directory, problem)]) from problem
    if not there:
        text = f"{directory} is not a directory."
        fix = "ansible-playbook site.yml copies the model there."
        raise UnusableError([error("weights.directory.missing", text, fix)])
    found: list[str] = []
    findings: list[Finding] = []
    seen: set[tuple[int, int]] = set()
    _walk(directory, "", found, findings, seen)
    return sorted(found), findings


def _walk(
    directory: Path, prefix: str, found: list[str], findings: list[Finding], seen: set[tuple[int, int]]
) -> None:
    try:
        status = directory.stat()
        items = sorted(directory.iterdir())
    except OSError as problem:
        findings.append(unreadable(directory, problem))
        return
    if (status.st_dev, status.st_ino) in seen:
        text = f"{directory} is a link to a directory above it."
        findings.append(error("weights.link.loop", text, f"rm {directory}"))
        return
    above = seen | {(status.st_dev, status.st_ino)}
    for item in items:
        name = prefix + item.name
        try:
            mode = item.stat().st_mode
        except OSError as problem:
            findings.append(_lost(item, problem))
            continue
        if stat.S_ISDIR(mode):
            _walk(item, f"{name}/", found, findings, above)
        elif stat.S_ISREG(mode):
            found.append(name)
        else:
            text = f"{item} is neither a file nor a directory."
            findings.append(error("weights.file.special", text, f"rm {item}"))


def _lost(item: Path, problem: OSError) -> Finding:
    """Why a name in a directory leads to nothing that can be looked at."""
    if problem.errno not in (errno.ENOENT, errno.ELOOP) or not item.is_symlink():
        return unreadable(item, problem)
    text = f"{item} leads to {os.readlink(item)}, which does not exist."  # noqa: PTH115 - as written
    fix = "Copy the model with its links resolved (rsync --copy-links), or what they lead to as well."
    return error("weights.link.dangling", text, fix)


def unreadable(path: Path, problem: OSError) -> Finding:
    """An error for a file or directory of the model that cannot be read."""
    text = f"{path} cannot be read: {problem.strerror}."
    return error("weights.file.unreadable", text, f"ls -ld {path}; run this as root; dmesg tells of a disk.")


def _hash(path: Path) -> Entry | OSError:
    try:
        return Entry("", *hashing.hash_file(path))
    except OSError as problem:
        return problem


def hash_all(
    directory: Path, wanted: Sequence[str], threads: int | None
) -> tuple[list[Entry], list[Finding]]:
    """Size and hash of files in the order given, without those that cannot be read, which are findings."""
    entries, findings = [], []
    with ThreadPoolExecutor(max_workers=hashing.threads(threads)) as pool:
        for name, found in zip(wanted, pool.map(lambda name: _hash(directory / name), wanted), strict=True):
            if isinstance(found, OSError):
                findings.append(unreadable(directory / name, found))
            else:
                entries.append(replace(found, name=name))
    return entries, findings


def build(directory: Path, threads: int | None = None) -> tuple[list[Entry], list[Finding]]:
    """The manifest of a directory, and what is wrong with its links and files."""
    found, findings = names(directory)
    entries, problems = hash_all(directory, found, threads)
    return entries, findings + problems


def digest(entries: Sequence[Entry]) -> str:
    """One hash for the whole manifest, whatever the order of its entries."""
    lines = (
        f"{item.sha256} {item.size} {item.name}\n" for item in sorted(entries, key=lambda item: item.name)
    )
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def as_document(entries: Sequence[Entry]) -> dict[str, Any]:
    """The manifest as it is stored."""
    return {
        "schema": 1,
        "digest": digest(entries),
        "bytes": sum(item.size for item in entries),
        "files": {item.name: {"size": item.size, "sha256": item.sha256} for item in entries},
    }


def read(path: Path) -> list[Entry]:
    """The entries of a stored manifest, by name; raises UnusableError when it is wrong in any way.

    Names that would leave the directory are refused.
    """
    findings: list[Finding] = []
    again = "Make it again from the source: tandem-host weights manifest DIR --out FILE"
    top = Fields(load(path, "weights.manifest", again), path, "manifest", findings, fix=again)
    top.integer("schema", 1, 1)
    recorded = top.text("digest")
    total = top.integer("bytes", 0, 2**63)
    listed = top.object("files")
    top.finish()
    entries = []
    for name in listed.names():
        fields = listed.object(name)
        entry = Entry(name, fields.integer("size", 0, 2**63), fields.text("sha256"))
        fields.finish()
        if len(entry.sha256) != _SHA256_DIGITS or not set(entry.sha256) <= _HEX:
            fields.problem("sha256", f"is {shown(entry.sha256)}, wanted 64 hexadecimal digits")
        if name.startswith("/") or ".." in name.split("/"):
            listed.problem(name, "leads out of the directory")
        entries.append(entry)
    if not findings and (digest(entries) != recorded or sum(item.size for item in entries) != total):
        text = f"{path}: its digest or its sum of bytes does not fit its files: it was changed or cut."
        findings.append(error("manifest.digest.wrong", text, again))
    if not findings and not entries:
        findings.append(error("manifest.files.empty", f"{path} lists no files.", again))
    if findings:
        raise UnusableError(findings)
    return sorted(entries, key=lambda item: item.name)


def command(directory: Path, out: Path | None, threads: int | None) -> dict[str, Any]:
    """Make the manifest; written to ``out`` only when nothing is wrong, and then without ``findings``."""
    entries, findings = build(directory, threads)
    if not entries and not findings:
        text = f"{directory} holds no files."
        findings.append(error("weights.directory.empty", text, "Give the directory of the model."))
    document = as_document(entries)
    if out is not None and not has_errors(findings):
        files.write_atomic(out, json.dumps(document, indent=1, sort_keys=True) + "\n")
    return document | {"findings": as_json(findings)}
