"""Whether every peer answers on every rail, with packets as large as the MTU and not fragmented."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tandem_host.addresses import Address
from tandem_host.cluster import Cluster, Node
from tandem_host.fabric.rails import RailState
from tandem_host.findings import Finding, UnusableError, error
from tandem_host.host import Host
from tandem_host.strict import parse

SMALL = 56
# The peer's address may be there a moment before its MTU is; then only a small ping passes.
MTU_GRACE_SECONDS = 5.0
_PAUSE_SECONDS = 1.0

# (interface, address, payload in bytes) -> whether an answer came
Ping = Callable[[str, Address, int], bool]


@dataclass(frozen=True)
class Route:
    """One way to a peer: out of ``netdev`` to ``address`` of ``peer``; ``payload`` in bytes fills the MTU."""

    netdev: str
    peer: str
    address: Address
    payload: int


@dataclass(frozen=True)
class Answer:
    """What a route did: whether it took a small and an MTU-sized packet, and after how many seconds."""

    route: Route
    small: bool
    large: bool
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The answer as ``fabric check`` shows it."""
        return {
            "netdev": self.route.netdev,
            "peer": self.route.peer,
            "address": str(self.route.address),
            "payload": self.route.payload,
            "small": self.small,
            "large": self.large,
            "seconds": round(self.seconds, 1),
        }


def routes(cluster: Cluster, node: Node, rails: Sequence[RailState]) -> list[Route]:
    """Every rail to every peer, for the rails that have an interface."""
    found = []
    for peer in cluster.peers(node.rank):
        for own, theirs in zip(rails, peer.rails, strict=True):
            if own.netdev:
                headers = 28 if own.address.version == 4 else 48  # noqa: PLR2004 - IP header and 8 of ICMP
                found.append(Route(own.netdev, peer.name, theirs.address.ip, cluster.fabric.mtu - headers))
    return found


def ask(wanted: Sequence[Route], ping: Ping, wait: float) -> list[Answer]:
    """Ask all routes at once; each may take ``wait`` seconds to answer (0: two attempts)."""
    if not wanted:
        return []
    with ThreadPoolExecutor(max_workers=len(wanted)) as pool:
        return list(pool.map(lambda route: _ask_one(route, ping, wait), wanted))


def _ask_one(route: Route, ping: Ping, wait: float) -> Answer:
    started = time.monotonic()
    deadline = started + wait
    attempts = 0
    while True:
        attempts += 1
        if ping(route.netdev, route.address, route.payload):
            return Answer(route, small=True, large=True, seconds=time.monotonic() - started)
        small = ping(route.netdev, route.address, SMALL)
        if small:
            # Somebody is there: from now on only a short grace for the large packet.
            deadline = min(deadline, time.monotonic() + MTU_GRACE_SECONDS)
        if attempts > 1 and time.monotonic() >= deadline:
            return Answer(route, small=small, large=False, seconds=time.monotonic() - started)
        time.sleep(_PAUSE_SECONDS if wait else 0.1)


def findings(node: Node, answers: Sequence[Answer], mtu: int) -> list[Finding]:
    """An error for every route that does not carry MTU-sized packets."""
    found = []
    for answer in answers:
        route = answer.route
        way = f"{node.name}: {route.netdev} -> {route.peer} ({route.address})"
        by_hand = f"ping -M do -s {route.payload} -I {route.netdev} {route.address}"
        if answer.large:
            continue
        if answer.small:
            text = f"{way} answers small packets but not {route.payload} bytes unfragmented (MTU {mtu})."
            fix = f"Set MTU {mtu} on {route.peer}'s rail and on a switch between them; then {by_hand}"
            found.append(error("fabric.path.mtu", text, fix))
        else:
            text = f"{way} does not answer after {answer.seconds:.0f} s."
            fix = f"Is {route.peer} up and its address set? Is the cable in? Then {by_hand}"
            found.append(error("fabric.peer.unreachable", text, fix))
    return found


def pinger(host: Host) -> Ping | None:
    """How to ask on this host; None for a tree without recorded answers.

    A tree may hold ``tandem-fixture/ping.json``: for each address the largest payload in bytes that passes.
    """
    if host.live:
        return _ping
    text = host.read("/tandem-fixture/ping.json")
    if text is None:
        return None
    try:
        largest = {str(address): int(payload) for address, payload in parse(text).items()}
    except (ValueError, TypeError, AttributeError) as problem:
        file = host.path("/tandem-fixture/ping.json")
        message = f"{file} cannot be understood: {problem}."
        fix = 'Give the largest payload of each address: {"10.0.0.2": 8972}.'
        raise UnusableError([error("host.fixture.invalid", message, fix)]) from problem
    return lambda _netdev, address, payload: largest.get(str(address), -1) >= payload


def _ping(netdev: str, address: Address, payload: int) -> bool:
    import subprocess  # costs 10 ms that a tree does not need

    command = [
        "ping",
        "-n",
        "-q",
        "-c",
        "1",
        "-W",
        "1",
        "-M",
        "do",
        "-s",
        str(payload),
        "-I",
        netdev,
        str(address),
    ]
    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=5
        )
    except FileNotFoundError:
        text = "There is no ping on this host."
        raise UnusableError([error("fabric.tool.missing", text, "apt-get install iputils-ping")]) from None
    except subprocess.TimeoutExpired:
        return False
    return answer.returncode == 0
