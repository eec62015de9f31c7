"""Which interface the kernel would use for a peer, and whether the peer was heard there.

Under a root both come from recorded output: ``tandem-fixture/ip-route-get.json`` holds the entries of
``ip -j route get PEER from ADDRESS``, ``tandem-fixture/ip-neigh.json`` those of ``ip -j neigh``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem_host.addresses import Address
from tandem_host.findings import UnusableError, error
from tandem_host.host import Host
from tandem_host.strict import parse
from tandem_host.system import ask

# A peer that answered lately; STALE and DELAY only mean that it was not asked in the last seconds.
HEARD = frozenset({"REACHABLE", "DELAY", "STALE"})
_SECONDS = 5.0


class Reach:
    """Asks the kernel, or reads the recorded answers of a tree."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._recorded: dict[str, list[dict[str, Any]] | None] = {}

    def route(self, peer: Address, source: Address) -> dict[str, Any] | None:
        """The kernel's route from ``source`` to ``peer``: None when it has none, or a tree does not say."""
        if self._host.live:
            entries = _entries(ask(["ip", "-j", "route", "get", str(peer), "from", str(source)], _SECONDS))
        else:
            entries = self._file("ip-route-get.json") or []
        wanted = str(peer), (None, str(source))
        return _first(entries, lambda item: item.get("dst") == wanted[0] and item.get("from") in wanted[1])

    def neighbour(self, peer: Address, netdev: str) -> str | None:
        """The state of ``peer`` among the neighbours on ``netdev``; None when it was never asked for.

        iproute2 leaves ``dev`` out of its answer when it was part of the question.
        """
        if self._host.live:
            command = ["ip", "-j", "neigh", "show", "to", str(peer), "dev", netdev]
            entries = _entries(ask(command, _SECONDS))
        else:
            entries = self._file("ip-neigh.json") or []
        entry = _first(
            entries, lambda item: item.get("dst") == str(peer) and item.get("dev") in (None, netdev)
        )
        states = entry.get("state") if entry else None
        return str(states[0]) if isinstance(states, list) and states else None

    def knows_routes(self) -> bool:
        """Whether a missing route means anything: a tree may have no record of them."""
        return self._host.live or self._file("ip-route-get.json") is not None

    def _file(self, name: str) -> list[dict[str, Any]] | None:
        if name not in self._recorded:
            text = self._host.read(f"/tandem-fixture/{name}")
            try:
                self._recorded[name] = None if text is None else _parsed(text)
            except ValueError as problem:
                file = self._host.path(f"/tandem-fixture/{name}")
                message = f"{file} cannot be understood: {problem}."
                fix = "It must be a list of objects, as `ip -j` prints it."
                raise UnusableError([error("host.fixture.invalid", message, fix)]) from problem
        return self._recorded[name]


def _parsed(text: str) -> list[dict[str, Any]]:
    data = parse(text or "[]")
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise ValueError("not a list of objects")
    return data


def _entries(text: str | None) -> list[dict[str, Any]]:
    """What ``ip`` answered; nothing when it failed, which it does where there is no route."""
    try:
        return _parsed(text or "")
    except ValueError:
        return []


def _first(entries: list[dict[str, Any]], wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    return next((item for item in entries if wanted(item)), None)
