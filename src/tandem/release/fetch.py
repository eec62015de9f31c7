"""Filling a wheelhouse from a lock: what is right stays, what is wrong goes, what lacks is downloaded."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tandem.release.download import FetchError, batches, fetch_batch
from tandem.release.schema import Platform, Release
from tandem.release.wheelhouse import (
    PARTIAL,
    Wanted,
    compare,
    exclusive,
    read_index,
    record,
    write_index,
)
from tandem_host.hashing import sha256_of

WORKERS = 3
MEGABYTE = 1e6


@dataclass
class Result:
    """What a fetch did. Sizes in bytes; ``removed`` has a line with file and reason for each removed file."""

    wheels: int = 0
    total: int = 0
    downloaded: int = 0
    downloaded_bytes: int = 0
    removed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def summary(self) -> str:
        """One line for a person."""
        got = (
            f"{self.downloaded} downloaded ({self.downloaded_bytes / MEGABYTE:.1f} MB)"
            if self.downloaded
            else "all there"
        )
        return f"{self.wheels} wheels, {self.total / MEGABYTE:.1f} MB, {got}, {self.seconds:.1f} s"


def fetch(
    wanted: Sequence[Wanted],
    release: Release,
    platform: Platform,
    destination: Path,
    progress: Callable[[int], None] = lambda _size: None,
) -> Result:
    """Make ``destination`` hold the wanted wheels; raises FetchError or OSError.

    ``progress`` is called with the bytes of each wheel that is in place. What was downloaded before a failure
    stays and is not downloaded again.
    """
    begun = time.monotonic()
    result = Result()
    with exclusive(destination):
        shutil.rmtree(destination / PARTIAL, ignore_errors=True)
        index = read_index(destination)
        missing = _settle(wanted, destination, index, result)
        for item in wanted:
            if item not in missing:
                progress(item.wheel.size)
        try:
            _download(missing, release, platform, destination, index=index, result=result, progress=progress)
        except FetchError as problem:
            raise FetchError(
                "\n".join([*(f"removed {why}" for why in result.removed), str(problem)])
            ) from problem
        finally:
            _forget_others(wanted, destination, index, result)
            write_index(destination, index)
            shutil.rmtree(destination / PARTIAL, ignore_errors=True)
    result.wheels = len(wanted)
    result.total = sum((destination / item.wheel.file).stat().st_size for item in wanted)
    result.seconds = time.monotonic() - begun
    return result


def _settle(
    wanted: Sequence[Wanted], destination: Path, index: dict[str, dict[str, Any]], result: Result
) -> list[Wanted]:
    """Hash what the index does not vouch for; wrong files are removed. Returns what has to be downloaded."""
    state = compare(destination, wanted)
    missing = list(state.missing)
    for item in state.unchecked:
        path = destination / item.wheel.file
        actual = sha256_of(path)
        if actual == item.wheel.sha256:
            index[item.wheel.file] = record(path, item.wheel.sha256)
        else:
            path.unlink()
            index.pop(item.wheel.file, None)
            result.removed.append(
                f"{item.wheel.file}: it has SHA-256 {actual}, the lock says {item.wheel.sha256}"
            )
            missing.append(item)
    return missing


def _download(
    missing: Sequence[Wanted],
    release: Release,
    platform: Platform,
    destination: Path,
    *,
    index: dict[str, dict[str, Any]],
    result: Result,
    progress: Callable[[int], None],
) -> None:
    backends = {item.name: item.uv_torch_backend for item in release.external}
    failures = []
    with ThreadPoolExecutor(max_workers=WORKERS) as pool:
        running = {
            pool.submit(fetch_batch, group, platform, destination, backends.get(group[0].pin.name)): group
            for group in batches(missing, set(backends))
        }
        for done in as_completed(running):
            try:
                done.result()
            except FetchError as problem:
                failures.append(str(problem))
                continue
            for item in running[done]:
                path = destination / item.wheel.file
                index[item.wheel.file] = record(path, item.wheel.sha256)
                result.downloaded += 1
                result.downloaded_bytes += path.stat().st_size
                progress(item.wheel.size)
    if failures:
        raise FetchError("\n".join(failures))


def _forget_others(
    wanted: Sequence[Wanted], destination: Path, index: dict[str, dict[str, Any]], result: Result
) -> None:
    """Remove wheels that an earlier fetch brought and the lock no longer names."""
    for name in set(index) - {item.wheel.file for item in wanted}:
        (destination / name).unlink(missing_ok=True)
        del index[name]
        result.removed.append(f"{name}: the lock does not name it any more")
