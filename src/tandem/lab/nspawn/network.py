"""The containers' networks: namespaces, ports on the management bridge, and cables that can be cut.

A cable is a bridge in a namespace of its own with one port a host. Setting its ports down takes the carrier
from both hosts' interfaces and leaves their configuration alone, which is what pulling a cable does. Nothing
here forwards or routes: a host reaches the other host and this machine, and has no default route.
"""

from __future__ import annotations

from pathlib import Path

from tandem.lab import management
from tandem.lab.shell import run, run_json, succeeds
from tandem.lab.spec import MANAGEMENT, RAILS, Host, Lab, hardware_address

#: More than the rails' 9000, so that the cable is never the limit.
CABLE_MTU = "9216"


def namespaces(lab: Lab) -> list[str]:
    """The names of the lab's network namespaces."""
    return [lab.cables, *(host.namespace for host in lab.hosts)]


def is_complete(lab: Lab) -> bool:
    """Whether every part is there."""
    if not all(Path("/run/netns", name).exists() for name in namespaces(lab)):
        return False
    if not management.is_there(lab):
        return False
    return all(
        succeeds(["ip", "-n", host.namespace, "link", "show", device])
        for host in lab.hosts
        for device in (MANAGEMENT, *RAILS)
    )


def create(lab: Lab) -> None:
    """Make all networks. Raises LabError where this machine forbids a part."""
    for name in namespaces(lab):
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
    management.create(lab)
    for host in lab.hosts:
        run("ip", "link", "add", management.port(lab, host), *_ending_in(MANAGEMENT, host))
        management.join(lab, host)
    for rail, netdev in enumerate(RAILS):
        cable = f"cable{rail}"
        run("ip", "-n", lab.cables, "link", "add", cable, *management.BRIDGE)
        for host in lab.hosts:
            port = _port(rail, host)
            run("ip", "link", "add", port, "netns", lab.cables, *_ending_in(netdev, host))
            run("ip", "-n", lab.cables, "link", "set", port, "mtu", CABLE_MTU)
            run("ip", "-n", lab.cables, "link", "set", port, "master", cable, "up")
        run("ip", "-n", lab.cables, "link", "set", cable, "mtu", CABLE_MTU, "up")


def remove(lab: Lab) -> None:
    """Remove whatever is there of the networks; their hosts must be off."""
    for name in namespaces(lab):
        if Path("/run/netns", name).exists():
            run("ip", "netns", "delete", name)
    # The kernel removes a veth with its namespace, a moment later.
    management.remove(lab)


def power_off(host: Host) -> None:
    """Bring those of a host's interfaces that are there to what they are without power: down, bare."""
    there = {link["ifname"] for link in run_json("ip", "-j", "-n", host.namespace, "link", "show")}
    for device in there.intersection((MANAGEMENT, *RAILS)):
        run("ip", "-n", host.namespace, "link", "set", device, "down", "mtu", "1500")
        run("ip", "-n", host.namespace, "address", "flush", "dev", device)


def set_cable(lab: Lab, rail: int, plugged: bool) -> None:
    """Plug in or pull a rail's cable; both hosts see their carrier come or go."""
    for host in lab.hosts:
        run("ip", "-n", lab.cables, "link", "set", _port(rail, host), "up" if plugged else "down")


def is_plugged(lab: Lab, rail: int) -> bool:
    """Whether a rail's cable is in."""
    [link] = run_json("ip", "-j", "-n", lab.cables, "link", "show", _port(rail, lab.hosts[0]))
    return "UP" in link["flags"]


def processes(host: Host) -> list[int]:
    """The processes in a host's namespace: everything that runs on it."""
    if not Path("/run/netns", host.namespace).exists():
        return []
    return [int(word) for word in run("ip", "netns", "pids", host.namespace).split()]


def _ending_in(netdev: str, host: Host) -> tuple[str, ...]:
    """How ``ip link add`` makes a link whose other end is an interface of a host."""
    address = hardware_address(netdev, host.number)
    return ("type", "veth", "peer", "name", netdev, "address", address, "netns", host.namespace)


def _port(rail: int, host: Host) -> str:
    return f"rail{rail}-{host.number}"
