"""What each rail of this host is right now: interface, RDMA port, GID, MTU and state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem_host import addresses
from tandem_host.addresses import Interface, InterfaceAddress
from tandem_host.cluster import Cluster, Node, Rail, own_node
from tandem_host.cluster import read as read_cluster
from tandem_host.fabric import gids, hcas
from tandem_host.fabric.hcas import HcaPort
from tandem_host.findings import Finding, error, warning
from tandem_host.host import Host


@dataclass(frozen=True)
class RailState:
    """One rail as it is. What could not be found is None; then there is a finding that says why.

    ``mtu`` in bytes; ``state`` is the RDMA port's word (ACTIVE, DOWN …) or the interface's (UP, DOWN …);
    ``physical_port`` is the port's own name (``p0``, ``p1``), equal for the two functions of one cage;
    ``candidates`` are all usable GID indexes.
    """

    address: InterfaceAddress
    netdev: str | None = None
    rdma: HcaPort | None = None
    mtu: int | None = None
    gid_index: int | None = None
    physical_port: str | None = None
    state: str | None = None
    candidates: tuple[int, ...] = ()
    table: tuple[gids.GidEntry, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The rail as the interface of ``fabric resolve`` shows it."""
        return {
            "netdev": self.netdev,
            "hca": self.rdma.hca if self.rdma else None,
            "port": self.rdma.port if self.rdma else None,
            "address": str(self.address),
            "mtu": self.mtu,
            "gid_index": self.gid_index,
            "physical_port": self.physical_port,
            "state": self.state,
        }


@dataclass(frozen=True)
class View:
    """What was read from the host once: its interfaces and RDMA ports."""

    host: Host
    interfaces: tuple[Interface, ...]
    ports: tuple[HcaPort, ...]


@dataclass(frozen=True)
class Look:
    """What the host is now, against its cluster.json: its node, what was read, its rails, what is wrong."""

    cluster: Cluster
    node: Node
    seen: View
    rails: list[RailState]
    findings: list[Finding]


def look(host: Host, config: Path, rank: int | None) -> Look:
    """Look at the host once; raises UnusableError when it or its cluster.json cannot be read."""
    described = read_cluster(config)
    interfaces = addresses.read(host)
    node = own_node(described, rank, addresses.held(interfaces), host.name)
    seen = view(host, described, interfaces)
    states, findings = find(seen, described, node)
    return Look(described, node, seen, states, findings)


def view(host: Host, cluster: Cluster, interfaces: tuple[Interface, ...]) -> View:
    """Read the host; RDMA ports only if the fabric uses them."""
    return View(host, interfaces, hcas.read(host) if cluster.fabric.rdma else ())


def find(seen: View, cluster: Cluster, node: Node) -> tuple[list[RailState], list[Finding]]:
    """Every rail of ``node`` and all that is wrong with it on this host."""
    states, findings = [], []
    for rail in node.rails:
        state, found = _find_one(seen, cluster, node, rail)
        states.append(state)
        findings.extend(found)
    return states, findings


def _find_one(seen: View, cluster: Cluster, node: Node, rail: Rail) -> tuple[RailState, list[Finding]]:
    interface, findings = _interface(seen, node, rail)
    if interface is None:
        return RailState(rail.address), [*_named_link(seen, node, rail), *findings]
    netdev = interface.name
    sysfs = f"/sys/class/net/{netdev}"
    mtu = seen.host.read_int(f"{sysfs}/mtu") or interface.mtu
    link, link_findings = _link(seen.host, node, interface)
    findings += link_findings + _mtu(node, netdev, mtu, cluster.fabric.mtu)
    physical = seen.host.read(f"{sysfs}/phys_port_name") or None
    if not cluster.fabric.rdma:
        return RailState(rail.address, netdev, None, mtu, physical_port=physical, state=link), findings
    port, port_findings = _rdma_port(seen, node, rail, netdev)
    findings += port_findings
    if port is None:
        return RailState(rail.address, netdev, None, mtu, physical_port=physical, state=link), findings
    table = gids.read_table(seen.host, port.hca, port.port)
    candidates = gids.matching(table, rail.address.ip, netdev)
    findings += _gid(node, rail, port, table, candidates)
    chosen = candidates[0] if candidates else None
    state = RailState(rail.address, netdev, port, mtu, chosen, physical, port.state, candidates, table)
    return state, findings


def _interface(seen: View, node: Node, rail: Rail) -> tuple[Interface | None, list[Finding]]:
    """The one interface that holds the rail's address."""
    wanted = rail.address
    holding = addresses.holders(seen.interfaces, wanted.ip)
    set_it = "ansible-playbook site.yml sets it; by hand: ip addr add {} dev {}"
    if not holding:
        known = ", ".join(item.name for item in seen.interfaces if item.name != "lo")
        place = rail.netdev or "any interface"
        text = f"{node.name}: no address {wanted} on {place} (interfaces: {known})."
        fix = set_it.format(wanted, rail.netdev or "INTERFACE")
        return None, [error("fabric.address.missing", text, fix)]
    if len(holding) > 1:
        names = " and ".join(item.name for item in holding)
        text = f"{node.name}: {wanted.ip} is on {names}."
        return None, [error("fabric.address.duplicate", text, f"ip addr del {wanted} dev {holding[1].name}")]
    interface = holding[0]
    if rail.netdev and rail.netdev != interface.name:
        text = f"{node.name}: {wanted.ip} is on {interface.name}, wanted on {rail.netdev}."
        fix = f"Move the address, or leave netdev empty in the inventory if the cable is in {interface.name}."
        return None, [error("fabric.address.misplaced", text, fix)]
    held = next(own for own in interface.addresses if own.ip == wanted.ip)
    if held.network != wanted.network:
        text = f"{node.name}: {interface.name} holds {held}, wanted {wanted}."
        fix = f"ip addr del {held} dev {interface.name}; ip addr add {wanted} dev {interface.name}"
        return interface, [error("fabric.address.prefix", text, fix)]
    return interface, []


