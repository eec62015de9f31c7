"""What a side says of itself before a measurement: its programs, and what can make a rail slow."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tandem_host.fabric import devices
from tandem_host.fabric.bench.figures import TOOLS
from tandem_host.fabric.rails import RailState
from tandem_host.host import Host

_LONGEST = 200


@dataclass(frozen=True)
class RailFacts:
    """One rail of one host: what is unknown is None.

    ``speed`` in Mb/s; ``pcie`` is the width of the PCIe link in lanes; ``iommu`` is the type of the
    IOMMU group (``identity``: passthrough; ``DMA-FQ``: translated).
    """

    netdev: str
    hca: str | None
    mtu: int | None
    speed: int | None
    pcie: int | None
    iommu: str | None


@dataclass(frozen=True)
class Facts:
    """One host: ``boot_id`` is the kernel's identity of this boot; ``tools`` are the programs it has."""

    host: str
    boot_id: str
    tools: frozenset[str]
    rails: tuple[RailFacts, ...]

    def as_json(self) -> dict[str, Any]:
        """The facts for a document."""
        return {
            "host": self.host,
            "boot_id": self.boot_id,
            "tools": sorted(self.tools),
            "rails": [asdict(rail) for rail in self.rails],
        }


def gather(host: Host, name: str, rails: Sequence[RailState]) -> Facts:
    """The facts of this host; a tree is taken to have every program."""
    boot_id = host.read("/proc/sys/kernel/random/boot_id") or "unknown"
    tools = frozenset(tool for tool in TOOLS.values() if not host.live or shutil.which(tool))
    return Facts(name, boot_id, tools, tuple(_rail(host, rail) for rail in rails))


def _rail(host: Host, rail: RailState) -> RailFacts:
    netdev = devices.read_one(host, rail.netdev or "?")
    return RailFacts(
        netdev=netdev.name,
        hca=rail.rdma.hca if rail.rdma else None,
        mtu=rail.mtu,
        speed=netdev.speed,
        pcie=netdev.link.width if netdev.link else None,
        iommu=netdev.iommu,
    )


def from_json(document: Any, name: str, rails: int) -> Facts:
    """The facts that the host ``name`` gives of itself; raises ValueError unless all is as it must be."""
    try:
        found = [_rail_from_json(item) for item in document["rails"]]
        host, boot_id, tools = _word(document["host"]), _word(document["boot_id"]), document["tools"]
        named = frozenset(tool for tool in TOOLS.values() if tool in tools)
    except (LookupError, TypeError) as problem:
        raise ValueError(f"what it says of itself is incomplete ({problem})") from problem
    if host != name:
        raise ValueError(f"it calls itself {host}, the cluster calls it {name}")
    if len(found) != rails:
        raise ValueError(f"it has {len(found)} rails, wanted {rails}")
    return Facts(host, boot_id, named, tuple(found))


def _rail_from_json(document: Any) -> RailFacts:
    numbers = {name: document[name] for name in ("mtu", "speed", "pcie")}
    if any(value is not None and type(value) is not int for value in numbers.values()):
        raise ValueError("a number of one of its rails is none")
    words = {name: document[name] for name in ("hca", "iommu")}
    return RailFacts(
        netdev=_word(document["netdev"]),
        **{name: None if value is None else _word(value) for name, value in words.items()},  # type: ignore[arg-type]
        **numbers,
    )


def _word(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(rf"[ -~]{{1,{_LONGEST}}}", value):
        raise ValueError("a name is not a short printable text")
    return value
