"""A Spark as a tree, its fabric configured in one of the ways that people have."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hosttree import Tree, cluster_document

NP0 = ("enp1s0f0np0", "enP2p1s0f0np0")
NP1 = ("enp1s0f1np1", "enP2p1s0f1np1")
OWN = "/etc/netplan/60-tandem-fabric.yaml"
PCI = {
    "enp1s0f0np0": "0000:01:00.0",
    "enp1s0f1np1": "0000:01:00.1",
    "enP2p1s0f0np0": "0002:01:00.0",
    "enP2p1s0f1np1": "0002:01:00.1",
    "enP7s7": "0007:01:00.0",
}
MANAGEMENT = """\
network:
  version: 2
  renderer: NetworkManager
  ethernets:
    enP7s7:
      dhcp4: true
"""


def spark(tree: Tree, cabled: str = "p0", **addresses: str) -> None:
    """Four functions in two cages, of which ``cabled`` has carrier, and a management interface."""
    for netdev, pci in PCI.items():
        cage = netdev[-2:] if netdev != "enP7s7" else ""
        up = cage in cabled.split() or not cage
        held = [addresses[netdev]] if netdev in addresses else []
        state = {"carrier": "1", "operstate": "up"} if up else {"carrier": "0", "operstate": "down"}
        tree.interface(netdev, *held, port=cage, **state)
        folder = tree.root / "sys/class/net" / netdev
        (folder / "device").symlink_to(f"../../../devices/pci/{pci}")
        (tree.root / "sys/devices/pci" / pci).mkdir(parents=True)
        (tree.root / "sys/devices/pci" / pci / "driver").symlink_to("../../../bus/pci/drivers/mlx5_core")
        tree.write(f"sys/class/net/{netdev}/address", f"02:00:5e:00:00:{len(netdev):02x}")


def named(*netdevs: str | None, second: tuple[str, str] = ("10.0.0.1/24", "10.0.1.1/24")) -> dict[str, Any]:
    """cluster.json with these interfaces for rank 0."""
    document = cluster_document()
    for rail, netdev, address in zip(document["nodes"][0]["rails"], netdevs, second, strict=True):
        rail |= {"netdev": netdev, "address": address}
    return document


def put(tree: Tree, path: str, text: str, mode: int = 0o600) -> Path:
    """A configuration file, its text indented as in the test."""
    file = tree.root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    file.chmod(mode)
    os.utime(file, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    return file


def ethernets(**settings: str) -> str:
    """A netplan document: the settings of each interface in one line."""
    lines = "".join(f"    {netdev}: {{{words}}}\n" for netdev, words in settings.items())
    return f"network:\n  version: 2\n  ethernets:\n{lines}"


@dataclass(frozen=True)
class Layout:
    """Files as people have them; ``gone`` go as a whole, ``rewritten`` keep what is not of the rails."""

    name: str
    rails: tuple[str, str]
    files: Mapping[str, str]
    gone: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()


LAYOUTS = {
    "a": Layout(
        "static_two_subnets",
        NP1,
        {
            "/etc/netplan/40-cx7.yaml": """\
                network:
                  version: 2
                  ethernets:
                    enp1s0f1np1:
                      dhcp4: no
                      dhcp6: no
                      link-local: []
                      mtu: 9000
                      addresses: [192.168.177.11/24]
                    enP2p1s0f1np1:
                      dhcp4: no
                      dhcp6: no
                      link-local: []
                      mtu: 9000
                      addresses: [192.168.178.11/24]
                """
        },
        gone=("/etc/netplan/40-cx7.yaml",),
    ),
    "b": Layout(
        "static_two_subnets_mtu_unset",
        NP0,
        {
            "/etc/netplan/40-cx7.yaml": ethernets(
                enp1s0f0np0="addresses: [192.168.100.10/24], dhcp4: no",
                enP2p1s0f0np0="addresses: [192.168.101.10/24], dhcp4: no",
            )
        },
        gone=("/etc/netplan/40-cx7.yaml",),
    ),
    "c": Layout(
        "link_local_ipv4",
        NP0,
        {
            "/etc/netplan/40-cx7.yaml": """\
                network:
                  version: 2
                  ethernets:
                    enp1s0f0np0:
                      link-local: [ ipv4 ]
                    # the other cage
                    enp1s0f1np1:
                      link-local: [ ipv4 ]
                """
        },
        rewritten=("/etc/netplan/40-cx7.yaml",),
    ),
    "d": Layout(
        "one_subnet",
        NP0,
        {
            "/etc/netplan/99-nvidia-sync-cluster.yaml": ethernets(
                enp1s0f0np0="addresses: [192.168.100.1/24]", enP2p1s0f0np0="addresses: [192.168.100.2/24]"
            )
        },
        gone=("/etc/netplan/99-nvidia-sync-cluster.yaml",),
    ),
    "e": Layout(
        "static_two_subnets_uneven",
        NP1,
        {
            "/etc/netplan/40-cx7.yaml": ethernets(
                enp1s0f1np1="addresses: [192.168.177.12/24], mtu: 9000",
                enP2p1s0f1np1="addresses: [192.168.178.13/24], mtu: 9000",
            )
        },
        gone=("/etc/netplan/40-cx7.yaml",),
    ),
    "f": Layout(
        "link_local_and_networkmanager",
        NP0,
        {
            "/etc/netplan/40-cx7.yaml": ethernets(enp1s0f0np0="link-local: [ipv4], mtu: 9000"),
            "/etc/NetworkManager/system-connections/rail2.nmconnection": """\
                [connection]
                id=rail2
                type=ethernet
                interface-name=enP2p1s0f0np0

                [ethernet]
                mtu=9000

                [ipv4]
                address1=10.200.0.1/30
                method=manual

                [ipv6]
                method=disabled
                """,
        },
        gone=(
            "/etc/netplan/40-cx7.yaml",
            "/etc/NetworkManager/system-connections/rail2.nmconnection",
        ),
    ),
    "g": Layout(
        "bond",
        NP0,
        {
            "/etc/netplan/10-qsfp.yaml": """\
                network:
                  version: 2
                  ethernets:
                    enp1s0f0np0: {}
                    enP2p1s0f0np0: {}
                  bonds:
                    bond0:
                      interfaces: [enp1s0f0np0, enP2p1s0f0np0]
                      parameters: {mode: balance-xor}
                      addresses: [172.16.0.1/30]
                """
        },
        gone=("/etc/netplan/10-qsfp.yaml",),
    ),
    "h": Layout(
        "networkmanager_netplan",
        NP0,
        {
            "/etc/netplan/90-NM-0a1b2c3d-1111-2222-3333-444455556666.yaml": """\
                network:
                  version: 2
                  ethernets:
                    NM-0a1b2c3d-1111-2222-3333-444455556666:
                      renderer: NetworkManager
                      match:
                        name: "enp1s0f0np0"
                      dhcp4: true
                      wakeonlan: true
                      networkmanager:
                        uuid: "0a1b2c3d-1111-2222-3333-444455556666"
                        name: "Wired connection 2"
                        passthrough:
                          ethernet._: ""
                          proxy._: ""
                """,
            "/etc/netplan/90-NM-99999999-1111-2222-3333-444455556666.yaml": """\
                network:
                  version: 2
                  ethernets:
                    NM-99999999-1111-2222-3333-444455556666:
                      renderer: NetworkManager
                      match: {name: "enP7s7"}
                      dhcp4: true
                """,
        },
        gone=("/etc/netplan/90-NM-0a1b2c3d-1111-2222-3333-444455556666.yaml",),
    ),
}


def furnish(tree: Tree, layout: Layout) -> None:
    """The host with this layout, and a file of the management interface that nobody may touch."""
    spark(tree, layout.rails[0][-2:])
    put(tree, "/etc/netplan/01-network-manager-all.yaml", MANAGEMENT, 0o644)
    for path, text in layout.files.items():
        put(tree, path, text)


def snapshot(tree: Tree) -> dict[str, tuple[bytes, int, int]]:
    """Every file below etc and run: bytes, mode, time of change."""
    return {
        str(file.relative_to(tree.root)): (
            file.read_bytes(),
            file.stat().st_mode,
            file.stat().st_mtime_ns,
        )
        for folder in ("etc", "run")
        for file in sorted((tree.root / folder).rglob("*"))
        if file.is_file()
    }
