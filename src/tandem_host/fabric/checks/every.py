"""All checks of a host that ``fabric check`` and ``fabric up`` add to what ``fabric resolve`` finds."""

from __future__ import annotations

from collections.abc import Sequence

from tandem_host.cluster import Cluster, Node
from tandem_host.fabric.checks import devices, hotplug, leftovers, routes
from tandem_host.fabric.rails import RailState
from tandem_host.findings import Finding
from tandem_host.host import Host


def findings(
    host: Host, cluster: Cluster, node: Node, rails: Sequence[RailState], user: str
) -> list[Finding]:
    """What is wrong around the rails; ``user`` is the account that ranks run as."""
    found = [
        *devices.pcie(host, node, rails),
        *hotplug.findings(host, node),
        *leftovers.nccl_files(host, cluster, node, user),
        *leftovers.profiles(host, node),
        *routes.findings(host, cluster, node, rails),
    ]
    if cluster.fabric.rdma:
        found += devices.memlock(host, node)
        found += devices.rdma_mtu(host, node, rails)
    return found
