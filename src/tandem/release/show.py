"""What a release is made of, for people (tables) and for programs (one document)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from tandem.release.agreement import disagreements
from tandem.release.digest import DigestError, release_digest, series
from tandem.release.lockfile import LockError
from tandem.release.schema import Platform, Release
from tandem.release.wheelhouse import wanted_wheels

MEGABYTE = 1e6


def as_document(directory: Path, release: Release) -> dict[str, Any]:
    """The release in plain values; ``problems`` are lines about files that are missing or disagree."""
    problems: list[str] = []
    document = {
        "name": release.name,
        "description": release.description,
        "directory": str(directory),
        "versions": release.versions,
        "platforms": [_platform(directory, release, item, problems) for item in release.platforms],
        "patches": [
            {"dir": item.dir, "package": item.package, "series": _series(directory, item.dir, problems)}
            for item in release.patches
        ],
        "external": [
            {"name": item.name, "version": item.version, "reason": item.reason} for item in release.external
        ],
        "engine": release.engine.model_dump(),
        "minimum": release.minimum.model_dump(),
    }
    try:
        problems += disagreements(directory, release)
    except LockError as problem:
        problems.append(str(problem))
    return {**document, "problems": list(dict.fromkeys(problems))}


def _platform(directory: Path, release: Release, platform: Platform, problems: list[str]) -> dict[str, Any]:
    stated = platform.model_dump(exclude={"lock"})
    try:
        wheels = [item.wheel for item in wanted_wheels(directory, release, platform)]
        digest = release_digest(directory, platform.name)
    except (LockError, DigestError) as problem:
        problems.append(str(problem))
        return {**stated, "lock": platform.lock, "digest": None, "packages": None, "bytes": None}
    return {
        **stated,
        "lock": platform.lock,
        "digest": digest,
        "packages": len(wheels),
        "bytes": sum(wheel.size for wheel in wheels),
        "unknown_sizes": sum(wheel.size == 0 for wheel in wheels),
    }


def _series(directory: Path, patch_dir: str, problems: list[str]) -> list[str]:
    try:
        return series(directory.resolve().parent.parent / patch_dir)
    except DigestError as problem:
        problems.append(str(problem))
        return []


def as_tables(document: dict[str, Any]) -> list[Table | Text]:
    """The answer of ``as_document`` for a terminal."""
    facts = Table(show_header=False, box=None, pad_edge=False)
    facts.add_column(style="bold")
    facts.add_column(overflow="fold")
    facts.add_row("release", document["name"])
    facts.add_row("", document["description"])
    for name, version in document["versions"].items():
        facts.add_row(name, version)
    for patches in document["patches"]:
        facts.add_row("patches", f"{', '.join(patches['series']) or 'none'} on {patches['package']}")
    for external in document["external"]:
        facts.add_row("not from the index", f"{external['name']} {external['version']}")
    minimum = document["minimum"]
    facts.add_row(
        "each host", f"{minimum['disk_gib']:g} GiB of disk, {minimum['memory_gib']:g} GiB of memory"
    )
    for item in document["platforms"]:
        facts.add_section()
        facts.add_row("platform", item["name"])
        facts.add_row("", f"{item['machine']}, Python {item['python']}, glibc {item['glibc']} or newer")
        if item["digest"] is not None:
            facts.add_row("", f"{item['packages']} packages, {_download(item)}")
            facts.add_row("", f"{document['name']}-{item['digest']}")
    return [facts, *(Text(f"problem: {line}", style="red") for line in document["problems"])]


def _download(platform: dict[str, Any]) -> str:
    size = f"{platform['bytes'] / MEGABYTE:.0f} MB"
    unknown = platform["unknown_sizes"]
    return f"{size} and {unknown} of unknown size" if unknown else size
