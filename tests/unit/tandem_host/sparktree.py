"""A Spark as a directory tree: its card with two cages and four functions, and the management interface."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hosttree import FE80, Tree, ipv4_gid, v1_v2_pair

IMAGE_GUID = "0200:5e03:0010:0000"


@dataclass(frozen=True)
class Function:
    """One PCI function of the card and the names that it gives."""

    netdev: str
    hca: str
    pci: str
    port: str
    guid: str


# By PCI slot: the order in which a list shows them, and not the one of cages.
FUNCTIONS = (
    Function("enp1s0f0np0", "rocep1s0f0", "0000:01:00.0", "p0", "0200:5e03:0010:0030"),
    Function("enp1s0f1np1", "rocep1s0f1", "0000:01:00.1", "p1", "0200:5e03:0010:0031"),
    Function("enP2p1s0f0np0", "roceP2p1s0f0", "0002:01:00.0", "p0", "0200:5e03:0010:0034"),
    Function("enP2p1s0f1np1", "roceP2p1s0f1", "0002:01:00.1", "p1", "0200:5e03:0010:0035"),
)
Gids = dict[int, tuple[str, str] | None]


def plain(address: str, first: int = 2) -> Gids:
    """The GID table of a port without surprises: link-local, then the IPv4 address, each as v1 and v2."""
    return v1_v2_pair(0, FE80) | v1_v2_pair(first, ipv4_gid(address))


@dataclass
class Spark:
    """How a Spark differs from a good one with nothing plugged in; ``build`` makes the tree.

    ``addresses`` by interface; an interface has a carrier when its cage is in ``cabled``.
    """

    tree: Tree
    cabled: Sequence[str] = ("p0",)
    addresses: Mapping[str, str] = field(default_factory=dict)
    gids: Mapping[str, Gids] = field(default_factory=dict)
    named_ports: bool = True
    guids: bool = True
    lanes: Mapping[str, int] = field(default_factory=dict)
    card_lanes: int = 16
    iommu: str = "identity"
    mtu: int = 9000

    def build(self) -> None:
        for function in FUNCTIONS:
            self._function(function)
        self.tree.interface("enP7s7", "192.0.2.11/24", mtu=1500)
        pci_device(self.tree, "enP7s7", "0007:01:00.0", "r8127", "10EC:8127")
        self.tree.interface("docker0", "172.17.0.1/16", mtu=1500)
        self.tree.interface("lo", "127.0.0.1/8", mtu=65536)

    def _function(self, function: Function) -> None:
        netdev, up = function.netdev, function.port in self.cabled
        own = self.addresses.get(netdev)
        self.tree.interface(
            netdev,
            *([own] if own else []),
            mtu=self.mtu,
            carrier="1" if up else "0",
            operstate="up" if up else "down",
            port=function.port if self.named_ports else "",
        )
        self.tree.write(f"sys/class/net/{netdev}/speed", "200000" if up else "-1")
        place = pci_device(self.tree, netdev, function.pci, "mlx5_core", "15B3:1021")
        self.tree.write(f"{place}/current_link_speed", "32.0 GT/s PCIe")
        self.tree.write(f"{place}/current_link_width", str(self.lanes.get(netdev, 4)))
        self.tree.write(f"{place}/max_link_speed", "32.0 GT/s PCIe")
        self.tree.write(f"{place}/max_link_width", str(self.card_lanes))
        self.tree.write(f"{place}/iommu_group/type", self.iommu)
        (self.tree.root / place / "net" / netdev).mkdir(parents=True)
        table = self.gids.get(function.hca, plain(own.split("/")[0]) if own else v1_v2_pair(0, FE80))
        self.tree.hca(function.hca, netdev, table, state="4: ACTIVE" if up else "1: DOWN")
        base = f"sys/class/infiniband/{function.hca}"
        (self.tree.root / base / "device").symlink_to(Path("../../..") / place.removeprefix("sys/"))
        self.tree.write(f"{base}/ports/1/rate", "200 Gb/sec (4X HDR)" if up else "40 Gb/sec (4X QDR)")
        self.tree.write(f"{base}/fw_ver", "28.45.4028")
        self.tree.write(f"{base}/board_id", "NVD0000000087")
        self.tree.write(f"{base}/node_guid", function.guid)
        self.tree.write(f"{base}/sys_image_guid", IMAGE_GUID if self.guids else "0000:0000:0000:0000")


def pci_device(tree: Tree, netdev: str, pci: str, driver: str, identity: str) -> str:
    """The device of an interface below a port of its own; returns its directory."""
    place = f"sys/devices/pci{pci[:7]}/{pci[:4]}:00:00.0/{pci}"
    tree.write(f"{place}/uevent", f"DRIVER={driver}\nPCI_ID={identity}\nPCI_SLOT_NAME={pci}")
    (tree.root / f"sys/class/net/{netdev}/device").symlink_to(Path("../../../..") / place)
    return place


def recorded(tree: Tree, name: str, entries: Sequence[Mapping[str, Any]]) -> None:
    """Output of ``ip -j`` as a tree keeps it."""
    tree.write(f"tandem-fixture/{name}", json.dumps(entries))
