"""Making a lock: uv resolves, we write down the one wheel per package that the platform will install."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tandem.release.lockfile import LockError, Pin, Wheel, format_lock, normalized, read_lock
from tandem.release.schema import External, Platform, Release


def lock_platform(directory: Path, release: Release, platform: Platform, upgrade: bool) -> str:
    """The text of the platform's lock; raises LockError with uv's own words where there is no solution."""
    pins = _resolve(
        directory / release.requirements,
        platform,
        overrides=directory / release.overrides if release.overrides else None,
        external=[item for item in release.external if platform.name in item.wheels],
        existing=None if upgrade else directory / platform.lock,
    )
    header = (
        f"Release {release.name}, platform {platform.name}: one wheel a package, by hash.\n"
        f"Made by `tandem release lock {release.name}` from {release.requirements}; not edited by hand."
    )
    return format_lock(pins, header)


def lock_build(directory: Path, release: Release, upgrade: bool) -> str:
    """The text of the build lock: the same versions for every platform, one wheel each."""
    merged: dict[str, Pin] = {}
    for platform in release.platforms:
        source = directory / release.build_requirements
        existing = None if upgrade else directory / release.build_lock
        for pin in _resolve(source, platform, overrides=None, external=[], existing=existing):
            before = merged.get(pin.name)
            if before and before.version != pin.version:
                raise LockError(
                    f"{source}: {pin.name} resolves to {before.version} and on {platform.name} to "
                    f"{pin.version}. Fix: pin it in {release.build_requirements}."
                )
            wheels = dict.fromkeys([*(before.wheels if before else ()), *pin.wheels])
            merged[pin.name] = Pin(pin.name, pin.version, tuple(wheels))
    header = (
        f"Release {release.name}: what installs it on a host, for all its platforms.\n"
        f"Made by `tandem release lock {release.name}` from {release.build_requirements}; not edited by hand."
    )
    return format_lock(merged.values(), header)


def _resolve(
    source: Path,
    platform: Platform,
    *,
    overrides: Path | None,
    external: Sequence[External],
    existing: Path | None,
) -> list[Pin]:
    """What uv makes of the requirements in ``source``; versions of the lock ``existing`` stay as they are."""
    with tempfile.TemporaryDirectory(prefix="tandem-lock-") as scratch:
        answer = Path(scratch) / "pylock.lock.toml"
        stubs = Path(scratch) / "stubs"
        stubs.mkdir()
        for item in external:
            _write_stub(stubs, item, item.wheels[platform.name].file)
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--format=pylock.toml"]
        command += [f"--python-version={platform.python}", f"--python-platform={_uv_platform(platform)}"]
        command += [
            "--no-header",
            "--only-binary=:all:",
            f"--find-links={stubs}",
            f"--output-file={answer}",
            str(source),
        ]
        if overrides:
            command.append(f"--override={overrides}")
        if existing and existing.exists():
            keep = Path(scratch) / "keep.txt"
            kept = "".join(f"{pin.name}=={pin.version}\n" for pin in read_lock(existing))
            keep.write_text(kept, encoding="utf-8")
            command.append(f"--constraint={keep}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            hint = "\nFix: correct the requirements; if versions in force are in the way, --upgrade."
            raise LockError(f"{source}: uv has no answer for {platform.name}:\n{done.stderr.strip()}{hint}")
        document = tomllib.loads(answer.read_text(encoding="utf-8"))
    written_down = {item.name: item.wheels[platform.name] for item in external}
    pins = []
    for package in document["packages"]:
        known = written_down.get(normalized(package["name"]))
        wheel = Wheel(known.file, known.size, known.sha256) if known else choose_wheel(package, platform)
        pins.append(Pin(normalized(package["name"]), package["version"], (wheel,)))
    return pins


def _uv_platform(platform: Platform) -> str:
    return f"{platform.machine}-manylinux_{platform.glibc.replace('.', '_')}"


def choose_wheel(package: dict[str, Any], platform: Platform) -> Wheel:
    """The wheel for the platform out of one ``[[packages]]`` table of a pylock file; raises LockError.

    uv lists only wheels for the platform's Python. Of those that the machine and its C library can load,
    compiled ones for exactly this Python are taken before those of the stable ABI, and pure ones last; among
    equals the newest C library wins, then the name decides.
    """
    wheels = []
    for entry in package.get("wheels", ()):
        file = entry.get("name") or unquote(urlsplit(entry["url"]).path.rpartition("/")[2])
        sha256 = entry.get("hashes", {}).get("sha256")
        if not sha256:
            raise LockError(
                f"{package['name']}=={package['version']}: the index gives no SHA-256 of {file}. "
                "Fix: use an index that does; a directory of wheels (find-links) does not."
            )
        wheels.append(Wheel(file, int(entry.get("size", 0)), sha256))
    fitting = [wheel for wheel in wheels if wheel.fits(platform.machine) and _loadable(wheel, platform)]
    if not fitting:
        raise LockError(
            f"{package['name']}=={package['version']} has no wheel for {platform.name}. "
            "Fix: leave it out in the overrides, or pin a version that has one."
        )
    exact = f"cp{platform.python.replace('.', '')}"

    def rank(wheel: Wheel) -> tuple[bool, bool, tuple[int, int], str]:
        _python, abi, platforms = wheel.tags
        return exact in abi, "any" not in platforms, max(_loadable(wheel, platform)), wheel.file

    return max(fitting, key=rank)


def _loadable(wheel: Wheel, platform: Platform) -> list[tuple[int, int]]:
    """Those of the wheel's C library versions that the platform has."""
    has = tuple(int(part) for part in platform.glibc.split("."))
    return [version for version in wheel.glibc(platform.machine) if version <= has]


def _write_stub(directory: Path, external: External, file: str) -> None:
    """A wheel with metadata and nothing else, so that uv can resolve what the index does not have."""
    base = "-".join(file.split("-")[:2])
    metadata = ["Metadata-Version: 2.1", f"Name: {external.name}", f"Version: {external.version}"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in external.requires]
    tag = "-".join(file.removesuffix(".whl").split("-")[-3:])
    wheel = ["Wheel-Version: 1.0", "Generator: tandem", "Root-Is-Purelib: false", f"Tag: {tag}"]
    with zipfile.ZipFile(directory / file, "w") as archive:
        archive.writestr(f"{base}.dist-info/METADATA", "\n".join(metadata) + "\n")
        archive.writestr(f"{base}.dist-info/WHEEL", "\n".join(wheel) + "\n")
        archive.writestr(f"{base}.dist-info/RECORD", "")
