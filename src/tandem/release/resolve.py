"""Making a lock: uv resolves, we write down the one wheel per package that the platform will install."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tandem.release.lockfile import LockError, Pin, Wheel, format_lock, normalized, parse_lock
from tandem.release.schema import External, Platform, Release

_NEVER = "sys_platform == 'never'"


def lock_platform(directory: Path, release: Release, platform: Platform, upgrade: bool) -> str:
    """The text of the platform's lock; raises LockError with uv's own words where there is no solution."""
    pins = _resolve(
        directory / release.requirements,
        directory / release.overrides if release.overrides else None,
        directory / platform.lock,
        platform,
        release.external,
        upgrade,
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
        for pin in _resolve(source, None, directory / release.build_lock, platform, [], upgrade):
            before = merged.get(pin.name)
            if before and before.version != pin.version:
                raise LockError(
                    f"{source}: {pin.name} resolves to {before.version} and to {pin.version} on {platform.name}. "
                    f"Fix: pin it in {release.build_requirements}."
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
    overrides: Path | None,
    existing: Path,
    platform: Platform,
    external: Sequence[External],
    upgrade: bool,
) -> list[Pin]:
    with tempfile.TemporaryDirectory(prefix="tandem-lock-") as scratch:
        answer = Path(scratch) / "pylock.lock.toml"
        stubs = Path(scratch) / "stubs"
        stubs.mkdir()
        for item in external:
            _write_stub(stubs, item, item.wheels[platform.name].file)
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--format=pylock.toml", "--no-header"]
        command += [f"--python-version={platform.python}", f"--python-platform={_uv_platform(platform)}"]
        command += ["--only-binary=:all:", f"--find-links={stubs}", f"--output-file={answer}", str(source)]
        if overrides:
            command.append(f"--override={overrides}")
        if existing.exists() and not upgrade:
            keep = Path(scratch) / "keep.txt"
            pins = parse_lock(existing.read_text(encoding="utf-8"), existing)
            keep.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in pins), encoding="utf-8")
            command.append(f"--constraint={keep}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            hint = "" if upgrade else "\nIf the versions in force are in the way: --upgrade."
            raise LockError(f"{source}: uv found no solution for {platform.name}:\n{done.stderr.strip()}{hint}")
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

    uv lists only wheels that fit. Of those, compiled ones for exactly this Python are taken before those of the
    stable ABI, and pure ones last; among equals the newest C library wins, then the name decides.
    """
    wheels = []
    for entry in package.get("wheels", ()):
        file = entry.get("name") or unquote(urlsplit(entry["url"]).path.rpartition("/")[2])
        wheels.append(Wheel(file, int(entry.get("size", 0)), entry["hashes"]["sha256"]))
    fitting = [wheel for wheel in wheels if wheel.fits(platform.machine)]
    if not fitting:
        raise LockError(
            f"{package['name']}=={package['version']} has no wheel for {platform.name}. "
            "Fix: leave it out in the overrides, or pin a version that has one."
        )
    exact = f"cp{platform.python.replace('.', '')}"

    def rank(wheel: Wheel) -> tuple[bool, bool, tuple[int, int], str]:
        _python, abi, platforms = wheel.tags
        newest = max((_glibc(tag) for tag in platforms), default=(0, 0))
        return exact in abi, "any" not in platforms, newest, wheel.file

    return max(fitting, key=rank)


def _glibc(tag: str) -> tuple[int, int]:
    """C library version of a platform tag: manylinux_2_28_x86_64 is (2, 28)."""
    parts = tag.split("_")
    if parts[0] == "manylinux" and len(parts) > 3 and parts[1].isdigit() and parts[2].isdigit():
        return int(parts[1]), int(parts[2])
    return {"manylinux2014": (2, 17), "manylinux2010": (2, 12), "manylinux1": (2, 5)}.get(parts[0], (0, 0))


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


def direct_requirements(text: str) -> dict[str, str]:
    """``{name: version}`` of the lines ``name==version`` in a requirements file; markers are not looked at."""
    found = {}
    for line in text.splitlines():
        stated = line.partition("#")[0].partition(";")[0].strip()
        if "==" in stated:
            name, _, version = stated.partition("==")
            found[normalized(name.partition("[")[0].strip())] = version.strip()
    return found


def left_out(text: str) -> set[str]:
    """Names that an overrides file excludes."""
    return {normalized(line.partition(";")[0].strip()) for line in text.splitlines() if line.strip().endswith(_NEVER)}


def differences(pins: Iterable[Pin], release: Release, requirements: str, overrides: str) -> list[str]:
    """What a lock has that the release's other files contradict; empty if they agree. Needs no network."""
    locked = {pin.name: pin.version for pin in pins}
    wanted = {**direct_requirements(requirements), **release.versions}
    wanted |= {item.name: item.version for item in release.external}
    found = [
        f"{name} is {locked.get(name, 'not there')}, wanted {version}"
        for name, version in wanted.items()
        if locked.get(name) != version
    ]
    found += [f"{name} is there, though the overrides leave it out" for name in sorted(left_out(overrides) & set(locked))]
    return found
