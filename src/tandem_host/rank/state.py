"""``rank.json``: what this host's rank was started with, and whether that process still runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tandem_host import files
from tandem_host.host import Host


@dataclass(frozen=True)
class State:
    """What was started, and when (``started_at``, UTC).

    ``start_ticks`` is the kernel's start time of ``pid`` in clock ticks since boot, which a later process
    with the same number does not have.
    """

    rank: int
    argv: list[str]
    started_at: str
    release: dict[str, str]
    config_digest: str
    boot_id: str
    pid: int
    start_ticks: int


def write(path: Path, state: State) -> None:
    """Replace the file in one step; raises OSError."""
    files.write_atomic(path, json.dumps(asdict(state), indent=2) + "\n")


def read(path: Path) -> State | None:
    """The state; None when there is no file or it is not one of ours."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return State(**data)
    except (OSError, ValueError, TypeError):
        return None


def boot_id(host: Host) -> str:
    """The kernel's identity of this boot."""
    return host.read("/proc/sys/kernel/random/boot_id") or "unknown"


def start_ticks(host: Host, pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None if it does not exist or is a zombie."""
    text = host.read(f"/proc/{pid}/stat")
    if not text or ")" not in text:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold spaces and parentheses
    if fields[0] in {"Z", "X"}:
        return None
    return int(fields[19])


def alive(host: Host, state: State) -> bool:
    """Whether the very process that was started still runs."""
    return state.boot_id == boot_id(host) and start_ticks(host, state.pid) == state.start_ticks
