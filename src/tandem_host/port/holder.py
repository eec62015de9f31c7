"""Whether a TCP port is free on an address, and which process and unit holds it if not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Any

from tandem_host import processes
from tandem_host.addresses import Address
from tandem_host.findings import BadInputError, Finding, as_json, error, info
from tandem_host.host import Host
from tandem_host.processes import LISTEN, Process, Socket

_PORTS = range(1, 65536)


def in_the_way(sockets: Iterable[Socket], address: Address, port: int) -> list[Socket]:
    """Listening sockets that keep another one from listening on this address and port.

    A socket on all addresses is in the way of any, and any is in the way of one on all addresses. ``::``
    usually takes IPv4 too, so the families are not told apart there.
    """
    return [
        item
        for item in sockets
        if item.state == LISTEN
        and item.local_port == port
        and (item.local == address or _overlap(item.local, address) or _overlap(address, item.local))
    ]


def _overlap(every: Address, one: Address) -> bool:
    return every.is_unspecified and every.version in {one.version, 6}


def check(host: Host, address: str, port: int, accepted: Sequence[str]) -> dict[str, Any]:
    """``free`` and ``holders`` (pid, comm, unit); an error unless free or held by accepted units alone."""
    try:
        wanted = ip_address(address)
    except ValueError:
        text = f"--address {address} is not an IP address."
        raise BadInputError([error("usage.address.invalid", text, "Give one like 0.0.0.0.")]) from None
    if port not in _PORTS:
        raise BadInputError(
            [error("usage.port.invalid", f"--port {port} is not a port.", "Give 1 to 65535.")]
        )
    blocking = in_the_way(processes.sockets(host), wanted, port)
    held = processes.holders(host, processes.processes(host), (item.inode for item in blocking))
    return {
        "address": address,
        "port": port,
        "free": not blocking,
        "holders": [{"pid": item.pid, "comm": item.name, "unit": item.unit} for item in held],
        "findings": as_json(_findings(host, wanted, port, blocking, held, accepted)),
    }


def _findings(  # noqa: PLR0917
    host: Host,
    address: Address,
    port: int,
    blocking: Sequence[Socket],
    held: Sequence[Process],
    accepted: Sequence[str],
) -> list[Finding]:
    if not blocking:
        return []
    place = f"{host.name}: port {port} on {address}"
    if held and all(item.unit in accepted for item in held):
        units = ", ".join(sorted({str(item.unit) for item in held}))
        return [
            info("port.address.own", f"{place} is held by {units}.", "Nothing to do: it may hold the port.")
        ]
    if not held:
        text = f"{place} is taken by a process that may not be seen."
        return [error("port.address.busy", text, f"Run this as root: ss -ltnp 'sport = :{port}'")]
    names = ", ".join(f"{item.name} (pid {item.pid}, {item.unit or 'no unit'})" for item in held)
    units = " ".join(sorted({item.unit for item in held if item.unit and item.unit.endswith(".service")}))
    stop = f"systemctl stop {units}" if units else f"kill {' '.join(str(item.pid) for item in held)}"
    fix = f"Stop it ({stop}), or choose another port in the inventory."
    return [error("port.address.busy", f"{place} is taken by {names}.", fix)]
