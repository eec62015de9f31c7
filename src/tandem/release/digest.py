"""The release digest: a name for what will be built, computed before it is built.

Imports nothing but the standard library and PyYAML, because Ansible's filters use it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DIGEST_VERSION = 1
LENGTH = 16
PLATFORM_FIELDS = ("name", "machine", "python", "accelerator")
_FIX = "Fix: `tandem release show NAME` names every problem of the file."


class DigestError(ValueError):
    """A release folder that has no digest; the message names file, field and fix."""


def release_digest(release_dir: Path, platform: str) -> str:
    """The digest, 16 hexadecimal digits, of one platform of the release in ``release_dir``.

    It covers what decides the built tree: the platform, the bytes of its lock and of the build lock, names
    and bytes of the patches in order of their series, the ``build`` flags and the version of this scheme. It
    does not cover descriptions, engine arguments and minimum requirements: those change without a new build.
    Patch directories are looked up from two folders above ``release_dir``. Raises DigestError.
    """
    whole = hashlib.sha256()
    for label, content in _parts(release_dir, platform):
        whole.update(f"{label}\0{len(content)}\0".encode())
        whole.update(content)
    return whole.hexdigest()[:LENGTH]


def _parts(release_dir: Path, platform: str) -> Iterator[tuple[str, bytes]]:
    source = release_dir / "release.yml"
    release = _load(source)
    chosen = next(
        (item for item in _items(release, "platforms", source) if item.get("name") == platform), None
    )
    if chosen is None:
        names = ", ".join(str(item.get("name")) for item in _items(release, "platforms", source))
        raise DigestError(f"{source}: platforms has no {platform!r}. Fix: choose one of {names}.")
    build = release.get("build") or {}
    yield "digest", str(DIGEST_VERSION).encode()
    yield "schema", str(release.get("schema")).encode()
    yield "platform", _canonical({field: str(chosen.get(field)) for field in PLATFORM_FIELDS})
    yield "build", _canonical(build)
    yield "lock", _read(release_dir / _text(chosen, "lock", source))
    yield "build lock", _read(release_dir / _text(release, "build_lock", source))
    for patch in _items(release, "patches", source) if release.get("patches") else []:
        directory = release_dir.resolve().parent.parent / _text(patch, "dir", source)
        yield "patches", f"{patch.get('package')} {directory.name}".encode()
        for name in series(directory):
            yield f"patch {name}", _read(directory / name)


def series(directory: Path) -> list[str]:
    """Names of a patch directory's patches in the order of its ``series`` file; raises DigestError."""
    source = directory / "series"
    lines = [line.strip() for line in _read(source).decode("utf-8", errors="replace").splitlines()]
    names = [line for line in lines if line and not line.startswith("#")]
    for name in names:
        if Path(name).name != name or name == "..":
            raise DigestError(
                f"{source}: {name!r} does not name a file beside it. Fix: put the patch into {directory}."
            )
    return names


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("utf-8")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise DigestError(
            f"{path}: {problem.strerror}. Fix: bring it back from the repository; a lock is made again with "
            "`tandem release lock`."
        ) from problem


def _load(source: Path) -> dict[str, Any]:
    try:
        release = yaml.safe_load(_read(source))
    except yaml.YAMLError as problem:
        raise DigestError(f"{source}: is not YAML: {problem}. Fix: correct the file.") from problem
    if not isinstance(release, dict):
        raise DigestError(f"{source}: holds no mapping. Fix: write `name: value` lines, as lab-cpu does.")
    return release


def _items(mapping: dict[str, Any], field: str, source: Path) -> list[dict[str, Any]]:
    value = mapping.get(field)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise DigestError(f"{source}: {field} is {value!r}, wanted a list of mappings. {_FIX}")
    return value


def _text(mapping: dict[str, Any], field: str, source: Path) -> str:
    value = mapping.get(field)
    if not isinstance(value, str) or not value:
        raise DigestError(f"{source}: {field} is {value!r}, wanted a file name. {_FIX}")
    return value
