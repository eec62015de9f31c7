"""Applying a series of patches to installed packages: all of it or nothing.

Every result is computed in memory before the first file is written, and each file is replaced by a rename. A
file that already is what the series makes of it is recognized by taking the series off again, so a run that
was killed between two renames is finished by the next one.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tandem_host import files
from tandem_host.findings import BadInputError, Finding, as_json, error, has_errors
from tandem_host.release import diff

RECORDS = "tandem-patches"
_REBUILD = (
    "Build the release again (ansible-playbook site.yml), "
    "or make the patch for the version that is installed."
)


@dataclass(frozen=True)
class Patch:
    """One patch of the series: file name, SHA-256 of its bytes, and what it changes."""

    name: str
    sha256: str
    files: tuple[diff.FileDiff, ...]


@dataclass
class Target:
    """One installed file: what is there (None: no such file), and what the series makes of it."""

    path: str
    before: bytes | None = None
    after: bytes | None = None
    done: bool = False
    patches: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The file's line in the answer and in the record."""
        return {
            "path": self.path,
            "sha256_before": None if self.before is None else _sha256(self.before),
            "sha256_after": None if self.after is None else _sha256(self.after),
            "patches": self.patches,
        }


def read_series(directory: Path) -> list[Patch]:
    """The patches named in ``series``, in order; raises BadInputError for anything that cannot be read."""
    series = _bytes(directory / "series").decode("utf-8", errors="replace")
    lines = [line.strip() for line in series.splitlines()]
    names = [line for line in lines if line and not line.startswith("#")]
    patches = []
    for name in names:
        path = directory / name
        if Path(name).name != name or name == "..":
            text = f"{directory / 'series'}: {name!r} does not name a file beside it."
            raise _bad("release.patch.path", text)
        content = _bytes(path)
        try:
            changed = diff.parse(content)
        except (diff.DiffError, UnicodeDecodeError) as problem:
            raise _bad("release.patch.invalid", f"{path}: {problem}.") from problem
        patches.append(Patch(name, _sha256(content), tuple(changed)))
    return patches


def plan(site_packages: Path, patches: list[Patch]) -> tuple[list[Target], list[Finding]]:
    """What each file is to become. Nothing is written; with a finding, nothing may be."""
    findings: list[Finding] = []
    targets: dict[str, Target] = {}
    for patch in patches:
        for change in patch.files:
            targets.setdefault(change.path, Target(change.path)).patches.append(patch.name)
    for target in targets.values():
        path = site_packages / target.path
        if not path.resolve().is_relative_to(site_packages.resolve()):
            text = f"{path} leads out of {site_packages}."
            findings.append(error("release.patch.path", text, _REBUILD))
            continue
        current = path.read_bytes() if path.exists() else None
        changes = [
            (patch.name, item) for patch in patches for item in patch.files if item.path == target.path
        ]
        _decide(target, current, changes, path, findings)
    return list(targets.values()), findings


def _decide(
    target: Target,
    current: bytes | None,
    changes: list[tuple[str, diff.FileDiff]],
    path: Path,
    findings: list[Finding],
) -> None:
    forward: bytes | None = None
    problem = ""
    try:
        forward = _forward(current, changes)
    except diff.MismatchError as mismatch:
        problem = str(mismatch)
    try:
        backward, undone = _backward(current, changes), True
    except diff.MismatchError:
        backward, undone = None, False
    if undone and forward is not None:
        text = (
            f"{path}: the series fits the file as it is and as it will be; "
            "nothing says whether it was applied."
        )
        findings.append(error("release.patch.ambiguous", text, "Give the patch more context lines."))
    elif undone:
        target.before, target.after, target.done = backward, current, True
    elif forward is not None:
        target.before, target.after = current, forward
    else:
        findings.append(error("release.patch.mismatch", f"{path}: {problem}.", _REBUILD))


def _forward(content: bytes | None, changes: list[tuple[str, diff.FileDiff]]) -> bytes:
    for name, change in changes:
        if change.created and content is not None:
            raise diff.MismatchError(f"{name}: makes this file, and it is there already")
        if not change.created and content is None:
            raise diff.MismatchError(f"{name}: the file does not exist")
        try:
            content = diff.apply(content or b"", change.hunks)
        except diff.MismatchError as problem:
            raise diff.MismatchError(f"{name}: {problem}") from problem
    if content is None:
        raise diff.MismatchError("no patch changes it")
    return content


def _backward(content: bytes | None, changes: list[tuple[str, diff.FileDiff]]) -> bytes | None:
    for _name, change in reversed(changes):
        if content is None:
            raise diff.MismatchError("the file does not exist")
        content = diff.apply(content, [hunk.reversed() for hunk in change.hunks])
        if change.created:
            if content:
                raise diff.MismatchError("the file has more in it than the patch made")
            content = None
    return content


def command(site_packages: Path, patch_dir: Path, *, check: bool) -> dict[str, Any]:
    """Apply the series in ``patch_dir``, or with ``check`` only say what would happen.

    The answer lists each file with SHA-256 before and after, and whether anything ``changed``. The same list
    is kept in ``<site-packages>/tandem-patches/<patch dir's name>.json``. Raises BadInputError for input that
    cannot be used.
    """
    if not site_packages.is_dir():
        raise _bad("release.patch.site_packages", f"{site_packages} is not a directory.")
    patches = read_series(patch_dir)
    targets, findings = plan(site_packages, patches)
    record = {
        "schema": 1,
        "name": patch_dir.name,
        "patches": [{"file": patch.name, "sha256": patch.sha256} for patch in patches],
        "files": [target.as_json() for target in targets],
    }
    record_path = site_packages / RECORDS / f"{patch_dir.name}.json"
    wanted = json.dumps(record, indent=2) + "\n"
    open_targets = [target for target in targets if not target.done]
    current = record_path.read_text(encoding="utf-8") if record_path.exists() else None
    changes = not has_errors(findings) and (bool(open_targets) or current != wanted)
    if changes and not check:
        for target in open_targets:
            _replace(site_packages / target.path, target.after or b"")
        record_path.parent.mkdir(exist_ok=True)
        files.write_atomic(record_path, wanted)
    return {
        "site_packages": str(site_packages),
        "patch_dir": str(patch_dir),
        "changed": changes,
        "written": changes and not check,
        **{key: record[key] for key in ("patches", "files")},
        "findings": as_json(findings),
    }


def _replace(path: Path, content: bytes) -> None:
    """Put ``content`` in the place of the file, with its rights, and drop the bytecode made from the old one.

    By rename, because an installer may have linked the same file into its cache.
    """
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        stale.unlink()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise _bad("release.patch.unreadable", f"{path}: {problem.strerror}.") from problem


def _bad(code: str, text: str) -> BadInputError:
    return BadInputError([error(code, text, "Correct the patch directory in the repository and run again.")])
