"""Whether the locks of a release say what its other files say. Reads files only; needs no network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tandem.release.lockfile import LockError, Pin, normalized, read_lock
from tandem.release.schema import Platform, Release

_NEVER = "sys_platform == 'never'"
_STATED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(\[[^\]]*\])?\s*==\s*(?P<version>[^\s;,\\]+)")


def disagreements(directory: Path, release: Release) -> list[str]:
    """What the locks contradict, one line each with file, package, value and wish; empty where all agree.

    Looked at are pinned requirements, ``versions``, ``external`` with its hashes, what the overrides leave
    out, and whether each package has a wheel for its platform. Whether newer versions exist is not.
    Raises LockError for a file that cannot be read.
    """
    found: list[str] = []
    overrides = left_out(_text(directory / release.overrides)) if release.overrides else set()
    stated = {
        release.requirements: pinned(_text(directory / release.requirements)),
        "versions": release.versions,
    }
    for platform in release.platforms:
        external = {item.name: item.version for item in release.external if platform.name in item.wheels}
        pins = read_lock(directory / platform.lock)
        lines = [
            *_versions(pins, {**stated, "external": external}),
            *_present(pins, overrides),
            *_hashes(pins, release, platform),
            *_unusable(pins, platform),
        ]
        found += [f"{directory / platform.lock}: {line}" for line in lines]
    build = {release.build_requirements: pinned(_text(directory / release.build_requirements))}
    pins = read_lock(directory / release.build_lock)
    lines = [*_versions(pins, build)]
    for platform in release.platforms:
        lines += _unusable(pins, platform)
    return found + [f"{directory / release.build_lock}: {line}" for line in lines]


def pinned(text: str) -> dict[str, str]:
    """``{name: version}`` of the lines ``name==version`` in a requirements file without a marker."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    stated = (_STATED.fullmatch(line) for line in lines)
    return {normalized(match["name"]): match["version"] for match in stated if match}


def left_out(text: str) -> set[str]:
    """Names that an overrides file excludes: lines ``name ; sys_platform == 'never'``."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return {normalized(line.partition(";")[0].strip()) for line in lines if line.endswith(_NEVER)}


def _versions(pins: Sequence[Pin], stated: dict[str, dict[str, str]]) -> Iterator[str]:
    """``stated`` has the wanted version of each package by the place that says so."""
    locked = {pin.name: pin.version for pin in pins}
    for place, versions in stated.items():
        for name, version in versions.items():
            if locked.get(name) != version:
                yield f"{name} is {locked.get(name, 'not there')}, {place} wants {version}"


def _present(pins: Sequence[Pin], unwanted: set[str]) -> Iterator[str]:
    for name in sorted(unwanted & {pin.name for pin in pins}):
        yield f"{name} is there, the overrides leave it out"


def _hashes(pins: Sequence[Pin], release: Release, platform: Platform) -> Iterator[str]:
    stated = {
        item.name: item.wheels[platform.name] for item in release.external if platform.name in item.wheels
    }
    for pin in pins:
        wanted = stated.get(pin.name)
        if wanted and (wanted.file, wanted.sha256) not in {
            (wheel.file, wheel.sha256) for wheel in pin.wheels
        }:
            have = ", ".join(f"{wheel.file} with SHA-256 {wheel.sha256}" for wheel in pin.wheels)
            yield f"{pin.name} is {have}, wanted {wanted.file} with SHA-256 {wanted.sha256}"


def _unusable(pins: Sequence[Pin], platform: Platform) -> Iterator[str]:
    for pin in pins:
        if not any(wheel.fits(platform.machine) for wheel in pin.wheels):
            yield f"{pin.name} has no wheel for {platform.name}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise LockError(f"{path}: {problem.strerror}. Fix: bring it back from the repository.") from problem
    except UnicodeDecodeError as problem:
        raise LockError(f"{path}: is not text ({problem.reason}). Fix: correct the file.") from problem
