"""What an inventory must say before anything is changed; pure functions over plain data."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Any

from tandem.checks.findings import Finding, error
from tandem_host.cluster import MTU_RANGE

Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface

NETDEV = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$")
FABRIC_KINDS = ("roce", "soft-roce", "ethernet")
UNPRIVILEGED_PORTS = range(1024, 65536)


@dataclass(frozen=True)
class Node:
    """One host as the inventory describes it; ``rails`` is whatever ``tandem_rails`` holds."""

    name: str
    management: str
    rails: Any


@dataclass(frozen=True)
class Cluster:
    """The whole inventory, already resolved to plain values."""

    head: list[str]
    workers: list[str]
    nodes: list[Node]
    play_hosts: list[str] = field(default_factory=list)
    fabric_kind: Any = "roce"
    mtu: Any = 9000
    ports: dict[str, Any] = field(default_factory=dict)
    absolute_paths: dict[str, Any] = field(default_factory=dict)


def inventory_findings(cluster: Cluster) -> list[Finding]:
    """Every problem of the inventory at once, so that one run tells a person all of them."""
    found = [
        *_group_findings(cluster),
        *_limit_findings(cluster),
        *_value_findings(cluster),
    ]
    parsed: dict[str, list[Interface]] = {}
    for node in cluster.nodes:
        interfaces, problems = _parse_rails(node)
        found += problems
        if not problems:
            parsed[node.name] = interfaces
    if len(parsed) == len(cluster.nodes):
        found += _subnet_findings(cluster, parsed)
    return found


def _group_findings(cluster: Cluster) -> list[Finding]:
    found = []
    if len(cluster.head) != 1:
        names = ", ".join(cluster.head) or "nobody"
        found.append(
            error(
                "inventory.head.count",
                f"group 'head' must hold exactly one host; it holds {len(cluster.head)} ({names}).",
                "edit hosts.yml: one host under sparks > children > head > hosts.",
            )
        )
    if not cluster.workers:
        found.append(
            error(
                "inventory.workers.empty",
                "group 'workers' holds no host; a pair has one head and one worker.",
                "edit hosts.yml: the second Spark goes under sparks > children > workers > hosts.",
            )
        )
    found += [
        error(
            "inventory.host.twice",
            f"{name} is in 'head' and in 'workers'.",
            f"edit hosts.yml: {name} has one place.",
        )
        for name in sorted(set(cluster.head) & set(cluster.workers))
    ]
    return found


def _limit_findings(cluster: Cluster) -> list[Finding]:
    everybody = [node.name for node in cluster.nodes]
    missing = [name for name in everybody if name not in cluster.play_hosts]
    if not cluster.play_hosts or not missing:
        return []
    return [
        error(
            "inventory.limit.splits_pair",
            f"this run leaves out {', '.join(missing)}; the hosts serve as one and change as one.",
            "run without --limit.",
        )
    ]


def _value_findings(cluster: Cluster) -> list[Finding]:
    found = []
    if cluster.fabric_kind not in FABRIC_KINDS:
        found.append(
            error(
                "inventory.fabric.kind",
                f"tandem_fabric_kind is {cluster.fabric_kind!r}.",
                f"use one of {', '.join(FABRIC_KINDS)}.",
            )
        )
    mtu = _as_int(cluster.mtu)
    if mtu is None or not MTU_RANGE[0] <= mtu <= MTU_RANGE[1]:
        found.append(
            error(
                "inventory.fabric.mtu",
                f"tandem_fabric_mtu is {cluster.mtu!r}.",
                f"use a whole number from {MTU_RANGE[0]} to {MTU_RANGE[1]}; 9000 on a direct cable.",
            )
        )
    seen: dict[int, str] = {}
    for name, value in cluster.ports.items():
        port = _as_int(value)
        if port is None or port not in UNPRIVILEGED_PORTS:
            found.append(
                error(
                    "inventory.port.range",
                    f"{name} is {value!r}.",
                    "use a whole number from 1024 to 65535: the server runs as an unprivileged user.",
                )
            )
        elif port in seen:
            found.append(
                error(
                    "inventory.port.twice",
                    f"{name} and {seen[port]} are both {port}.",
                    "give each its own port.",
                )
            )
        else:
            seen[port] = name
    for name, value in cluster.absolute_paths.items():
        if not isinstance(value, str) or not value.startswith("/") or "/../" in f"{value}/":
            found.append(
                error(
                    "inventory.path.relative",
                    f"{name} is {value!r}.",
                    "use an absolute path on the host, such as /srv/models/my-model.",
                )
            )
    return found


def _parse_rails(node: Node) -> tuple[list[Interface], list[Finding]]:
    where = f"{node.name}: tandem_rails"
    example = "write a list such as [{netdev: enp1s0f0np0, address: 192.168.200.1/24}]."
    if not isinstance(node.rails, list) or not node.rails:
        return [], [error("inventory.rails.missing", f"{where} is {node.rails!r}.", example)]
    interfaces: list[Interface] = []
    found: list[Finding] = []
    netdevs: list[str] = []
    for index, rail in enumerate(node.rails):
        if not isinstance(rail, dict) or set(rail) - {"netdev", "address", "hca"} or "address" not in rail:
            found.append(error("inventory.rails.shape", f"{where}[{index}] is {rail!r}.", example))
            continue
        netdev = rail.get("netdev")
        if netdev is None:
            pass  # the cage that has the cable is looked for on the host
        elif not isinstance(netdev, str) or not NETDEV.match(netdev):
            found.append(
                error(
                    "inventory.rails.netdev",
                    f"{where}[{index}].netdev is {netdev!r}.",
                    f"name it as `ip link` on {node.name} shows it, such as enp1s0f0np0, or leave it out.",
                )
            )
        else:
            netdevs.append(netdev)
        interface, problem = _parse_address(f"{where}[{index}].address", rail["address"])
        if interface is not None:
            interfaces.append(interface)
        if problem is not None:
            found.append(problem)
    found += [
        error(
            "inventory.rails.netdev_twice",
            f"{where} uses {netdev} for two rails.",
            "each rail has its own interface.",
        )
        for netdev in sorted({name for name in netdevs if netdevs.count(name) > 1})
    ]
    return interfaces, found


def _parse_address(where: str, value: Any) -> tuple[Interface | None, Finding | None]:
    try:
        interface = ipaddress.ip_interface(str(value))
    except ValueError as problem:
        return None, error(
            "inventory.address.invalid",
            f"{where} is {value!r} ({problem}).",
            "write address/prefix, such as 192.168.200.1/24.",
        )
    if interface.network.prefixlen == interface.max_prefixlen:
        return None, error(
            "inventory.address.prefix",
            f"{where} is {value!r}, a single address without a subnet.",
            "add the prefix length, such as 192.168.200.1/24.",
        )
    is_edge = interface.ip in (interface.network.network_address, interface.network.broadcast_address)
    if is_edge and interface.network.prefixlen < interface.max_prefixlen - 1:
        return None, error(
            "inventory.address.edge",
            f"{where} is {value!r}, the network or broadcast address of {interface.network}.",
            "choose a host address inside the subnet.",
        )
    return interface, None


def _subnet_findings(cluster: Cluster, parsed: dict[str, list[Interface]]) -> list[Finding]:
    found: list[Finding] = []
    counts = {name: len(rails) for name, rails in parsed.items()}
    if len(set(counts.values())) > 1:
        listing = ", ".join(f"{name} has {count}" for name, count in counts.items())
        return [
            error(
                "inventory.rails.count",
                f"the hosts differ in their number of rails: {listing}.",
                "give every host the same rails in the same order.",
            )
        ]
    owners: dict[Any, str] = {}
    for name, rails in parsed.items():
        for index, interface in enumerate(rails):
            owner = f"{name} rail {index}"
            if interface.ip in owners:
                found.append(
                    error(
                        "inventory.address.duplicate",
                        f"{interface.ip} belongs to {owners[interface.ip]} and to {owner}.",
                        "give every rail of every host its own address.",
                    )
                )
            owners.setdefault(interface.ip, owner)
    networks: list[Any] = []
    for index in range(next(iter(counts.values()), 0)):
        by_host = {name: rails[index].network for name, rails in parsed.items()}
        if len(set(by_host.values())) > 1:
            listing = ", ".join(f"{name} in {network}" for name, network in by_host.items())
            found.append(
                error(
                    "inventory.rails.subnet",
                    f"rail {index} is not in one subnet: {listing}.",
                    "both ends of a rail share a subnet.",
                )
            )
            continue
        network = next(iter(by_host.values()))
        for other_index, other in enumerate(networks):
            if other is not None and network.overlaps(other):
                found.append(
                    error(
                        "inventory.rails.shared_subnet",
                        f"rails {other_index} and {index} share the subnet {network}.",
                        "each rail needs its own subnet: two interfaces in one confuse ARP.",
                    )
                )
        networks.append(network)
    found += _management_findings(cluster, parsed)
    return found


def _management_findings(cluster: Cluster, parsed: dict[str, list[Interface]]) -> list[Finding]:
    found = []
    for node in cluster.nodes:
        try:
            management = ipaddress.ip_address(node.management)
        except ValueError:
            continue
        for index, interface in enumerate(parsed[node.name]):
            if management in interface.network:
                found.append(
                    error(
                        "inventory.fabric.is_management",
                        f"{node.name}: ansible_host {management} lies in rail {index}'s subnet "
                        f"{interface.network}.",
                        "the rails need subnets of their own, apart from the management network.",
                    )
                )
    return found


def _as_int(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return int(str(value))
    except ValueError:
        return None
