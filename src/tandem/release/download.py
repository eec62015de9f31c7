"""Getting wheels with pip, under the machine's own pip configuration, each checked against its hash."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tandem.release.lockfile import Pin
from tandem.release.schema import Platform
from tandem.release.wheelhouse import PARTIAL, Wanted
from tandem_host.hashing import sha256_of

# Bytes: a wheel from this size on is a download of its own, so an interruption costs only that one.
BIG = 8_000_000
BATCH = 30
_INDEX_IN_UV_OUTPUT = re.compile(r"(?:# from|Failed to fetch:) (https?://\S+)")


class FetchError(Exception):
    """Wheels that could not be had; the message names them and the fix."""


def batches(missing: Sequence[Wanted], external: set[str]) -> list[list[Wanted]]:
    """Groups of wheels for one run of pip each: big and external ones alone, the others together."""
    alone = [item for item in missing if item.wheel.size >= BIG or item.pin.name in external]
    rest = [item for item in missing if item not in alone]
    groups = [[item] for item in sorted(alone, key=lambda item: -item.wheel.size)]
    return groups + [rest[start : start + BATCH] for start in range(0, len(rest), BATCH)]


def fetch_batch(
    group: Sequence[Wanted], platform: Platform, destination: Path, torch_backend: str | None
) -> None:
    """Download the wheels of ``group`` into ``destination``; raises FetchError.

    Where pip does not find an external package and uv knows an index for its ``torch_backend``, that index is
    asked next. Either way only a file with the locked hash gets its name in ``destination``.
    """
    partial = destination / PARTIAL
    partial.mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=partial))
    try:
        failure = _pip_download(group, platform, scratch, [])
        if failure and torch_backend:
            index = torch_index(group[0].pin, torch_backend)
            if index:
                failure = _pip_download(group, platform, scratch, [f"--index-url={index}"])
        if failure:
            raise FetchError(_explain(group, destination, failure))
        for item in group:
            _accept(item, scratch, destination)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _accept(item: Wanted, scratch: Path, destination: Path) -> None:
    path = scratch / item.wheel.file
    if not path.is_file():
        there = ", ".join(sorted(entry.name for entry in scratch.iterdir())) or "nothing"
        raise FetchError(
            f"pip was asked for {item.wheel.file} and brought {there}. Fix: run `tandem release lock`."
        )
    actual = sha256_of(path)
    if actual != item.wheel.sha256:
        raise FetchError(
            f"{item.wheel.file} has SHA-256 {actual}, the lock says {item.wheel.sha256}. It was not kept. "
            "Fix: find out who changed it; if it was on purpose, run `tandem release lock`."
        )
    path.replace(destination / item.wheel.file)


def pip_tags(group: Sequence[Wanted], platform: Platform) -> list[str]:
    """pip's options for a platform that is not this machine's: exactly the tags of the locked files."""
    tags = sorted({tag for item in group for tag in item.wheel.tags[2] if tag != "any"})
    options = [f"--python-version={platform.python}", "--implementation=cp"]
    options.append(f"--abi=cp{platform.python.replace('.', '')}")
    return options + [f"--platform={tag}" for tag in tags or [f"linux_{platform.machine}"]]


def _pip_download(
    group: Sequence[Wanted], platform: Platform, scratch: Path, extra: Sequence[str]
) -> str | None:
    """One run of pip; returns None or the end of its error output."""
    requirements = scratch / "requirements.txt"
    pins = [Pin(item.pin.name, item.pin.version, (item.wheel,)) for item in group]
    requirements.write_text("".join(pin.text() for pin in pins), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-input", "--no-cache-dir", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    command += [*pip_tags(group, platform), *extra, f"--dest={scratch}", f"--requirement={requirements}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment(scratch))
    requirements.unlink()
    return "\n".join(done.stderr.strip().splitlines()[-6:]) if done.returncode else None


def _environment(scratch: Path) -> dict[str, str]:
    """This process's environment, with pip's temporary files beside their destination: /tmp may be small."""
    return {**os.environ, "TMPDIR": str(scratch)}


def torch_index(pin: Pin, backend: str) -> str | None:
    """The index that uv uses for this backend of PyTorch, or None.

    uv names it in its answer, or, where it cannot be reached, in its error.
    """
    with tempfile.TemporaryDirectory(prefix="tandem-fetch-") as scratch:
        source = Path(scratch) / "wanted.in"
        source.write_text(f"{pin.name}=={pin.version.partition('+')[0]}\n", encoding="utf-8")
        command = [sys.executable, "-m", "uv", "pip", "compile", "--no-deps", f"--torch-backend={backend}"]
        command += ["--emit-index-annotation", "--no-header", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return index_from_uv(done.stdout + done.stderr, pin.name)


def index_from_uv(output: str, name: str) -> str | None:
    """The package index named in uv's output, without the package's own page; None if there is none."""
    match = _INDEX_IN_UV_OUTPUT.search(output)
    return match[1].rstrip("/").removesuffix(f"/{name}") if match else None


def _explain(group: Sequence[Wanted], destination: Path, failure: str) -> str:
    names = ", ".join(item.wheel.file for item in group)
    by_hand = (
        f"put the file into {destination} yourself (its hash is checked)" if len(group) == 1 else "run again"
    )
    return (
        f"pip could not get {names}:\n{failure}\n"
        f"Fix: check the network and pip's configuration (`pip config list`), or {by_hand}."
    )
