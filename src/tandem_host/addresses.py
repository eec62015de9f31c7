"""The host's network interfaces and their addresses, as ``ip -j addr`` gives them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_interface

from tandem_host.findings import UnusableError, error
from tandem_host.host import Host
from tandem_host.strict import parse as parse_json
from tandem_host.system import ask

Address = IPv4Address | IPv6Address
InterfaceAddress = IPv4Interface | IPv6Interface


@dataclass(frozen=True)
class Interface:
    """One network interface; ``mtu`` in bytes, ``addresses`` with their prefix lengths."""

    name: str
    mtu: int | None
    operstate: str
    flags: frozenset[str]
    addresses: tuple[InterfaceAddress, ...]
    master: str | None = None


def held(interfaces: Iterable[Interface]) -> list[Address]:
    """Every address that the host holds on these interfaces."""
    return [own.ip for interface in interfaces for own in interface.addresses]


def parse(text: str) -> tuple[Interface, ...]:
    """Read the output of ``ip -j addr``; raises ValueError when it is something else."""
    data = parse_json(text)
    if not isinstance(data, list):
        raise TypeError("not a list of interfaces")
    found = []
    for entry in data:
        if not entry.get("ifname"):  # iproute2 prints {} for interfaces that a filter left out
            continue
        own = tuple(
            ip_interface(f"{item['local']}/{item['prefixlen']}")
            for item in entry.get("addr_info", ())
            if item.get("local")
        )
        mtu = entry.get("mtu")
        found.append(
            Interface(
                name=str(entry["ifname"]),
                mtu=int(mtu) if mtu is not None else None,
                operstate=str(entry.get("operstate", "UNKNOWN")),
                flags=frozenset(entry.get("flags", ())),
                addresses=own,
                master=entry.get("master"),
            )
        )
    return tuple(found)


def read(host: Host) -> tuple[Interface, ...]:
    """The interfaces of a host; under a root from ``tandem-fixture/ip-addr.json``.

    Raises UnusableError when the tree has no such file or ``ip`` does not answer.
    """
    if host.live:
        source, text = "ip -j addr", ask(["ip", "-j", "addr"], 10)
    else:
        file = host.path("/tandem-fixture/ip-addr.json")
        source, text = str(file), host.read("/tandem-fixture/ip-addr.json")
    if text is None:
        fix = "Save the output of `ip -j addr` there." if not host.live else "apt-get install iproute2"
        raise UnusableError([error("host.addresses.missing", f"{host.name}: {source} gives nothing.", fix)])
    try:
        return parse(text)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        message = f"{host.name}: {source} cannot be understood: {problem}."
        fix = "It must be the output of `ip -j addr` of iproute2."
        raise UnusableError([error("host.addresses.invalid", message, fix)]) from problem


def holders(interfaces: Iterable[Interface], address: Address) -> list[Interface]:
    """Every interface that holds exactly this address."""
    return [item for item in interfaces if any(own.ip == address for own in item.addresses)]
