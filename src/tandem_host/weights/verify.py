"""Whether a model directory is what its manifest says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tandem_host.findings import Finding, UnusableError, as_json, error, warning
from tandem_host.weights import manifest, safetensors
from tandem_host.weights.manifest import Entry


def compare(
    directory: Path, wanted: Sequence[Entry], present: Sequence[str], *, full: bool, threads: int | None
) -> list[Finding]:
    """What differs: missing and unknown files, sizes, and (``full``) hashes of files whose size is right."""
    findings = []
    there = set(present)
    right_size = []
    for entry in wanted:
        path = directory / entry.name
        if entry.name not in there:
            text = f"{path} is missing ({entry.size} bytes)."
            findings.append(error("weights.file.missing", text, "Copy it again: ansible-playbook site.yml"))
            continue
        try:
            size = path.stat().st_size
        except OSError as problem:
            findings.append(manifest.unreadable(path, problem))
            continue
        if size != entry.size:
            text = f"{path} has {size} bytes, wanted {entry.size}."
            findings.append(error("weights.file.size", text, f"rm {path}; ansible-playbook site.yml"))
        else:
            right_size.append(entry)
    if full:
        by_name = {entry.name: entry for entry in right_size}
        hashed, problems = manifest.hash_all(directory, list(by_name), threads)
        findings += problems
        for found in hashed:
            if found.sha256 != by_name[found.name].sha256:
                path = directory / found.name
                text = f"{path} has sha256 {found.sha256}, wanted {by_name[found.name].sha256}."
                findings.append(error("weights.file.hash", text, f"rm {path}; ansible-playbook site.yml"))
    for name in sorted(there - {entry.name for entry in wanted}):
        text = f"{directory / name} is not in the manifest."
        findings.append(_unknown(directory / name, text))
    return findings


def _unknown(path: Path, text: str) -> Finding:
    """Files that a loader would pick up are errors: stale shards beside the right ones get loaded too."""
    if path.suffix in {".safetensors", ".bin", ".pt", ".py"}:
        return error("weights.file.unknown", text, f"rm {path}")
    return warning("weights.file.unknown", text, f"rm {path}, if nothing needs it")


def command(directory: Path, manifest_file: Path, *, full: bool, threads: int | None) -> dict[str, Any]:
    """Compare and check; ``ok`` when there is no error.

    That the directory or its manifest is not there is an answer too: the model was not copied yet.
    """
    findings: list[Finding] = []
    wanted: list[Entry] | None = None
    present: list[str] | None = None
    tensors = 0
    try:
        wanted = manifest.read(manifest_file)
    except UnusableError as problem:
        findings += problem.findings
    try:
        present, found = manifest.names(directory)
        findings += found
    except UnusableError as problem:
        findings += problem.findings
    if wanted is not None and present is not None:
        findings += compare(directory, wanted, present, full=full, threads=threads)
        tensors, found = safetensors.check(directory, present)
        findings += found
    return {
        "ok": not any(item.level == "error" for item in findings),
        "directory": str(directory),
        "depth": "full" if full else "quick",
        "digest": None if wanted is None else manifest.digest(wanted),
        "files": len(wanted or ()),
        "bytes": sum(entry.size for entry in wanted or ()),
        "tensors": tensors,
        "findings": as_json(findings),
    }
