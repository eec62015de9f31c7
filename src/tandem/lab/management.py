"""The management network: a bridge on this machine with one port a host. Nothing here forwards or routes."""

from __future__ import annotations

from pathlib import Path

from tandem.lab.shell import run, run_json, succeeds
from tandem.lab.spec import Host, Lab, LabError, overlapping

#: A bridge that forwards from its first moment.
BRIDGE = ("type", "bridge", "stp_state", "0", "forward_delay", "0")


def port(lab: Lab, host: Host) -> str:
    """The host's port on the bridge, as this machine calls it."""
    return f"tl{lab.tag}m{host.number}"


def refuse_overlap(lab: Lab) -> None:
    """Raise LabError where this machine reaches the management network another way."""
    routes = run_json("ip", "-j", "-4", "route", "show", "table", "all")
    device = overlapping(routes, lab.network, own_device=lab.bridge)
    if device:
        raise LabError(
            f"{lab.network}.0/24 is in use on this machine already (through {device}); "
            "choose another with --network, such as 10.231.77, or `tandem lab down` the lab that has it"
        )


def is_there(lab: Lab) -> bool:
    """Whether the bridge and its ports are there."""
    names = (lab.bridge, *(port(lab, host) for host in lab.hosts))
    return all(Path("/sys/class/net", name).exists() for name in names)


def create(lab: Lab) -> None:
    """Make the bridge; a driver makes its ports."""
    run("ip", "link", "add", lab.bridge, *BRIDGE)
    run("ip", "address", "add", f"{lab.gateway}/24", "dev", lab.bridge)
    run("ip", "link", "set", lab.bridge, "up")


def join(lab: Lab, host: Host) -> None:
    """Put the host's port, which must be there, on the bridge."""
    run("ip", "link", "set", port(lab, host), "master", lab.bridge, "up")


def remove(lab: Lab) -> None:
    """Remove the bridge and whatever is left of its ports."""
    for host in lab.hosts:
        if Path("/sys/class/net", port(lab, host)).exists():
            succeeds(["ip", "link", "delete", port(lab, host)])
    if Path("/sys/class/net", lab.bridge).exists():
        run("ip", "link", "delete", lab.bridge)
