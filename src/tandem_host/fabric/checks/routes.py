"""Whether the kernel uses each rail for the peer at its other end."""

from __future__ import annotations

from collections.abc import Sequence

from tandem_host.cluster import Cluster, Node
from tandem_host.fabric.rails import RailState
from tandem_host.fabric.reach import Reach
from tandem_host.findings import Finding, error
from tandem_host.host import Host


def findings(host: Host, cluster: Cluster, node: Node, rails: Sequence[RailState]) -> list[Finding]:
    """An error for each peer whose route leaves through another interface than the rail's, or is missing."""
    reach = Reach(host)
    if not reach.knows_routes():
        return []
    found = []
    for peer in cluster.peers(node.rank):
        for rail, theirs in zip(rails, peer.rails, strict=True):
            if rail.netdev is None:
                continue
            there, source = theirs.address.ip, rail.address.ip
            route = reach.route(there, source)
            way = f"{node.name}: {source} -> {peer.name} ({there})"
            look = f"ip route get {there} from {source}; ip rule; ip route show table all"
            if route is None:
                text = f"{way} has no route, wanted through {rail.netdev}."
                found.append(error("fabric.route.missing", text, look))
            elif route.get("dev") != rail.netdev:
                text = f"{way} leaves through {route.get('dev')}, wanted {rail.netdev}."
                fix = f"Remove the rule or route that is more specific than {rail.address.network}: {look}"
                found.append(error("fabric.route.elsewhere", text, fix))
    return found
