"""RDMA devices (HCAs) and the network interfaces they belong to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tandem_host.host import Host
from tandem_host.system import ask


@dataclass(frozen=True)
class HcaPort:
    """One port of an HCA, which has ``ports`` of them; ``state`` is the kernel's word (ACTIVE, DOWN …)."""

    hca: str
    port: int
    state: str | None
    link_layer: str | None
    netdevs: frozenset[str]
    ports: int = 1

    @property
    def active(self) -> bool:
        """Whether the port can carry traffic."""
        return self.state == "ACTIVE"


@dataclass(frozen=True)
class HcaIdentity:
    """What a device says of itself; None where the driver is silent.

    ``image_guid`` is the card's own number, the same for all functions of one card.
    """

    firmware: str | None
    node_guid: str | None
    image_guid: str | None
    board: str | None


def read(host: Host) -> tuple[HcaPort, ...]:
    """Every RDMA port of the host, in order of name and port."""
    found = []
    for hca in host.names("/sys/class/infiniband"):
        base = f"/sys/class/infiniband/{hca}"
        numbers = sorted(int(name) for name in host.names(f"{base}/ports") if name.isdecimal())
        for port in numbers:
            state = host.read(f"{base}/ports/{port}/state")
            found.append(
                HcaPort(
                    hca=hca,
                    port=port,
                    state=state.partition(":")[2].strip() or None if state else None,
                    link_layer=host.read(f"{base}/ports/{port}/link_layer"),
                    netdevs=_netdevs(host, base, port, len(numbers)),
                    ports=len(numbers),
                )
            )
    return tuple(found)


def _netdevs(host: Host, base: str, port: int, ports: int) -> frozenset[str]:
    """Interfaces of a port: from the device, else from its GID entries (up to 1024 files, so last).

    mlx5 has ``device/net``; soft-RoCE has no ``device`` but names its interface in ``parent``.
    With several ports on one device only the GID entries tell them apart.
    """
    if ports == 1:
        found = set(host.names(f"{base}/device/net"))
        parent = host.read(f"{base}/parent")
        if parent:
            found.add(parent)
        if found:
            return frozenset(found)
    attributes = f"{base}/ports/{port}/gid_attrs/ndevs"
    named = {host.read(f"{attributes}/{index}") for index in host.names(attributes)}
    return frozenset(name for name in named if name)


def identity(host: Host, hca: str) -> HcaIdentity:
    """Firmware, GUIDs and board of a device."""
    base = f"/sys/class/infiniband/{hca}"
    return HcaIdentity(
        firmware=host.read(f"{base}/fw_ver") or None,
        node_guid=_guid(host.read(f"{base}/node_guid")),
        image_guid=_guid(host.read(f"{base}/sys_image_guid")),
        board=host.read(f"{base}/board_id") or None,
    )


def _guid(text: str | None) -> str | None:
    return text if text and text.strip("0:") else None


def rate_gbps(host: Host, port: HcaPort) -> float | None:
    """The rate of a port in Gb/s: ``200 Gb/sec (4X HDR)`` is 200."""
    text = host.read(f"/sys/class/infiniband/{port.hca}/ports/{port.port}/rate")
    match = re.match(r"\d+(?:\.\d+)?", text or "")
    return float(match[0]) if match else None


def active_mtus(host: Host) -> dict[tuple[str, int], int]:
    """The MTU in bytes that each port sends with, by HCA and port, as far as ``ibv_devinfo`` is there.

    Sysfs does not have it; a tree may hold the program's output as ``tandem-fixture/ibv_devinfo.txt``.
    """
    text = ask(["ibv_devinfo"], 5) if host.live else host.read("/tandem-fixture/ibv_devinfo.txt")
    found: dict[tuple[str, int], int] = {}
    hca, port = "", 0
    for name, value in re.findall(r"^\s*(hca_id|port|active_mtu):\s+(\S+)", text or "", re.MULTILINE):
        if name == "hca_id":
            hca = value
        elif name == "port":
            port = int(value) if value.isdecimal() else 0
        elif value.isdecimal():
            found[hca, port] = int(value)
    return found


def of_netdev(ports: tuple[HcaPort, ...], netdev: str) -> tuple[HcaPort, ...]:
    """The RDMA ports of an interface."""
    return tuple(item for item in ports if netdev in item.netdevs)


def selector(chosen: tuple[HcaPort, ...], every: tuple[HcaPort, ...]) -> str:
    """The value of ``NCCL_IB_HCA`` for these ports.

    NCCL reads names as prefixes; where one is the beginning of another HCA's name, ``=`` asks for exact ones.
    """
    names = [f"{item.hca}:{item.port}" if item.ports > 1 else item.hca for item in chosen]
    taken = {item.hca for item in chosen}
    clash = any(
        other.hca.startswith(item.hca) for item in chosen for other in every if other.hca not in taken
    )
    return ("=" if clash else "") + ",".join(names)
