"""What an environment is held against: the host's interfaces and RDMA ports, and its rails where known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tandem_host import addresses
from tandem_host.addresses import Interface
from tandem_host.cluster import Cluster, Node
from tandem_host.fabric import hcas, rails
from tandem_host.fabric.hcas import HcaPort
from tandem_host.fabric.rails import RailState
from tandem_host.findings import Finding
from tandem_host.host import Host


@dataclass(frozen=True)
class Situation:
    """One host; without a ``cluster`` there are no rails and nothing is said about peers."""

    host: Host
    interfaces: tuple[Interface, ...]
    ports: tuple[HcaPort, ...]
    cluster: Cluster | None = None
    node: Node | None = None
    rails: tuple[RailState, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """What the host is called."""
        return self.node.name if self.node else self.host.name

    def interface(self, name: str) -> Interface | None:
        """The interface with this name."""
        return next((item for item in self.interfaces if item.name == name), None)

    @property
    def rail_ports(self) -> tuple[HcaPort, ...]:
        """The RDMA ports whose other end is a host of the cluster."""
        return tuple(rail.rdma for rail in self.rails if rail.rdma)


def read(host: Host, config: Path | None, rank: int | None) -> Situation:
    """Look at the host once; raises UnusableError when the host or its cluster.json cannot be read."""
    if config is None:
        return Situation(host, addresses.read(host), hcas.read(host))
    here = rails.look(host, config, rank)
    # All ports of the host, where the rails need none as well.
    ports = here.seen.ports or hcas.read(host)
    return Situation(
        host, here.seen.interfaces, ports, here.cluster, here.node, tuple(here.rails), tuple(here.findings)
    )
