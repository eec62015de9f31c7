"""The host's physical network interfaces, and the PCI functions and links that carry them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from tandem_host.host import Host

_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class PciLink:
    """A PCIe link: speed in GT/s and number of lanes, now and at most; None where the kernel does not say."""

    speed: float | None
    width: int | None
    max_speed: float | None
    max_width: int | None

    def as_json(self) -> dict[str, Any]:
        """The link as ``fabric discover`` shows it."""
        return asdict(self)


@dataclass(frozen=True)
class Netdev:
    """One interface; ``speed`` in Mb/s, ``mtu`` in bytes; what the kernel does not say is None.

    ``pci`` is the function's address (``0002:01:00.0``), ``device_id`` vendor and device (``15b3:1021``),
    ``port_name`` and ``switch_id`` are the driver's names of the port on its card and of the card, ``iommu``
    is how the function's memory accesses are translated (``identity``, ``DMA-FQ`` …).
    """

    name: str
    driver: str | None = None
    pci: str | None = None
    device_id: str | None = None
    port_name: str | None = None
    switch_id: str | None = None
    carrier: bool | None = None
    operstate: str | None = None
    speed: int | None = None
    mtu: int | None = None
    iommu: str | None = None
    link: PciLink | None = None
    wireless: bool = False

    @property
    def position(self) -> tuple[int, int, int, int] | None:
        """Domain, bus, device and function as numbers; None without a PCI address."""
        match = _ADDRESS.fullmatch(self.pci or "")
        if match is None:
            return None
        domain, bus, device, function = (int(part, 16) for part in match.groups())
        return domain, bus, device, function


def in_rail_order(netdevs: Collection[Netdev]) -> tuple[Netdev, ...]:
    """By PCI domain, bus, device and function; those without an address last, by name."""
    return tuple(sorted(netdevs, key=lambda item: (item.position is None, item.position or (), item.name)))


def read(host: Host, also: Collection[str] = ()) -> tuple[Netdev, ...]:
    """Every interface that is a device or one of ``also``, in rail order.

    Bridges, bonds, containers' interfaces and virtual functions of a card are no devices of their own.
    """
    found = []
    for name in host.names("/sys/class/net"):
        device = f"/sys/class/net/{name}/device"
        physical = host.exists(device) and not host.exists(f"{device}/physfn")
        if physical or name in also:
            found.append(read_one(host, name))
    return in_rail_order(found)


def read_one(host: Host, name: str) -> Netdev:
    """One interface by its name."""
    base = f"/sys/class/net/{name}"
    event = _event(host.read(f"{base}/device/uevent"))
    carrier = host.read(f"{base}/carrier")
    speed = host.read_int(f"{base}/speed")
    pci = event.get("PCI_SLOT_NAME") or _function(host, f"{base}/device")
    return Netdev(
        name=name,
        driver=event.get("DRIVER"),
        pci=pci,
        device_id=event["PCI_ID"].lower() if "PCI_ID" in event else None,
        port_name=host.read(f"{base}/phys_port_name") or None,
        switch_id=host.read(f"{base}/phys_switch_id") or None,
        carrier={"0": False, "1": True}.get(carrier or ""),
        operstate=host.read(f"{base}/operstate"),
        speed=speed if speed is not None and speed > 0 else None,  # -1: the driver does not know
        mtu=host.read_int(f"{base}/mtu"),
        iommu=host.read(f"{base}/device/iommu_group/type"),
        link=read_link(host, f"{base}/device"),
        wireless=host.exists(f"{base}/wireless") or host.exists(f"{base}/phy80211"),
    )


def read_link(host: Host, device: str) -> PciLink | None:
    """The PCIe link of a device; None when it has none.

    A card may be able to do more than the port it sits in, so the most is what both ends can do.
    """
    current = f"{device}/current_link"
    speed, width = _number(host, f"{current}_speed"), _number(host, f"{current}_width")
    if speed is None and width is None:
        return None
    most = [
        min((value for value in ends if value), default=None)
        for ends in (
            [_number(host, f"{place}/max_link_{what}") for place in (device, f"{device}/..")]
            for what in ("speed", "width")
        )
    ]
    lanes = int(most[1]) if most[1] is not None else None
    return PciLink(speed, int(width) if width is not None else None, most[0], lanes)


def _number(host: Host, path: str) -> float | None:
    """The number that a link attribute begins with: ``32.0 GT/s PCIe``; None for ``Unknown`` and 0."""
    match = _NUMBER.match(host.read(path) or "")
    return (float(match[0]) or None) if match else None


def _event(text: str | None) -> dict[str, str]:
    """``NAME=value`` lines of a device's ``uevent`` file."""
    pairs = (line.partition("=") for line in (text or "").splitlines())
    return {name: value for name, separator, value in pairs if separator}


def _function(host: Host, device: str) -> str | None:
    """The PCI function that a device is, or that a virtio device sits on: the directory above it."""
    try:
        place = host.path(device).resolve()
    except (OSError, RuntimeError, ValueError):
        return None
    return next((name for name in (place.name, place.parent.name) if _ADDRESS.fullmatch(name)), None)
