"""This host before a measurement: its rails, what is wrong with them, and how its jobs are called."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from tandem_host.cluster import Cluster, Node
from tandem_host.fabric import rails
from tandem_host.fabric.bench import facts, jobs
from tandem_host.fabric.bench.facts import Facts
from tandem_host.fabric.bench.jobs import Job
from tandem_host.fabric.rails import RailState
from tandem_host.findings import Finding
from tandem_host.host import Host


@dataclass(frozen=True)
class Here:
    """This host as a side of a measurement."""

    host: Host
    cluster: Cluster
    node: Node
    rails: tuple[RailState, ...]
    facts: Facts
    findings: tuple[Finding, ...]

    def peer_at(self, address: tuple[Any, ...]) -> int | None:
        """The rank of the node whose rail has the address of a connection; None for strangers."""
        remote = ip_address(str(address[0]).partition("%")[0])
        for node in self.cluster.peers(self.node.rank):
            if any(rail.address.ip == remote for rail in node.rails):
                return node.rank
        return None

    def command(self, job: Job, peer: int, port: int) -> tuple[list[str], int]:
        """Command line and port of a job against a rank; jobs have the ports after ``port``, one a rail."""
        target = next(node for node in self.cluster.nodes if node.rank == peer)
        own = port + 1 + job.rail
        address = target.rails[job.rail].address.ip
        return jobs.argv(job, self.cluster.fabric.kind, self.rails[job.rail], address, own), own


def look(host: Host, config: Path, rank: int | None) -> Here:
    """The host as it is now, with what is wrong with its rails; raises UnusableError."""
    here = rails.look(host, config, rank)
    known = facts.gather(host, here.node.name, here.rails)
    return Here(host, here.cluster, here.node, tuple(here.rails), known, tuple(here.findings))
