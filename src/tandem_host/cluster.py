"""``cluster.json``: the two hosts, their rails and what the fabric is; the same file on every host."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_interface
from pathlib import Path

from tandem_host.addresses import Address, InterfaceAddress
from tandem_host.findings import BadInputError, Finding, UnusableError, error
from tandem_host.strict import Fields, load, shown

KINDS = ("roce", "soft-roce", "ethernet")
GID_POLICIES = ("auto", "pin")
_DEVICE = re.compile(r"[^\s/:]{1,63}")
MTU_RANGE = (1280, 9978)  # below: no IPv6; above: ConnectX-7 refuses it


@dataclass(frozen=True)
class Rail:
    """One rail of one node; ``netdev`` and ``hca`` None means: found by the address."""

    address: InterfaceAddress
    netdev: str | None = None
    hca: str | None = None


@dataclass(frozen=True)
class Node:
    """One host of the cluster."""

    rank: int
    name: str
    rails: tuple[Rail, ...]


@dataclass(frozen=True)
class Fabric:
    """What joins the hosts; ``mtu`` in bytes."""

    kind: str
    mtu: int
    gid_policy: str

    @property
    def rdma(self) -> bool:
        """Whether the ranks use RDMA verbs."""
        return self.kind != "ethernet"


@dataclass(frozen=True)
class Cluster:
    """The whole file; ``nodes`` in order of rank."""

    nodes: tuple[Node, ...]
    fabric: Fabric
    rendezvous_port: int
    api_port: int

    @property
    def master_address(self) -> Address:
        """Where the ranks meet: the first rail of rank 0."""
        return self.nodes[0].rails[0].address.ip

    def peers(self, rank: int) -> tuple[Node, ...]:
        """Every other node."""
        return tuple(node for node in self.nodes if node.rank != rank)


def read(path: Path) -> Cluster:
    """Read and check ``cluster.json``; raises UnusableError with every problem of the file."""
    findings: list[Finding] = []
    top = Fields(load(path, "cluster.file"), path, "cluster", findings)
    top.integer("schema", 1, 1)
    nodes = tuple(_node(item) for item in top.objects("nodes"))
    fabric = top.object("fabric")
    rendezvous = top.object("rendezvous")
    api = top.object("api")
    kind = fabric.text("kind", KINDS)
    described = Fabric(kind, fabric.integer("mtu", *MTU_RANGE), fabric.text("gid_policy", GID_POLICIES))
    ports = rendezvous.integer("port", 1, 65535), api.integer("port", 1, 65535)
    for part in (fabric, rendezvous, api, top):
        part.finish()
    if not findings:
        findings.extend(_contradictions(nodes, described, ports, path))
    if findings:
        raise UnusableError(findings)
    return Cluster(tuple(sorted(nodes, key=lambda node: node.rank)), described, *ports)


def _node(fields: Fields) -> Node:
    rank, name = fields.integer("rank", 0, 1023), fields.text("name")
    rails = tuple(_rail(item) for item in fields.objects("rails"))
    fields.finish()
    return Node(rank, name, rails)


def _rail(fields: Fields) -> Rail:
    text = fields.text("address")
    address: InterfaceAddress = ip_interface("0.0.0.0/0")
    if text:
        try:
            address = ip_interface(text)
        except ValueError:
            fields.problem(
                "address", f"is {shown(text)}, wanted an address with its prefix length like 10.0.0.1/24"
            )
        else:
            unusable = _unusable(address, text)
            if unusable:
                fields.problem("address", f'is "{text}": {unusable}')
    rail = Rail(address, _device(fields, "netdev"), _device(fields, "hca"))
    fields.finish()
    return rail


def _device(fields: Fields, field: str) -> str | None:
    """The name of a device, which is also the name of its directory in /sys."""
    name = fields.optional_text(field)
    if name and (not _DEVICE.fullmatch(name) or name in {".", ".."}):
        fields.problem(field, f"is {shown(name)}, which no device can be called")
        return None
    return name


def _unusable(address: InterfaceAddress, text: str) -> str | None:
    if "/" not in text:
        return "the prefix length is missing"
    if address.ip.is_loopback or address.ip.is_unspecified or address.ip.is_multicast:
        return "no other host can reach it"
    network = address.network
    if network.num_addresses == 1:
        return "a network of one address has no peer"
    if network.version == 4 and network.num_addresses > 2:  # noqa: PLR2004
        if address.ip == network.network_address:
            return "it is the network's own address"
        if address.ip == network.broadcast_address:
            return "it is the network's broadcast address"
    return None


def _contradictions(
    nodes: tuple[Node, ...], fabric: Fabric, ports: tuple[int, int], path: Path
) -> list[Finding]:
    """What no single field shows."""
    found = []

    def add(code: str, what: str, fix: str) -> None:
        found.append(error(f"cluster.{code}", f"{path}: {what}.", fix))

    for rank, count in Counter(node.rank for node in nodes).items():
        if count > 1:
            names = ", ".join(node.name for node in nodes if node.rank == rank)
            add("rank.duplicate", f"rank {rank} belongs to {names}", "Give every host its own rank.")
    ranks = sorted({node.rank for node in nodes})
    if ranks != list(range(len(ranks))):
        fix = f"Number the hosts 0 to {len(ranks) - 1}; rank 0 is the head."
        add("rank.gap", f"the ranks are {', '.join(map(str, ranks))}", fix)
    for name, count in Counter(node.name for node in nodes).items():
        if count > 1:
            add("name.duplicate", f"{count} hosts are called {name}", "Give every host its own name.")
    addresses = Counter(rail.address.ip for node in nodes for rail in node.rails)
    for address, count in addresses.items():
        if count > 1:
            names = ", ".join(
                node.name for node in nodes if any(rail.address.ip == address for rail in node.rails)
            )
            add(
                "address.duplicate",
                f"{address} is given {count} times ({names})",
                "Give every rail its own address.",
            )
    if not fabric.rdma:
        for node in nodes:
            for rail in node.rails:
                if rail.hca:
                    what = f"{node.name} names the HCA {rail.hca}, but fabric.kind is ethernet"
                    add("hca.unused", what, "Remove it, or set the kind to roce or soft-roce.")
    if ports[0] == ports[1]:
        what = f"rendezvous.port and api.port are both {ports[0]}"
        add("port.duplicate", what, "Give each its own port.")
    found.extend(_subnet_contradictions(nodes, path))
    return found


def _subnet_contradictions(nodes: tuple[Node, ...], path: Path) -> list[Finding]:
    found = []

    def add(code: str, what: str, fix: str) -> None:
        found.append(error(f"cluster.{code}", f"{path}: {what}.", fix))

    counts = {node.name: len(node.rails) for node in nodes}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name} has {count}" for name, count in counts.items())
        add("rails.uneven", f"the number of rails differs: {text}", "Describe the same rails on every host.")
    for node in nodes:
        for netdev, count in Counter(rail.netdev for rail in node.rails if rail.netdev).items():
            if count > 1:
                add(
                    "netdev.duplicate",
                    f"{node.name} uses {netdev} for {count} rails",
                    "One interface a rail.",
                )
        for position, rail in enumerate(node.rails):
            for other in node.rails[:position]:
                if rail.address.network.overlaps(other.address.network):
                    what = f"{node.name}: {other.address} and {rail.address} are two rails in one subnet"
                    fix = f"Move one rail to a subnet of its own, for example not in {other.address.network}."
                    add("subnet.duplicate", what, fix)
    first = nodes[0]
    for node in nodes[1:]:
        for position, (here, there) in enumerate(zip(first.rails, node.rails, strict=False)):
            if here.address.network != there.address.network:
                what = f"rail {position}: {first.name} has {here.address}, {node.name} has {there.address}"
                fix = f"Give {node.name} an address in {here.address.network} on rail {position}."
                add("subnet.mismatch", what, fix)
    return found


def own_node(cluster: Cluster, rank: int | None, local: Iterable[Address], host_name: str) -> Node:
    """The node of this host: by ``rank``, or by the addresses it holds; raises UnusableError.

    A rank that is not there raises BadInputError: somebody gave it.
    """
    if rank is not None:
        for node in cluster.nodes:
            if node.rank == rank:
                return node
        known = ", ".join(f"{node.rank} ({node.name})" for node in cluster.nodes)
        text = f"{host_name}: there is no rank {rank} in the cluster (ranks: {known})."
        raise BadInputError([error("cluster.rank.unknown", text, "Give one of these ranks.")])
    held = set(local)
    mine = [node for node in cluster.nodes if any(rail.address.ip in held for rail in node.rails)]
    if len(mine) == 1:
        return mine[0]
    wanted = ", ".join(f"{rail.address.ip} ({node.name})" for node in cluster.nodes for rail in node.rails)
    if not mine:
        text = f"{host_name} holds none of the fabric's addresses: {wanted}."
        fix = "ip -br addr; then ansible-playbook site.yml sets the addresses, or give --rank."
        raise UnusableError([error("cluster.rank.undecided", text, fix)])
    names = ", ".join(node.name for node in mine)
    text = f"{host_name} holds fabric addresses of several hosts: {names}."
    raise UnusableError(
        [error("cluster.rank.undecided", text, "Remove the foreign address, or give --rank.")]
    )
