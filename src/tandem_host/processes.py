"""Processes and TCP sockets of a host, read from ``/proc``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from tandem_host.addresses import Address
from tandem_host.host import Host

LISTEN = "LISTEN"
_STATES = {
    1: "ESTABLISHED",
    2: "SYN_SENT",
    3: "SYN_RECV",
    4: "FIN_WAIT1",
    5: "FIN_WAIT2",
    6: "TIME_WAIT",
    7: "CLOSE",
    8: "CLOSE_WAIT",
    9: "LAST_ACK",
    10: LISTEN,
    11: "CLOSING",
}
_SOCKET = re.compile(r"socket:\[(\d+)\]")


@dataclass(frozen=True)
class Process:
    """One process; ``unit`` is the systemd unit of its control group, None outside of one."""

    pid: int
    parent: int
    name: str
    unit: str | None


@dataclass(frozen=True)
class Socket:
    """One TCP socket; ``inode`` ties it to the processes that hold it."""

    state: str
    local: Address
    local_port: int
    remote: Address
    remote_port: int
    inode: int


def processes(host: Host) -> dict[int, Process]:
    """Every process by its number; those that end while reading are left out."""
    found = {}
    for name in host.names("/proc"):
        if not name.isdecimal():
            continue
        text = host.read(f"/proc/{name}/stat")
        if not text or ")" not in text:
            continue
        comm = text[text.index("(") + 1 : text.rindex(")")]
        fields = text.rpartition(")")[2].split()
        if len(fields) < 2 or not fields[1].isdecimal():  # noqa: PLR2004
            continue
        unit = unit_of(host.read(f"/proc/{name}/cgroup") or "")
        found[int(name)] = Process(int(name), int(fields[1]), comm, unit)
    return found


def unit_of(cgroup: str) -> str | None:
    """The systemd unit in the text of ``/proc/PID/cgroup``: the innermost service or scope."""
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        for part in reversed(path.split("/")):
            if part.endswith((".service", ".scope")):
                return part
    return None


def tree(every: dict[int, Process], main: int) -> set[int]:
    """``main`` and all that descend from it; empty if it does not exist."""
    found = {main} & set(every)
    while True:
        more = {item.pid for item in every.values() if item.parent in found} - found
        if not more:
            return found
        found |= more


def inodes(host: Host, pid: int) -> set[int]:
    """Inodes of the sockets that a process holds; empty if that may not be read."""
    found = set()
    directory = host.path(f"/proc/{pid}/fd")
    for name in host.names(f"/proc/{pid}/fd"):
        try:
            match = _SOCKET.fullmatch(os.readlink(directory / name))  # noqa: PTH115 - the target is no path
        except OSError:
            continue
        if match:
            found.add(int(match[1]))
    return found


def sockets(host: Host, pid: int | str = "self") -> list[Socket]:
    """The TCP sockets of the network namespace that a process is in (a tree may have only ``/proc/net``)."""
    found = []
    for table in ("tcp", "tcp6"):
        text = host.read(f"/proc/{pid}/net/{table}") or host.read(f"/proc/net/{table}") or ""
        found += parse_table(text)
    return found


def parse_table(text: str) -> list[Socket]:
    """The sockets in the text of ``/proc/net/tcp`` or ``tcp6``."""
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 10 or not fields[0].rstrip(":").isdecimal():  # noqa: PLR2004 - the heading, a cut line
            continue
        try:
            local, local_port = _endpoint(fields[1])
            remote, remote_port = _endpoint(fields[2])
            state, inode = _STATES.get(int(fields[3], 16), fields[3]), int(fields[9])
        except ValueError:
            continue
        found.append(Socket(state, local, local_port, remote, remote_port, inode))
    return found


def _endpoint(text: str) -> tuple[Address, int]:
    """``0100007F:1F90`` -> (127.0.0.1, 8080): 32-bit words, little-endian like the hosts."""
    digits, _, port = text.partition(":")
    words = [bytes.fromhex(digits[start : start + 8])[::-1] for start in range(0, len(digits), 8)]
    packed = b"".join(words)
    address: Address = IPv4Address(packed) if len(words) == 1 else IPv6Address(packed)
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address, int(port, 16)


def holders(host: Host, every: dict[int, Process], wanted: Iterable[int]) -> list[Process]:
    """The processes that hold one of these socket inodes, by number."""
    inode_set = set(wanted) - {0}
    return [every[pid] for pid in sorted(every) if inode_set and inode_set & inodes(host, pid)]
