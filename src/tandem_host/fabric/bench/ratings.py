"""What a figure means: classes by bands, as data. Pure functions.

Sources of the bands: owners' figures in the DGX Spark forum of NVIDIA (threads 352051 and 384436) and in
NVIDIA/dgx-spark-playbooks (issues 25 and 102, pull requests 103 and 108; its own test passes at 21.875 GB/s).
"""

from __future__ import annotations

from collections.abc import Iterable

GOOD, ONE_RAIL, LOW = "good", "one_rail", "low"
DEGRADED, WRONG_HCA, SOCKETS, UNRATED = "degraded", "wrong_hca", "sockets", "unrated"
#: The worst first; an overall class is the worst of its parts.
SEVERITY = (SOCKETS, WRONG_HCA, DEGRADED, ONE_RAIL, LOW, GOOD, UNRATED)

#: From this value on: a class; the next band begins where it ends.
Bands = tuple[tuple[float, str], ...]

#: One function of a cage, ib_write_bw or ib_read_bw with 64 KiB, Gb/s. Healthy: 92.57 to 111.72; its PCIe x4
#: link carries 107 to 112. Degraded initialisation or a translating IOMMU: 8 to 25 (mostly 13). Below that
#: it is not this link at all: the 10 GbE of the management port, or another device.
RAIL_GBPS: Bands = ((0.0, WRONG_HCA), (8.0, DEGRADED), (25.0, LOW), (90.0, GOOD))
#: Both at once, Gb/s together: about 190 measured; 160 is the 20 GB/s with which healthy pairs begin.
PAIR_GBPS = 160.0
#: Together hardly more than one alone: both share one link (100G cable, both in one subnet).
ONE_RAIL_FACTOR = 1.3
#: ib_write_lat one way, microseconds: 1.4 to 1.8 on a cable, 1.3 more through a switch.
LATENCY_US = 5.0

#: all_gather or all_reduce of nccl-tests, bus bandwidth in GB/s, messages of 32 MiB and more.
#: Both rails: 20 to 24, 18.5 at 32 MiB, 18.94 at MTU 1500. One rail: 9.8 to 14. Wrong HCA or a development
#: build of NCCL: 3.0. Sockets: 2.0 to 2.1. Throttled or degraded: 1.6. Below 1: sockets over management.
BUS_GBYTES: Bands = (
    (0.0, SOCKETS),
    (1.0, DEGRADED),
    (1.9, SOCKETS),
    (2.5, WRONG_HCA),
    (4.0, LOW),
    (9.5, ONE_RAIL),
    (14.5, LOW),
    (18.0, GOOD),
)
#: The same with one rail in use on purpose.
BUS_GBYTES_ONE: Bands = (*BUS_GBYTES[:5], (9.5, GOOD))
#: Smaller messages measure latency, not bandwidth: 64 KiB has 0.97 GB/s on a healthy pair.
BUS_SMALLEST_BYTES = 32 * 1024 * 1024


def band(value: float, bands: Bands) -> str:
    """The class of the last band that begins at or below the value."""
    return [name for start, name in bands if value >= start][-1]


def rail(gbps: float, expected: float | None, rdma: bool) -> str:
    """The class of one rail's verbs bandwidth in one direction.

    ``expected`` replaces what is good; ``rdma`` False: the bands of ConnectX-7 mean nothing there.
    """
    if expected is not None and gbps >= expected:
        return GOOD
    if not rdma:
        return UNRATED if expected is None else LOW
    found = band(gbps, RAIL_GBPS)
    return LOW if expected is not None and found == GOOD else found


def together(gbps: float, best_alone: float) -> str:
    """The class of all rails at once, given the best of them alone, both in Gb/s."""
    if gbps < ONE_RAIL_FACTOR * best_alone:
        return ONE_RAIL
    return GOOD if gbps >= PAIR_GBPS else LOW


def bus(gbytes: float, rails: int, size: int) -> str:
    """The class of nccl-tests' bus bandwidth for a message of ``size`` bytes."""
    if size < BUS_SMALLEST_BYTES:
        return UNRATED
    return band(gbytes, BUS_GBYTES if rails > 1 else BUS_GBYTES_ONE)


def worst(classes: Iterable[str]) -> str:
    """The worst of several classes; ``unrated`` when there is none."""
    return min(classes, key=SEVERITY.index, default=UNRATED)
