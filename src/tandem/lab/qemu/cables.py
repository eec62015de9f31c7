"""The cables between the virtual machines: which are in, remembered for hosts that are off."""

from __future__ import annotations

from pathlib import Path

from tandem.lab import management, supply
from tandem.lab.qemu import machine
from tandem.lab.qemu.monitor import Monitor
from tandem.lab.shell import run
from tandem.lab.spec import Lab


def wire(lab: Lab) -> None:
    """Make the bridge and the hosts' ports on it. The cables are sockets, which QEMU makes."""
    management.create(lab)
    for host in lab.hosts:
        run("ip", "tuntap", "add", "dev", management.port(lab, host), "mode", "tap")
        management.join(lab, host)


def pulled(lab: Lab) -> set[int]:
    """The numbers of the rails whose cable is out."""
    return {rail for rail in range(len(lab.rails)) if _mark(lab, rail).exists()}


def set_plugged(lab: Lab, rail: int, plugged: bool) -> None:
    """Plug in or pull a rail's cable; a host that is off finds it so when it is switched on."""
    mark(lab, rail, plugged)
    for host, netdev in zip(lab.hosts, lab.rails[rail], strict=True):
        if supply.is_alive(host):
            with Monitor(machine.monitor(host)) as qemu:
                qemu.execute("set_link", name=netdev, up=plugged)


def mark(lab: Lab, rail: int, plugged: bool) -> None:
    """Remember whether a rail's cable is in."""
    if plugged:
        _mark(lab, rail).unlink(missing_ok=True)
    else:
        _mark(lab, rail).touch()


def _mark(lab: Lab, rail: int) -> Path:
    return lab.directory / f"rail{rail}.pulled"
