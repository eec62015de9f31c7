"""The environment that makes a rank use its rails: NCCL, Gloo, UCX, vLLM and what Tandem needs itself."""

from __future__ import annotations

from collections.abc import Sequence

from tandem_host.cluster import Cluster, Node
from tandem_host.fabric import gids, hcas
from tandem_host.fabric.hcas import HcaPort
from tandem_host.fabric.rails import RailState
from tandem_host.findings import Finding, error

# Nothing else may set these: a value from elsewhere would send a rank over the wrong interface.
OWNED = frozenset(
    {
        "GLOO_SOCKET_IFNAME",
        "MASTER_ADDR",
        "MASTER_PORT",
        "NCCL_IB_ADDR_FAMILY",
        "NCCL_IB_DISABLE",
        "NCCL_IB_GID_INDEX",
        "NCCL_IB_HCA",
        "NCCL_IB_ROCE_VERSION_NUM",
        "NCCL_NET",
        "NCCL_SOCKET_FAMILY",
        "NCCL_SOCKET_IFNAME",
        "TANDEM_FABRIC_KIND",
        "TANDEM_MASTER_ADDR",
        "TANDEM_MASTER_PORT",
        "TANDEM_RANK",
        "TP_SOCKET_IFNAME",
        "UCX_NET_DEVICES",
        "VLLM_HOST_IP",
    }
)


def build(
    cluster: Cluster,
    node: Node,
    rails: Sequence[RailState],
    ports: tuple[HcaPort, ...],
    netdevs: Sequence[str],
) -> dict[str, str]:
    """The variables of one rank, sorted by name.

    ``rails`` must be complete (call only when no rail has an error); ``netdevs``: all interfaces of the host.
    No value is empty: NCCL would read an empty number as 0.
    """
    first = rails[0]
    version = first.address.version
    bootstrap = str(first.netdev)
    values = {
        "GLOO_SOCKET_IFNAME": bootstrap,
        "NCCL_SOCKET_FAMILY": f"AF_INET{'6' if version == 6 else ''}",  # noqa: PLR2004
        "NCCL_SOCKET_IFNAME": _exact(bootstrap, netdevs),
        "TANDEM_FABRIC_KIND": cluster.fabric.kind,
        "TANDEM_MASTER_ADDR": str(cluster.master_address),
        "TANDEM_MASTER_PORT": str(cluster.rendezvous_port),
        "TANDEM_RANK": str(node.rank),
        "TP_SOCKET_IFNAME": bootstrap,
        "VLLM_HOST_IP": str(first.address.ip),
    }
    if cluster.fabric.rdma:
        values |= _rdma(cluster, rails, ports)
    else:
        values |= {
            "NCCL_IB_DISABLE": "1",
            "NCCL_NET": "Socket",
            "UCX_NET_DEVICES": ",".join(str(rail.netdev) for rail in rails),
        }
    return dict(sorted(values.items()))


def _rdma(cluster: Cluster, rails: Sequence[RailState], ports: tuple[HcaPort, ...]) -> dict[str, str]:
    chosen = tuple(rail.rdma for rail in rails if rail.rdma)
    values = {
        "NCCL_IB_ADDR_FAMILY": f"AF_INET{'6' if rails[0].address.version == 6 else ''}",  # noqa: PLR2004
        "NCCL_IB_DISABLE": "0",
        "NCCL_IB_HCA": hcas.selector(chosen, ports),
        "NCCL_IB_ROCE_VERSION_NUM": "2",
        "NCCL_NET": "IB",
        "UCX_NET_DEVICES": ",".join(f"{item.hca}:{item.port}" for item in chosen),
    }
    if cluster.fabric.gid_policy == "pin":
        index = gids.common([rail.candidates for rail in rails])
        if index is not None:
            values["NCCL_IB_GID_INDEX"] = str(index)
    return values


def _exact(netdev: str, netdevs: Sequence[str]) -> str:
    """NCCL reads interface names as prefixes; ``=`` asks for exactly this one where that matters."""
    return f"={netdev}" if any(name != netdev and name.startswith(netdev) for name in netdevs) else netdev


def pin_findings(node: Node, rails: Sequence[RailState]) -> list[Finding]:
    """An error when the policy is ``pin`` and no index is right on every HCA of the host."""
    proven = [rail for rail in rails if rail.rdma and rail.candidates]
    if len(proven) != len(rails) or gids.common([rail.candidates for rail in rails]) is not None:
        return []  # a rail without a GID has its own finding
    indexes = ", ".join(f"{rail.rdma.hca}={rail.gid_index}" for rail in proven if rail.rdma)
    wrong = []
    for index in sorted({index for rail in proven for index in rail.candidates}):
        for rail in proven:
            if rail.rdma and index not in rail.candidates:
                wrong.append(f"GID index {index} is {gids.describe(rail.table, index)} on {rail.rdma.hca}")
    text = f"{node.name}: no GID index is right on every HCA ({indexes}): {'; '.join(wrong)}."
    fix = (
        "Set tandem_fabric_gid_policy to auto (NCCL then chooses on each HCA), or stop stable-privacy "
        "link-local addresses (addr-gen-mode eui64) and bring the links down and up."
    )
    return [error("fabric.gid.pin", text, fix)]
