"""What a lab is made of: names, addresses, interfaces, places. Pure, no host needed."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

STATE = Path("/var/lib/tandem-lab")
CACHE = Path("/var/cache/tandem-lab")
USER = "spark"
HOST_NAMES = ("spark-a", "spark-b")
DRIVERS = ("nspawn", "qemu")
MANAGEMENT = "enP7s7"
#: A Spark's two ConnectX-7 cages, each as the two netdevs that its PCIe functions show.
CAGES = (("enp1s0f0np0", "enP2p1s0f0np0"), ("enp1s0f1np1", "enP2p1s0f1np1"))
#: All of them.
FABRIC = tuple(netdev for cage in CAGES for netdev in cage)
#: The rails of a lab whose cable joins cage 0 to cage 0.
RAILS = CAGES[0]
#: The HCA of each of these netdevs.
HCAS = {
    "enp1s0f0np0": "rocep1s0f0",
    "enP2p1s0f0np0": "roceP2p1s0f0",
    "enp1s0f1np1": "rocep1s0f1",
    "enP2p1s0f1np1": "roceP2p1s0f1",
}

#: Every interface of a host: management first, then cage by cage.
NETDEVS = (MANAGEMENT, *FABRIC)

_NAME = re.compile(r"[a-z][a-z0-9-]{0,15}")
_CABLE = re.compile(r"([01]):([01])")


def hardware_address(netdev: str, host_number: int) -> str:
    """An interface's hardware address on a host: locally administered, the same in every lab.

    A given one stays. The kernel's random one is replaced by the first ``netplan apply``, and whoever knew it
    does not reach the host until he forgets it.
    """
    return f"52:54:00:5a:{NETDEVS.index(netdev):02x}:{host_number + 1:02x}"


class LabError(Exception):
    """What went wrong and what to do about it, as one message for a person."""


@dataclass(frozen=True)
class Host:
    """One virtual Spark. ``address`` is on the management network; ``number`` counts from 0."""

    name: str
    number: int
    address: str
    namespace: str
    machine: str
    directory: Path

    @property
    def root(self) -> Path:
        """The host's file system as it sees it, where this machine sees it too."""
        return self.directory / "root"

    @property
    def console(self) -> Path:
        """What its boot prints."""
        return self.directory / "console.log"


@dataclass(frozen=True)
class Lab:
    """Two hosts, a management network ``network``.0/24 and one cable between two cages.

    ``driver`` says what a host is (one of ``DRIVERS``); ``cable`` is the head's cage and the worker's.
    """

    name: str
    network: str
    driver: str = "nspawn"
    cable: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        check_name(self.name)
        if not _is_private(self.network):
            raise LabError(
                f"the management network cannot be {self.network!r}: give the first three parts of a private "
                "network, such as 10.231.7"
            )
        if self.driver not in DRIVERS:
            raise LabError(f"there is no driver {self.driver!r}; the drivers are {', '.join(DRIVERS)}")
        if self.driver == "nspawn" and self.cable != (0, 0):
            raise LabError("only the hosts of --driver qemu have a second cage; leave --cable out")

    @property
    def tag(self) -> str:
        """Six characters from the name: interface names have room for fifteen."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:6]

    @property
    def directory(self) -> Path:
        """Everything of this lab on this machine."""
        return STATE / self.name

    @property
    def bridge(self) -> str:
        """The management network's bridge on this machine."""
        return f"tl{self.tag}br"

    @property
    def gateway(self) -> str:
        """This machine on the management network."""
        return f"{self.network}.1"

    @property
    def cables(self) -> str:
        """The namespace in which the cables between the hosts can be cut."""
        return f"tandem-{self.name}-cables"

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The virtual Sparks, the head first."""
        return tuple(
            Host(
                name=name,
                number=number,
                address=f"{self.network}.{11 + number}",
                namespace=f"tandem-{self.name}-{name}",
                machine=f"tandem-{self.name}-{name}",
                directory=self.directory / name,
            )
            for number, name in enumerate(HOST_NAMES)
        )

    @property
    def rails(self) -> tuple[tuple[str, str], ...]:
        """What the cable joins: for each rail the head's netdev and the worker's."""
        head, worker = self.cable
        return tuple(zip(CAGES[head], CAGES[worker], strict=True))

    def host(self, name: str) -> Host:
        """The host called ``name``. Raises LabError for another name."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise LabError(f"lab {self.name} has no host {name!r}; it has {', '.join(HOST_NAMES)}")

    def rail_number(self, netdev: str) -> int:
        """Which rail ends in ``netdev`` at one of the hosts. Raises LabError where none does."""
        for number, ends in enumerate(self.rails):
            if netdev in ends:
                return number
        names = ", ".join(dict.fromkeys(name for ends in self.rails for name in ends))
        raise LabError(f"{netdev!r} is not a rail; the rails are {names}")


def check_name(name: str) -> str:
    """``name``, where a lab can be called that: it becomes a part of folders' and interfaces' names.

    Raises LabError.
    """
    if not _NAME.fullmatch(name):
        raise LabError(
            f"a lab cannot be named {name!r}: use a small letter, then up to 15 small letters, "
            "digits and hyphens, such as demo"
        )
    return name


def parse_cable(text: str) -> tuple[int, int]:
    """The head's cage and the worker's from ``0:1``. Raises LabError for anything else."""
    ends = _CABLE.fullmatch(text)
    if not ends:
        raise LabError(
            f"a cable cannot be {text!r}: give the head's cage and the worker's, such as 0:0 or 0:1"
        )
    return int(ends[1]), int(ends[2])


def client_directory(home: Path, name: str) -> Path:
    """Where the person's ssh configuration of a lab is."""
    return home / ".tandem" / "lab" / name


def overlapping(routes: list[dict[str, object]], network: str, own_device: str) -> str | None:
    """The device over which a part of ``network``.0/24 is reached already, or None.

    ``routes`` is the answer of ``ip -j -4 route show table all``. A default route is no claim.
    """
    wanted = ipaddress.ip_network(f"{network}.0/24")
    for route in routes:
        destination = str(route.get("dst", "default"))
        device = str(route.get("dev", "another route"))
        if destination == "default" or device == own_device:
            continue
        try:
            there = ipaddress.ip_network(destination, strict=False)
        except ValueError:
            continue
        if there.version == wanted.version and there.prefixlen > 0 and there.overlaps(wanted):
            return device
    return None


def _is_private(network: str) -> bool:
    try:
        return ipaddress.IPv4Network(f"{network}.0/24").is_private
    except ValueError:
        return False
