"""What is measured: the steps of a measurement, and the figures that come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WRITE, READ, LATENCY, TCP = "write", "read", "latency", "tcp"
TESTS = (WRITE, READ, LATENCY, TCP)
TOOLS = {WRITE: "ib_write_bw", READ: "ib_read_bw", LATENCY: "ib_write_lat", TCP: "iperf3"}
PACKAGES = {WRITE: "perftest", READ: "perftest", LATENCY: "perftest", TCP: "iperf3"}


@dataclass(frozen=True)
class Step:
    """One measurement: ``rails`` by position, at the same time; ``outward``: data leaves this host."""

    test: str
    rails: tuple[int, ...]
    outward: bool

    @property
    def client_here(self) -> bool:
        """Whether this host runs the client: it sends what is written and receives what is read."""
        return self.outward != (self.test == READ)


@dataclass(frozen=True)
class Figure:
    """One result; data goes from host ``source`` to host ``target``.

    ``value`` is Gb/s (10^9 bits), of all ``rails`` together, or for latency the typical time one way in
    microseconds; ``each`` has the part of each rail where there are several.
    """

    test: str
    rails: tuple[int, ...]
    source: str
    target: str
    value: float
    each: tuple[float, ...] = ()

    @property
    def key(self) -> tuple[str, tuple[int, ...], str, str]:
        """What the figure is of, to find the same one in another measurement."""
        return self.test, self.rails, self.source, self.target

    @property
    def unit(self) -> str:
        """The unit of the value, for people."""
        return "us" if self.test == LATENCY else "Gb/s"

    def as_json(self) -> dict[str, Any]:
        """The figure for a document."""
        found: dict[str, Any] = {
            "test": self.test,
            "rails": list(self.rails),
            "from": self.source,
            "to": self.target,
            "microseconds" if self.test == LATENCY else "gbps": self.value,
        }
        if self.each:
            found["each"] = list(self.each)
        return found


def steps(rdma: bool, rails: int, tcp: bool) -> list[Step]:
    """Every rail alone, then all at once, in both directions: verbs where there are any, else TCP."""
    tests = [WRITE, READ, *([TCP] if tcp else [])] if rdma else [TCP]
    together: list[tuple[int, ...]] = [(rail,) for rail in range(rails)]
    if rails > 1:
        together.append(tuple(range(rails)))
    found = [Step(test, group, outward) for group in together for test in tests for outward in (True, False)]
    if rdma:
        found += [Step(LATENCY, (rail,), True) for rail in range(rails)]
    return found


def from_json(document: Any) -> Figure:
    """The figure in an object of ``as_json``; raises ValueError for anything else."""
    try:
        test, rails = document["test"], tuple(document["rails"])
        value = document["microseconds" if test == LATENCY else "gbps"]
        source, target = document["from"], document["to"]
    except (LookupError, TypeError) as problem:
        raise ValueError(f"a figure is incomplete ({problem})") from problem
    numbers: Sequence[Any] = (value, *rails)
    if test not in TESTS or not rails or any(not _number(item) for item in numbers) or value <= 0:
        raise ValueError("a figure has an impossible test, rail or value")
    if not isinstance(source, str) or not isinstance(target, str):
        raise ValueError("a figure's hosts are not names")  # noqa: TRY004 - one kind of damage for callers
    return Figure(test, rails, source, target, float(value))


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
