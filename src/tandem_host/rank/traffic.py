"""Which network each TCP socket of a rank belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tandem_host.addresses import InterfaceAddress
from tandem_host.processes import LISTEN, Socket

CLASSES = ("fabric", "management", "loopback", "api", "any")


def classify_sockets(
    sockets: Iterable[Socket], rails: Sequence[InterfaceAddress], api_port: int | None
) -> dict[str, list[Socket]]:
    """Every socket in exactly one class.

    ``api``: local port of the HTTP server, whatever the address, since clients may come from anywhere.
    ``any``: listens on every address. ``loopback``: stays on this host. ``fabric``: both ends in one rail's
    subnet (a listener: its own end). ``management``: everything else, which between ranks must not happen.
    """
    found: dict[str, list[Socket]] = {name: [] for name in CLASSES}
    for item in sockets:
        found[_class_of(item, rails, api_port)].append(item)
    return found


def _class_of(item: Socket, rails: Sequence[InterfaceAddress], api_port: int | None) -> str:
    if api_port is not None and item.local_port == api_port:
        return "api"
    if item.state == LISTEN and item.local.is_unspecified:
        return "any"
    if item.local.is_loopback:
        return "loopback"
    # A host that talks to its own address goes through the loopback interface.
    if item.local == item.remote:
        return "loopback"
    ends = [item.local] if item.state == LISTEN else [item.local, item.remote]
    if any(all(end in rail.network for end in ends) for rail in rails):
        return "fabric"
    return "management"