def _named_link(seen: View, node: Node, rail: Rail) -> list[Finding]:
    """Why the address may be gone from the interface that the inventory names: its link is down."""
    named = next((item for item in seen.interfaces if item.name == rail.netdev), None)
    return _link(seen.host, node, named)[1] if named else []


def _link(host: Host, node: Node, interface: Interface) -> tuple[str, list[Finding]]:
    """State of the link, and a finding unless it is up with a carrier."""
    sysfs = f"/sys/class/net/{interface.name}"
    operstate = (host.read(f"{sysfs}/operstate") or interface.operstate).upper()
    carrier = host.read(f"{sysfs}/carrier")
    if carrier is None and not host.exists(sysfs):
        carrier = "1" if "LOWER_UP" in interface.flags else "0"
    if carrier == "1" and operstate in {"UP", "UNKNOWN"}:
        return operstate, []
    text = f"{node.name}: the link of {interface.name} is {operstate}, carrier {carrier or 'unreadable'}."
    fix = (
        f"Look at the cable and at the other host; ip link set {interface.name} up; ethtool {interface.name}"
    )
    return operstate, [error("fabric.link.down", text, fix)]


def _mtu(node: Node, netdev: str, mtu: int | None, wanted: int) -> list[Finding]:
    if mtu == wanted:
        return []
    text = f"{node.name}: {netdev} has MTU {mtu if mtu is not None else 'unknown'}, wanted {wanted}."
    fix = f"ip link set {netdev} mtu {wanted}; ansible-playbook site.yml makes it last"
    return [error("fabric.mtu.mismatch", text, fix)]


def _rdma_port(seen: View, node: Node, rail: Rail, netdev: str) -> tuple[HcaPort | None, list[Finding]]:
    ports = hcas.of_netdev(seen.ports, netdev)
    known = ", ".join(sorted({item.hca for item in seen.ports})) or "none"
    if rail.hca:
        named = [item for item in ports if item.hca == rail.hca]
        if not named:
            belongs = ", ".join(item.hca for item in ports) or "no HCA"
            text = f"{node.name}: {netdev} belongs to {belongs}, wanted {rail.hca} (HCAs: {known})."
            fix = "Leave hca empty in the inventory: it is found by the address."
            return None, [error("fabric.hca.mismatch", text, fix)]
        ports = tuple(named)
    if not ports:
        text = f"{node.name}: {netdev} has no RDMA device (HCAs: {known})."
        fix = f"modprobe mlx5_ib; rdma link show (soft-RoCE: rdma link add NAME type rxe netdev {netdev})"
        return None, [error("fabric.hca.missing", text, fix)]
    if len(ports) > 1:
        names = ", ".join(f"{item.hca}:{item.port}" for item in ports)
        text = f"{node.name}: {netdev} belongs to several RDMA ports: {names}."
        return None, [error("fabric.hca.ambiguous", text, "Name the HCA of this rail in the inventory.")]
    port, findings = ports[0], []
    if not port.active:
        text = (
            f"{node.name}: {port.hca} port {port.port} ({netdev}) is {port.state or 'in an unknown state'}."
        )
        findings.append(
            error("fabric.hca.down", text, f"rdma link show {port.hca}/{port.port}; look at the cable")
        )
    if port.link_layer not in (None, "Ethernet"):
        text = f"{node.name}: {port.hca} port {port.port} has link layer {port.link_layer}, wanted Ethernet."
        fix = f"mlxconfig -d {port.hca} set LINK_TYPE_P{port.port}=2, then a reboot"
        findings.append(error("fabric.hca.link_layer", text, fix))
    return port, findings


def _gid(
    node: Node, rail: Rail, port: HcaPort, table: tuple[gids.GidEntry, ...], candidates: tuple[int, ...]
) -> list[Finding]:
    place = f"{node.name}: {port.hca} port {port.port}"
    if not candidates:
        held = ", ".join(f"{entry.index}={gids.describe(table, entry.index)}" for entry in table) or "none"
        text = f"{place} has no RoCE v2 GID for {rail.address.ip} (entries: {held})."
        fix = "Set the address again (ip addr del/add): the driver then makes the entry."
        return [error("fabric.gid.missing", text, fix)]
    others = gids.rivals(table, rail.address.ip)
    if others:
        held = ", ".join(f"{entry.index}={gids.describe(table, entry.index)}" for entry in others)
        text = f"{place} also has {held}: NCCL may choose that instead of {rail.address.ip}."
        fix = "Keep one address of the family on a rail, or set the GID policy to pin."
        return [warning("fabric.gid.rival", text, fix)]
    return []
