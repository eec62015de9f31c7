"""Snapshots of a running pair: memory and disk of both hosts, kept in their disks' files."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

from tandem.lab import supply
from tandem.lab.qemu import cables, machine, power
from tandem.lab.qemu.monitor import Monitor
from tandem.lab.qemu.nics import without_carrier
from tandem.lab.spec import FABRIC, Lab, LabError

_TAG = "kept"


def keep(lab: Lab) -> None:
    """Keep both hosts as they are. They stand still meanwhile, for a second or two."""
    for host in lab.hosts:
        if not supply.is_alive(host):
            raise LabError(f"{host.name} is off; `tandem lab start {host.name} --name {lab.name}` first")
    _note(lab).unlink(missing_ok=True)
    with ExitStack() as stack:
        hosts = [stack.enter_context(Monitor(machine.monitor(host))) for host in lab.hosts]
        for qemu in hosts:
            qemu.execute("stop")
        try:
            for qemu in hosts:
                qemu.type(f"savevm {_TAG}")
        finally:
            for qemu in hosts:
                qemu.execute("cont")
    # Written last: it says that both hosts' parts are there.
    _note(lab).write_text(json.dumps(sorted(cables.pulled(lab))), encoding="utf-8")


def go_back(lab: Lab, image: Path) -> None:
    """Bring both hosts, on or off, and the cables back to what was kept."""
    if not _note(lab).exists():
        raise LabError(f"lab {lab.name} has no snapshot; `tandem lab snapshot --name {lab.name}` makes one")
    pulled = set(json.loads(_note(lab).read_text(encoding="utf-8")))
    for host in lab.hosts:
        if not supply.is_alive(host):
            power.on(lab, host, image, go=False)
    with ExitStack() as stack:
        hosts = [(host, stack.enter_context(Monitor(machine.monitor(host)))) for host in lab.hosts]
        for _, qemu in hosts:
            qemu.execute("stop")
        for _, qemu in hosts:
            qemu.type(f"loadvm {_TAG}")
        for rail in range(len(lab.rails)):
            cables.mark(lab, rail, rail not in pulled)
        for host, qemu in hosts:
            dark = without_carrier(lab, host, pulled)
            for netdev in FABRIC:
                qemu.execute("set_link", name=netdev, up=netdev not in dark)
            qemu.execute("cont")


def _note(lab: Lab) -> Path:
    return lab.directory / "snapshot.json"
