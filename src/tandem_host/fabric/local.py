"""What is wrong on this host beyond a single rail: interfaces not meant for a fabric, shared subnets."""

from __future__ import annotations

from collections.abc import Sequence

from tandem_host.cluster import Cluster, Node
from tandem_host.fabric.rails import RailState, View
from tandem_host.findings import Finding, error
from tandem_host.host import Host


def findings(seen: View, cluster: Cluster, node: Node, rails: Sequence[RailState]) -> list[Finding]:
    """Everything that the host's own state shows, for the rails that were found."""
    found: list[Finding] = []
    management = default_route_netdevs(seen.host)
    for rail in rails:
        if rail.netdev:
            found += _purpose(seen, cluster, node, rail.netdev, management)
            found += _shared_subnet(seen, node, rail)
    return found


def default_route_netdevs(host: Host) -> frozenset[str]:
    """Interfaces that a default route leaves through, IPv4 and IPv6."""
    found = set()
    for line in (host.read("/proc/net/route") or "").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000":  # noqa: PLR2004
            found.add(fields[0])
    for line in (host.read("/proc/net/ipv6_route") or "").splitlines():
        fields = line.split()
        if len(fields) == 10 and set(fields[0]) == {"0"} and fields[1] == "00":  # noqa: PLR2004
            found.add(fields[9])
    return frozenset(found - {"lo"})


def _purpose(
    seen: View, cluster: Cluster, node: Node, netdev: str, management: frozenset[str]
) -> list[Finding]:
    sysfs = f"/sys/class/net/{netdev}"
    found = []
    if seen.host.exists(f"{sysfs}/wireless") or seen.host.exists(f"{sysfs}/phy80211"):
        text = f"{node.name}: {netdev} is Wi-Fi and holds a fabric address."
        found.append(
            error("fabric.link.wireless", text, "Give the fabric addresses to the ConnectX-7 interfaces.")
        )
    if netdev in management:
        text = f"{node.name}: {netdev} holds a fabric address and carries the default route."
        fix = "Give the fabric its own interfaces; the default route belongs to the management network."
        found.append(error("fabric.link.management", text, fix))
    master = next((item.master for item in seen.interfaces if item.name == netdev), None)
    bonded = seen.host.exists(f"{sysfs}/bonding")
    if cluster.fabric.rdma and (bonded or master):
        what = "is a bond" if bonded else f"belongs to {master}"
        text = f"{node.name}: {netdev} {what}: RDMA does not use both functions of a cage through it."
        found.append(
            error("fabric.link.bond", text, "Take the bond apart and give each interface its own subnet.")
        )
    return found


def _shared_subnet(seen: View, node: Node, rail: RailState) -> list[Finding]:
    found = []
    for interface in seen.interfaces:
        if interface.name == rail.netdev:
            continue
        for own in interface.addresses:
            if own.version == rail.address.version and own.network.overlaps(rail.address.network):
                text = (
                    f"{node.name}: {interface.name} holds {own}, in {rail.netdev}'s subnet ({rail.address})."
                )
                fix = f"ip addr del {own} dev {interface.name}, or give the rail another subnet."
                found.append(error("fabric.subnet.duplicate", text, fix))
    return found
