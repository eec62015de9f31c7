"""What to say about a class: what it usually is, and what to look at. docs/slow-link.md has more on each."""

from __future__ import annotations

from collections.abc import Sequence

from tandem_host.fabric.bench.facts import Facts
from tandem_host.fabric.bench.ratings import DEGRADED, LOW, ONE_RAIL, SOCKETS, WRONG_HCA
from tandem_host.findings import Finding, error

#: Code, what it usually is, what to do.
_ABOUT = {
    WRONG_HCA: (
        "fabric.bench.wrong_hca",
        "less than the link could ever carry; it went through another device or over the management port",
        "Look where it goes: ip route get PEER; rdma link show; then cable and netdev in tandem_rails.",
    ),
    DEGRADED: (
        "fabric.bench.degraded",
        "the adapter did not start right (every light is green then), or its host's IOMMU slows it down",
        "Shut both hosts down, take their power for a minute, start both; then compare the IOMMU "
        "(docs/slow-link.md).",
    ),
    ONE_RAIL: (
        "fabric.bench.one_rail",
        "about what one of the two rails carries",
        "Both rails in tandem_rails, each in its own subnet; a 200G cable: ethtool INTERFACE | grep Speed.",
    ),
    LOW: (
        "fabric.bench.low",
        "less than expected and more than a fault that has a name",
        "MTU 9000 on both ends, PCIe x4, link 200000Mb/s, nothing else running; docs/slow-link.md.",
    ),
    SOCKETS: (
        "fabric.bench.sockets",
        "what TCP carries: NCCL fell back to sockets",
        "NCCL_DEBUG=INFO must say NET/IB, not NET/Socket; tandem-host fabric resolve shows what to set.",
    ),
}
_LINK_MBITS = 200_000
_PCIE_LANES = 4
_MTU = 9000


def finding(name: str, measured: str, hints: Sequence[str] = ()) -> Finding:
    """The finding of a class; ``measured`` begins with the host, ``hints`` are what was seen beside it."""
    code, usually, fix = _ABOUT[name]
    seen = f" Seen: {'; '.join(hints)}." if hints else ""
    return error(code, f"{measured}: {usually}.{seen}", fix)


def hints(both: Sequence[Facts], rails: Sequence[int]) -> list[str]:
    """What is visibly wrong with these rails on either host."""
    found = []
    for facts in both:
        for position in rails:
            rail = facts.rails[position]
            place = f"{facts.host} {rail.netdev}"
            if rail.speed is not None and rail.speed < _LINK_MBITS:
                found.append(f"{place} has a link of {rail.speed} Mb/s")
            if rail.pcie is not None and rail.pcie < _PCIE_LANES:
                found.append(f"{place} has PCIe x{rail.pcie}")
            if rail.mtu is not None and rail.mtu < _MTU:
                found.append(f"{place} has MTU {rail.mtu}")
    return found + iommu_difference(both, rails)


def iommu_difference(both: Sequence[Facts], rails: Sequence[int]) -> list[str]:
    """The modes of the IOMMU where the hosts differ in them."""
    modes = [(facts.host, {facts.rails[rail].iommu for rail in rails} - {None}) for facts in both]
    if any(not mode for _, mode in modes) or all(mode == modes[0][1] for _, mode in modes):
        return []
    said = ", ".join(f"{host} {'/'.join(sorted(map(str, mode)))}" for host, mode in modes)
    return [f"the IOMMU differs: {said}"]
