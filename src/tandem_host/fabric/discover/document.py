"""``fabric discover``: everything of a host that a fabric can be made of, and what each part is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem_host import addresses, cluster
from tandem_host.addresses import Address, Interface
from tandem_host.cluster import Cluster, Node
from tandem_host.fabric import adapters, devices, hcas, local, peers
from tandem_host.fabric.checks.hotplug import armed
from tandem_host.fabric.devices import Netdev
from tandem_host.fabric.discover import cages
from tandem_host.fabric.discover.cages import Cage
from tandem_host.fabric.hcas import HcaPort
from tandem_host.fabric.reach import HEARD, Reach
from tandem_host.findings import Finding, UnusableError, as_json
from tandem_host.host import Host


@dataclass(frozen=True)
class _Wanted:
    """What a cluster.json says of this host; without one there are no rails and no peers."""

    described: Cluster | None = None
    node: Node | None = None

    def rail_of(self, interface: Interface | None) -> int | None:
        """The number of the rail whose address an interface holds."""
        held = {own.ip for own in interface.addresses} if interface else set()
        rails = self.node.rails if self.node else ()
        return next((number for number, rail in enumerate(rails) if rail.address.ip in held), None)


def discover(host: Host, config: Path | None, rank: int | None) -> dict[str, Any]:
    """The document of one host; with ``config`` also its rails and which peer each of them reaches."""
    interfaces = {item.name: item for item in addresses.read(host)}
    wanted, findings = _wanted(host, config, rank, interfaces.values())
    rails = {name: wanted.rail_of(item) for name, item in interfaces.items()}
    netdevs = devices.read(host, also=[name for name, rail in rails.items() if rail is not None])
    ports = hcas.read(host)
    found = cages.group(netdevs, _image_guids(host, ports))
    reaches = _Peers(host, wanted)
    management = local.default_route_netdevs(host)
    return {
        "host": wanted.node.name if wanted.node else host.name,
        "rank": wanted.node.rank if wanted.node else None,
        "hotplug_marker": armed(host),
        "netdevs": [
            {
                **_netdev(item, interfaces.get(item.name)),
                **_place(item, found),
                "default_route": item.name in management,
                "hcas": [_hca(host, port) for port in hcas.of_netdev(ports, item.name)],
                "rail": rails.get(item.name),
                "reaches": reaches.through(item.name, rails.get(item.name)),
            }
            for item in netdevs
        ],
        "cages": [cage.as_json() for cage in found],
        "findings": as_json(findings),
    }


def _wanted(
    host: Host, config: Path | None, rank: int | None, interfaces: Any
) -> tuple[_Wanted, list[Finding]]:
    if config is None:
        return _Wanted(), []
    described = cluster.read(config)
    try:
        node = cluster.own_node(described, rank, addresses.held(interfaces), host.name)
        return _Wanted(described, node), []
    except UnusableError as problem:
        if problem.status == 2:  # noqa: PLR2004 - a rank that does not exist was asked for
            raise
        # Before the addresses are set a host is only looked at; that it has none yet stops nothing.
        return _Wanted(described), [dataclasses.replace(item, level="warning") for item in problem.findings]


def _image_guids(host: Host, ports: Sequence[HcaPort]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for port in ports:
        guid = adapters.identity(host, port.hca).image_guid
        if guid:
            found |= dict.fromkeys(port.netdevs, guid)
    return found


def _netdev(item: Netdev, interface: Interface | None) -> dict[str, Any]:
    return {
        "netdev": item.name,
        "driver": item.driver,
        "pci": item.pci,
        "pci_id": item.device_id,
        "pcie": item.link.as_json() if item.link else None,
        "iommu": item.iommu,
        "wireless": item.wireless,
        "master": interface.master if interface else None,
        "carrier": item.carrier,
        "operstate": item.operstate,
        "speed_mbps": item.speed,
        "mtu": item.mtu,
        "addresses": [str(own) for own in interface.addresses] if interface else [],
    }


def _place(item: Netdev, found: Sequence[Cage]) -> dict[str, Any]:
    cage = next((cage for cage in found if item in cage.netdevs), None)
    return {"cage": cage.name if cage else None, "card": cage.card if cage else None}


def _hca(host: Host, port: HcaPort) -> dict[str, Any]:
    own = adapters.identity(host, port.hca)
    return {
        "hca": port.hca,
        "port": port.port,
        "state": port.state,
        "link_layer": port.link_layer,
        "rate_gbps": adapters.rate_gbps(host, port),
        "firmware": own.firmware,
        "board": own.board,
        "node_guid": own.node_guid,
        "image_guid": own.image_guid,
    }


class _Peers:
    """Which peers a rail reaches."""

    def __init__(self, host: Host, wanted: _Wanted) -> None:
        self._reach = Reach(host)
        self._wanted = wanted
        self._ping = peers.pinger(host) if host.live else None

    def through(self, netdev: str, rail: int | None) -> list[dict[str, Any]]:
        """Every peer on the rail of ``netdev``: its route, and whether it was heard on this interface."""
        described, node = self._wanted.described, self._wanted.node
        if described is None or node is None or rail is None:
            return []
        found = []
        for peer in described.peers(node.rank):
            there = peer.rails[rail].address.ip
            route = self._reach.route(there, node.rails[rail].address.ip)
            state = self._state(there, netdev)
            found.append(
                {
                    "peer": peer.name,
                    "rank": peer.rank,
                    "address": str(there),
                    "route": route.get("dev") if route else None,
                    "neighbour": state,
                    "reached": state in HEARD,
                }
            )
        return found

    def _state(self, there: Address, netdev: str) -> str | None:
        state = self._reach.neighbour(there, netdev)
        if state not in HEARD and self._ping is not None:
            # The kernel forgets a peer that was not talked to.
            self._ping(netdev, there, peers.SMALL)
            state = self._reach.neighbour(there, netdev)
        return state
