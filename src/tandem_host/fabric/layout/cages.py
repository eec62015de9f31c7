"""Which interfaces the cable reaches: the functions of the one cage that has a carrier, in PCI order.

A ConnectX-7 of a Spark shows each cage as two PCI functions in two domains. ``phys_port_name`` says which
cage a function belongs to; neither the slot (0000:01:00.0 and .1 are two cages) nor the order of names does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tandem_host.cluster import Node
from tandem_host.fabric import devices
from tandem_host.findings import Finding, error
from tandem_host.host import Host

_CAGE = re.compile(r"p\d+")


@dataclass(frozen=True)
class Port:
    """A physical interface with the cage that it belongs to; ``carrier`` is None while it is set down."""

    netdev: str
    pci: str
    cage: str
    carrier: bool | None

    def in_words(self) -> str:
        """``enp1s0f0np0 (cage p0, PCI 0000:01:00.0): no carrier``."""
        state = {True: "carrier", False: "no carrier", None: "set down, so no carrier can be seen"}
        return f"{self.netdev} (cage {self.cage}, PCI {self.pci}): {state[self.carrier]}"


def ports(host: Host) -> list[Port]:
    """Every interface that names its cage, in PCI order."""
    return [
        Port(item.name, item.pci, item.port_name, item.carrier)
        for item in devices.read(host)
        if item.pci and item.port_name and _CAGE.fullmatch(item.port_name)
    ]


def choose(host: Host, node: Node) -> tuple[Node, list[Finding]]:
    """The node with an interface for every rail: the inventory's, else the cabled cage's in PCI order.

    Rails stay without one where there is an error.
    """
    if all(rail.netdev for rail in node.rails):
        return node, []
    seen = ports(host)
    cabled = sorted({port.cage for port in seen if port.carrier})
    if len(cabled) != 1:
        return node, [_undecided(node, seen, cabled)]
    functions = [port.netdev for port in seen if port.cage == cabled[0]]
    rails = []
    for number, rail in enumerate(node.rails):
        netdev = rail.netdev or (functions[number] if number < len(functions) else None)
        rails.append(replace(rail, netdev=netdev))
    names = [rail.netdev for rail in rails]
    if None in names or len(set(names)) < len(names):
        text = (
            f"{node.name}: cage {cabled[0]} has {', '.join(functions)} for {len(rails)} rails, of which "
            f"{', '.join(rail.netdev for rail in node.rails if rail.netdev) or 'none'} are named."
        )
        return node, [error("fabric.cable.functions", text, _write(node, functions))]
    return replace(node, rails=tuple(rails)), []


def _undecided(node: Node, seen: Sequence[Port], cabled: Sequence[str]) -> Finding:
    what = "; ".join(port.in_words() for port in seen)
    if not seen:
        text = f"{node.name}: no interface names its cage (phys_port_name), so the cable's cannot be found."
        fix = _write(node, [])
        return error("fabric.cable.unknown", text, fix)
    if not cabled:
        down = [port.netdev for port in seen if port.carrier is None]
        look = "".join(f"sudo ip link set {netdev} up; " for netdev in down)
        text = f"{node.name}: no cage has a carrier: {what}."
        fix = f"{look}push the cable in until it clicks, on both hosts; or {_write(node, [])}"
        return error("fabric.cable.none", text, fix)
    text = f"{node.name}: cages {' and '.join(cabled)} both have a carrier: {what}."
    first = [port.netdev for port in seen if port.cage == cabled[0]]
    return error(
        "fabric.cable.both", text, f"pull the cable that is not the pair's, or {_write(node, first)}"
    )


def _write(node: Node, functions: Sequence[str]) -> str:
    """Which line to write in the inventory."""
    names = [*functions, *("INTERFACE" for _ in node.rails)][: len(node.rails)]
    lines = ", ".join(
        f"{{netdev: {rail.netdev or name}, address: {rail.address}}}"
        for rail, name in zip(node.rails, names, strict=True)
    )
    return f"write the interfaces into the inventory, for {node.name}: tandem_rails: [{lines}]"
