"""Sealing a built release: hash everything, write the lists, and the manifest last."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from tandem_host import __version__, files
from tandem_host.findings import BadInputError, error
from tandem_host.release import tree
from tandem_host.release.patch import RECORDS

SCHEMA = 1


def command(directory: Path, name: str, digest: str, workers: int) -> dict[str, Any]:
    """Seal the virtual environment in ``directory``.

    Its manifest says: this is complete, and this is what it is. An older one is removed before anything else;
    the new one appears in one step, after the lists are on the disk. Raises BadInputError where there is no
    built environment or a file cannot be listed, OSError where one cannot be written.
    """
    begun = time.monotonic()
    site_packages = _site_packages(directory)
    files.remove(directory / tree.MANIFEST)
    try:
        entries = list(tree.walk(directory))
    except tree.UnlistableError as problem:
        raise BadInputError(
            [error("release.file.name", f"{problem}.", "Leave that file out of the release.")]
        ) from problem
    hashes = tree.hash_all(directory, (entry.name for entry in entries if not entry.target), workers)
    lost = [entry.name for entry in entries if not entry.target and entry.name not in hashes]
    if lost:
        more = f" (and {len(lost) - 1} more files)" if len(lost) > 1 else ""
        text = f"{directory / lost[0]}{more} cannot be read."
        raise BadInputError([error("release.file.unreadable", text, f"ls -l {directory / lost[0]}")])
    entries = [replace(entry, sha256=hashes.get(entry.name, "")) for entry in entries]
    lists = {tree.HASHES: tree.hashes_text(entries), tree.STATS: tree.stats_text(entries)}
    for file, text in lists.items():
        files.write_atomic(directory / file, text)
    manifest = {
        "schema": SCHEMA,
        "name": name,
        "digest": digest,
        "machine": os.uname().machine,
        "python": _python_version(directory),
        "packages": _packages(site_packages),
        "patches": _patches(site_packages),
        "tree": {
            "digest": tree.tree_digest(entries),
            "files": sum(not entry.target for entry in entries),
            "links": sum(bool(entry.target) for entry in entries),
            "bytes": sum(entry.size for entry in entries),
        },
        "lists": {file: hashlib.sha256(text.encode("utf-8")).hexdigest() for file, text in lists.items()},
        "sealed_by": f"tandem-host {__version__}",
    }
    files.write_atomic(directory / tree.MANIFEST, json.dumps(manifest, indent=2) + "\n")
    return {
        "directory": str(directory),
        **{key: manifest[key] for key in ("name", "digest", "tree")},
        "seconds": round(time.monotonic() - begun, 2),
        "findings": [],
    }


def _site_packages(directory: Path) -> Path:
    found = sorted(directory.glob("lib/python3.*/site-packages"))
    if len(found) != 1 or not (directory / "pyvenv.cfg").is_file():
        text = f"{directory} holds no virtual environment (pyvenv.cfg and one lib/python3.*/site-packages)."
        fix = "Name the release's directory, /opt/tandem/releases/<name>-<digest>."
        raise BadInputError([error("release.tree.missing", text, fix)])
    return found[0]


def _python_version(directory: Path) -> str:
    """The version in ``pyvenv.cfg``: of the Python that made the environment."""
    for line in (directory / "pyvenv.cfg").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        if key.strip() in ("version", "version_info"):
            return value.strip()
    return ""


def _packages(site_packages: Path) -> dict[str, str]:
    """Version by distribution name, sorted."""
    found = {item.metadata["Name"]: item.version for item in distributions(path=[str(site_packages)])}
    return dict(sorted(found.items(), key=lambda pair: pair[0].lower()))


def _patches(site_packages: Path) -> list[dict[str, Any]]:
    """The records that ``release patch`` left, in order of their names."""
    records = sorted((site_packages / RECORDS).glob("*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in records]
