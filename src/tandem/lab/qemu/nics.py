"""The interfaces of a virtual machine: names, hardware addresses, cables. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tandem.lab.spec import FABRIC, HOST_NAMES, NETDEVS, Host, Lab, hardware_address


@dataclass(frozen=True)
class Nic:
    """One interface, the same on both hosts but for its hardware address."""

    netdev: str
    index: int

    def mac(self, host_number: int) -> str:
        """Its hardware address on a host."""
        return hardware_address(self.netdev, host_number)


#: Management first, then cage by cage: the order of their places on the bus.
NICS = tuple(Nic(netdev, index) for index, netdev in enumerate(NETDEVS))


def link_file(nic: Nic) -> str:
    """A systemd .link file that gives the interface its name on either host."""
    macs = " ".join(nic.mac(number) for number in range(len(HOST_NAMES)))
    return f"[Match]\nMACAddress={macs}\n\n[Link]\nName={nic.netdev}\n"


def rail_of(lab: Lab, host: Host, netdev: str) -> int | None:
    """Which rail ends in ``netdev`` on this host; None for a port without a cable."""
    for number, ends in enumerate(lab.rails):
        if ends[host.number] == netdev:
            return number
    return None


def without_carrier(lab: Lab, host: Host, pulled: set[int]) -> list[str]:
    """The host's fabric netdevs that see no carrier: without a cable, or with a pulled one."""
    rails = {netdev: rail_of(lab, host, netdev) for netdev in FABRIC}
    return [netdev for netdev, rail in rails.items() if rail is None or rail in pulled]
