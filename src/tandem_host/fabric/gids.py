"""GID tables of RDMA ports: reading them, and finding the entry that belongs to an address.

The index of an entry differs between hosts and between HCAs, and moves while a host runs; nothing here
stores one. An entry is usable when it is RoCE v2 and stands for the host's own address on that rail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from tandem_host.addresses import Address
from tandem_host.host import Host

ROCE_V2 = "RoCE v2"


@dataclass(frozen=True)
class GidEntry:
    """One entry that is not empty; ``kind`` and ``netdev`` are None where the kernel does not say."""

    index: int
    gid: IPv6Address
    kind: str | None
    netdev: str | None


def mapped(address: Address) -> IPv6Address:
    """The GID of an address: ``::ffff:a.b.c.d`` for IPv4, the address itself for IPv6."""
    if isinstance(address, IPv4Address):
        return IPv6Address(f"::ffff:{address}")
    return address


def read_table(host: Host, hca: str, port: int) -> tuple[GidEntry, ...]:
    """Every entry of a port that is not empty, by index.

    Drivers show up to 1024 slots; type and netdev are only read for those that hold something, since the
    kernel refuses to answer for an empty one.
    """
    base = f"/sys/class/infiniband/{hca}/ports/{port}"
    found = []
    for name in host.names(f"{base}/gids"):
        text = host.read(f"{base}/gids/{name}")
        if not name.isdecimal() or not text:
            continue
        try:
            gid = IPv6Address(text)
        except ValueError:
            continue
        if int(gid) == 0:
            continue
        kind = host.read(f"{base}/gid_attrs/types/{name}")
        netdev = host.read(f"{base}/gid_attrs/ndevs/{name}")
        found.append(GidEntry(int(name), gid, kind or None, netdev or None))
    return tuple(sorted(found, key=lambda entry: entry.index))


def matching(table: Iterable[GidEntry], address: Address, netdev: str | None = None) -> tuple[int, ...]:
    """Indexes of the entries that are RoCE v2 and stand for ``address``, lowest first.

    With ``netdev``, entries that the kernel ascribes to another interface do not count.
    """
    wanted = mapped(address)
    return tuple(
        sorted(
            entry.index
            for entry in table
            if entry.kind == ROCE_V2
            and entry.gid == wanted
            and (not netdev or entry.netdev in (None, netdev))
        )
    )


def rivals(table: Iterable[GidEntry], address: Address) -> tuple[GidEntry, ...]:
    """RoCE v2 entries of the same address family for another address: NCCL might choose one of them."""
    wanted = mapped(address)
    return tuple(
        entry
        for entry in table
        if entry.kind == ROCE_V2
        and entry.gid != wanted
        and not entry.gid.is_link_local
        and (entry.gid.ipv4_mapped is not None) == isinstance(address, IPv4Address)
    )


def describe(table: Iterable[GidEntry], index: int) -> str:
    """What a table holds at an index, in words."""
    for entry in table:
        if entry.index == index:
            text = str(entry.gid.ipv4_mapped or entry.gid)
            return f"{text} {entry.kind or 'of unknown type'}"
    return "EMPTY"


def common(indexes: Sequence[Sequence[int]]) -> int | None:
    """The lowest index that is in every list; None if there is none."""
    if not indexes:
        return None
    shared = set(indexes[0]).intersection(*indexes[1:])
    return min(shared) if shared else None
