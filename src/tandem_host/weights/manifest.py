"""Manifests of model directories: sha256 and size of every file under its relative name."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem_host import files
from tandem_host.findings import BadInputError, Finding, as_json, error, has_errors
from tandem_host.strict import Fields, load

_CHUNK = 4 * 1024 * 1024
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

    Raises BadInputError when there is no such directory.
    """
    if not directory.is_dir():
        text = f"{directory} is not a directory."
        raise BadInputError([error("weights.directory.missing", text, "Copy the model there: site.yml.")])
    found: list[str] = []
    findings: list[Finding] = []
    seen: set[tuple[int, int]] = set()
    _walk(directory, "", found, findings, seen)
    return sorted(found), findings


def _walk(
    directory: Path, prefix: str, found: list[str], findings: list[Finding], seen: set[tuple[int, int]]
) -> None:
    status = directory.stat()
    if (status.st_dev, status.st_ino) in seen:
        text = f"{directory} is a link to a directory above it."
        findings.append(error("weights.link.loop", text, f"rm {directory}"))
        return
    above = seen | {(status.st_dev, status.st_ino)}
    for item in sorted(directory.iterdir()):
        name = prefix + item.name
        if item.is_dir():
            _walk(item, f"{name}/", found, findings, above)
        elif item.is_file():
            found.append(name)
        elif item.is_symlink():
            text = f"{item} leads to {os.readlink(item)}, which does not exist."  # noqa: PTH115 - as written
            fix = "Copy the model with its links resolved (rsync --copy-links), or what they lead to as well."
            findings.append(error("weights.link.dangling", text, fix))
        else:
            text = f"{item} is neither a file nor a directory."
            findings.append(error("weights.file.special", text, f"rm {item}"))


def sha256(path: Path) -> str:
    """The hash of a file in hexadecimal; raises OSError."""
    digest = hashlib.sha256()
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            digest.update(view[:count])
    return digest.hexdigest()


def hash_all(directory: Path, wanted: Sequence[str], threads: int) -> list[str]:
    """The hashes of files in the order given; hashing leaves Python's lock, so threads use the cores."""
    workers = threads if threads > 0 else min(8, os.cpu_count() or 1)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(lambda name: sha256(directory / name), wanted))


def build(directory: Path, threads: int = 0) -> tuple[list[Entry], list[Finding]]:
    """The manifest of a directory, and what is wrong with its links."""
    found, findings = names(directory)
    hashes = hash_all(directory, found, threads)
    entries = [
        Entry(name, (directory / name).stat().st_size, digest)
        for name, digest in zip(found, hashes, strict=True)
    ]
    return entries, findings


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
    """The entries of a stored manifest, by name; raises BadInputError when it is wrong in any way.

    Names that would leave the directory are refused.
    """
    findings: list[Finding] = []
    top = Fields(load(path, "manifest"), path, "manifest", findings)
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
            fields.problem("sha256", f'is "{entry.sha256}", wanted 64 hexadecimal digits')
        if name.startswith("/") or ".." in name.split("/"):
            listed.problem(name, "leads out of the directory")
        entries.append(entry)
    if not findings and (digest(entries) != recorded or sum(item.size for item in entries) != total):
        text = f"{path}: its digest or its sum of bytes does not fit its files: it was changed or cut."
        fix = "Make it again from the source: tandem-host weights manifest DIR --out FILE"
        findings.append(error("manifest.digest.wrong", text, fix))
    if not findings and not entries:
        findings.append(
            error("manifest.files.empty", f"{path} lists no files.", "Make it again from the source.")
        )
    if findings:
        raise BadInputError(findings)
    return sorted(entries, key=lambda item: item.name)


def command(directory: Path, out: Path | None, threads: int) -> dict[str, Any]:
    """Make the manifest; written to ``out`` only when nothing is wrong, and then without ``findings``."""
    entries, findings = build(directory, threads)
    if not entries:
        text = f"{directory} holds no files."
        findings.append(error("weights.directory.empty", text, "Give the directory of the model."))
    document = as_document(entries)
    if out is not None and not has_errors(findings):
        files.write_atomic(out, json.dumps(document, indent=1, sort_keys=True) + "\n")
    return document | {"findings": as_json(findings)}
