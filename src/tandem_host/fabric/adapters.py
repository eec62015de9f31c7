"""What RDMA devices say of themselves: firmware, card, rate, MTU. No start of a rank waits for it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tandem_host.fabric.hcas import HcaPort
from tandem_host.host import Host
from tandem_host.system import ask


@dataclass(frozen=True)
class HcaIdentity:
    """What a device says of itself; None where the driver is silent.

    ``image_guid`` is the card's own number, the same for all functions of one card.
    """

    firmware: str | None
    node_guid: str | None
    image_guid: str | None
    board: str | None


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
