"""The host's network interfaces and their addresses, as ``ip -j addr`` gives them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_interface

from tandem_host.findings import BadInputError, error
from tandem_host.host import Host

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


def parse(text: str) -> tuple[Interface, ...]:
    """Read the output of ``ip -j addr``; raises ValueError when it is something else."""
    data = json.loads(text)
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

    Raises BadInputError when the tree has no such file or ``ip`` does not answer.
    """
    if host.live:
        source, text = "ip -j addr", _ask_kernel()
    else:
        file = host.path("/tandem-fixture/ip-addr.json")
        source, text = str(file), host.read("/tandem-fixture/ip-addr.json")
    if text is None:
        fix = "Save the output of `ip -j addr` there." if not host.live else "apt-get install iproute2"
        raise BadInputError([error("host.addresses.missing", f"{host.name}: {source} gives nothing.", fix)])
    try:
        return parse(text)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        message = f"{host.name}: {source} cannot be understood: {problem}."
        fix = "It must be the output of `ip -j addr` of iproute2."
        raise BadInputError([error("host.addresses.invalid", message, fix)]) from problem


def _ask_kernel() -> str | None:
    import subprocess  # costs 10 ms that a tree does not need

    command = ["ip", "-j", "addr"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout


def holders(interfaces: Iterable[Interface], address: Address) -> list[Interface]:
    """Every interface that holds exactly this address."""
    return [item for item in interfaces if any(own.ip == address for own in item.addresses)]
