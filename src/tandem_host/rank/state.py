"""``rank.json``: what this host's rank was started with, and whether that process still runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tandem_host import files
from tandem_host.findings import Finding, UnusableError
from tandem_host.host import Host
from tandem_host.strict import Fields, load

_AGAIN = "ansible-playbook site.yml starts both ranks again; the file is written at every start"


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


def read(path: Path) -> tuple[State | None, list[Finding]]:
    """The state, and why there is none: no findings when there is no file, since nothing was started then."""
    findings: list[Finding] = []
    try:
        top = Fields(load(path, "rank.state", _AGAIN), path, "rank.state", findings, fix=f"{_AGAIN}.")
    except UnusableError as problem:
        return None, [item for item in problem.findings if item.code != "rank.state.missing"]
    release = top.object("release")
    state = State(
        rank=top.integer("rank", 0, 1023),
        argv=top.texts("argv"),
        started_at=top.text("started_at"),
        release={"name": release.text("name"), "digest": release.text("digest")},
        config_digest=top.text("config_digest"),
        boot_id=top.text("boot_id"),
        pid=top.integer("pid", 1, 2**31),
        start_ticks=top.integer("start_ticks", 0, 2**63),
    )
    release.finish()
    top.finish()
    return (None if findings else state), findings


def boot_id(host: Host) -> str:
    """The kernel's identity of this boot."""
    return host.read("/proc/sys/kernel/random/boot_id") or "unknown"


def start_ticks(host: Host, pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None if it does not exist or is a zombie."""
    text = host.read(f"/proc/{pid}/stat")
    if not text or ")" not in text:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold spaces and parentheses
    try:
        return None if fields[0] in {"Z", "X"} else int(fields[19])
    except (IndexError, ValueError):
        return None


def alive(host: Host, state: State) -> bool:
    """Whether the very process that was started still runs."""
    return state.boot_id == boot_id(host) and start_ticks(host, state.pid) == state.start_ticks
