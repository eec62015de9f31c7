"""A control group a host, where no systemd of this machine makes one.

Without it two hosts would share one, and the systemd of one host could kill the other's processes.
"""

from __future__ import annotations

import time
from pathlib import Path

#: The hierarchies that a booting systemd uses: version 2, and version 1's own named one on mixed machines.
_NAMED = "name=systemd"


def hierarchies(mountinfo: str) -> list[Path]:
    """Where the hierarchies that count are mounted, from the text of ``/proc/self/mountinfo``."""
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        if kind == "cgroup2" or (kind == "cgroup" and _NAMED in options.split()[-1].split(",")):
            found.append(Path(before.split()[4]))
    return found


def paths(name: str) -> list[Path]:
    """The control groups called ``name``, whether they are there or not."""
    return [mount / name for mount in hierarchies(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))]


def make(name: str) -> list[Path]:
    """Make the groups called ``name`` and return those that a process can be moved to."""
    made = []
    for path in paths(name):
        try:
            path.mkdir(exist_ok=True)
        except OSError:
            continue  # a container that may not: systemd-nspawn then does with what it has
        made.append(path)
    return made


def remove(name: str) -> None:
    """Remove the groups called ``name`` and all below them; their processes must have ended."""
    for path in paths(name):
        deadline = time.monotonic() + 5
        while path.is_dir() and not _rmdir(path):
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)


def _rmdir(path: Path) -> bool:
    for child in sorted(path.rglob("*"), key=lambda each: len(each.parts), reverse=True):
        if child.is_dir():
            _try_rmdir(child)
    return _try_rmdir(path)


def _try_rmdir(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # busy for a moment longer
    return True
