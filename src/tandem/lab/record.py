"""What this machine remembers of its labs: one folder each, with a record and a lock."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tandem.lab.spec import STATE, Lab, LabError, check_name


@dataclass(frozen=True)
class Record:
    """A lab, the image that its disks stand on, and where the person's files are."""

    lab: Lab
    image: Path
    client: Path


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lab's lock: its folder. A second command waits; a folder that went away is made again."""
    directory = STATE / name
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if directory.exists() and os.fstat(descriptor).st_ino == directory.stat().st_ino:
                yield
                return
        finally:
            for empty in (directory, STATE):
                with suppress(OSError):
                    empty.rmdir()
            os.close(descriptor)


def read(name: str) -> Record | None:
    """The record of the lab called ``name``, or None. Raises LabError where it cannot be read."""
    file = _file(name)
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        head, worker = document.get("cable", (0, 0))
        lab = Lab(name, document["network"], document.get("driver", "nspawn"), (int(head), int(worker)))
        return Record(lab, Path(document["image"]), Path(document["client"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise LabError(f"{file} is damaged; `tandem lab down --name {name}` removes the lab") from problem


def required(name: str) -> Record:
    """The record of the lab called ``name``. Raises LabError where there is none."""
    there = read(check_name(name))
    if there is None:
        raise LabError(f"there is no lab {name}; `tandem lab up --name {name}` makes it")
    return there


def write(record: Record) -> None:
    """Write the record of a lab, whole or not at all."""
    lab = record.lab
    document = {
        "driver": lab.driver,
        "network": lab.network,
        "cable": lab.cable,
        "image": str(record.image),
        "client": str(record.client),
    }
    file = _file(lab.name)
    beside = file.with_suffix(".new")
    beside.write_text(json.dumps(document), encoding="utf-8")
    beside.rename(file)


def names() -> list[str]:
    """The names of the labs on this machine."""
    return sorted(path.parent.name for path in STATE.glob("*/lab.json"))


def _file(name: str) -> Path:
    return STATE / name / "lab.json"
