"""Power of a virtual machine: its QEMU process, and the ports that see a carrier once it runs."""

from __future__ import annotations

from pathlib import Path

from tandem.lab import supply
from tandem.lab.qemu import accelerator, cables, machine, monitor
from tandem.lab.qemu.monitor import Monitor
from tandem.lab.qemu.nics import without_carrier
from tandem.lab.spec import Host, Lab, LabError


def on(lab: Lab, host: Host, image: Path, go: bool = True) -> None:
    """Switch the host on; with ``go`` false it waits, processor stopped, for a snapshot to be loaded."""
    # Left by a QEMU that was killed; the new one's must not be mistaken for it.
    machine.monitor(host).unlink(missing_ok=True)
    supply.start(host, machine.command(lab, host, image, accelerator.choose(image)))
    try:
        monitor.await_start(machine.monitor(host), lambda: supply.is_alive(host))
        with Monitor(machine.monitor(host)) as qemu:
            for netdev in without_carrier(lab, host, cables.pulled(lab)):
                qemu.execute("set_link", name=netdev, up=False)
            if go:
                qemu.execute("cont")
    except LabError as problem:
        supply.kill(host)
        raise LabError(f"{host.name} does not switch on{_last_words(host)} ({problem})") from problem


def _last_words(host: Host) -> str:
    said = host.console.read_text(encoding="utf-8", errors="replace").splitlines()
    return f": {said[-1]}" if said else ""
