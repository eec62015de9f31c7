"""The side that measures: talks to the peer's server, runs its own programs, and collects both ends."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from tandem_host.addresses import Address
from tandem_host.cluster import Node
from tandem_host.fabric.bench import facts, protocol
from tandem_host.fabric.bench.facts import Facts
from tandem_host.fabric.bench.figures import Step
from tandem_host.fabric.bench.jobs import GRACE_SECONDS, Job, Outcome, Side
from tandem_host.fabric.bench.look import Here
from tandem_host.findings import LEVELS, Finding, UnusableError, error

_ANSWER_SECONDS = 30.0


class Session:
    """A conversation with one peer's server; use it as a context manager."""

    def __init__(self, here: Here, peer: Node, port: int, wait: float) -> None:
        self._side = Side(here.host, lambda job: here.command(job, peer.rank, port))
        self._connection = _connect(peer, here, port, wait)
        self._line = protocol.Line(self._connection, protocol.ANSWER_BYTES)
        self._peer = peer
        try:
            answer = self._ask(op="hello", version=protocol.VERSION)
            protocol.hello(answer)
            self.facts: Facts = facts.from_json(answer["facts"], len(here.rails))
            self.findings = [_finding(item) for item in answer["findings"]]
        except BaseException as problem:
            self._connection.close()
            if isinstance(problem, (protocol.ProtocolError, LookupError, TypeError, ValueError)):
                raise self._unusable(problem) from problem
            raise

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._side.stop()
        self._connection.close()

    def run(self, step: Step, seconds: int) -> list[Outcome]:
        """The clients' outcomes of one step, one a rail; raises UnusableError when the peer is lost."""
        here, there = _pair(self._side.start, self._start_there, step.client_here)
        for serving, start in ((True, there), (False, here)):
            for rail in step.rails:
                problem = start(Job(step.test, serving, rail, seconds))
                if problem:
                    self._collect(0, seconds)
                    return [Outcome(rail, 1, "", problem) for rail in step.rails]
        mine, theirs = self._collect(seconds + GRACE_SECONDS, seconds)
        return mine if step.client_here else theirs

    def _start_there(self, job: Job) -> str | None:
        answer = self._asked(**protocol.start(job))
        if answer.get("op") == "started":
            return None
        return f"{self._peer.name}: {protocol.reason(answer)}"

    def _collect(self, own_seconds: float, seconds: int) -> tuple[list[Outcome], list[Outcome]]:
        mine = self._side.collect(own_seconds)
        try:
            answer = self._ask(patience=seconds + GRACE_SECONDS + 10, op="collect")
            return mine, protocol.outcomes(answer)
        except protocol.ProtocolError as problem:
            raise self._unusable(problem) from problem

    def _asked(self, **message: Any) -> dict[str, Any]:
        try:
            return self._ask(**message)
        except protocol.ProtocolError as problem:
            raise self._unusable(problem) from problem

    def _ask(self, patience: float = _ANSWER_SECONDS, **message: Any) -> dict[str, Any]:
        self._line.send(**message)
        answer = self._line.receive(patience)
        if answer is None:
            raise protocol.ProtocolError("it closed the connection")
        return answer

    def _unusable(self, problem: Exception) -> UnusableError:
        text = f"{self._peer.name}: its side of the measurement cannot be used: {problem}."
        fix = (
            "Both hosts need the same tandem-host and cluster.json: ansible-playbook site.yml --tags host; "
            f"journalctl -u tandem-bench on {self._peer.name}."
        )
        return UnusableError([error("fabric.bench.peer", text, fix)])


def _pair(
    here: Callable[[Job], str | None], there: Callable[[Job], str | None], client_here: bool
) -> tuple[Callable[[Job], str | None], Callable[[Job], str | None]]:
    """How to start a client's job and a server's job."""
    return (here, there) if client_here else (there, here)


def _finding(item: Any) -> Finding:
    found = Finding(*(str(item[name]) for name in ("level", "code", "message", "fix")))
    if found.level not in LEVELS:
        raise ValueError(f"a finding has the level {found.level[:20]!r}")
    return found


def _connect(peer: Node, here: Here, port: int, wait: float) -> socket.socket:
    """A connection over the first rail that has a server at its end, within ``wait`` seconds."""
    deadline = time.monotonic() + wait
    said = ""
    while True:
        for own, theirs in zip(here.rails, peer.rails, strict=True):
            try:
                return _dial(own.address.ip, theirs.address.ip, port)
            except OSError as problem:
                said = f"{theirs.address.ip} port {port}: {problem.strerror or problem}"
        if time.monotonic() >= deadline:
            break
        time.sleep(0.2)
    text = f"{here.node.name}: nobody on {peer.name} serves a measurement ({said})."
    fix = (
        f"On {peer.name}: /opt/tandem/libexec/tandem-host fabric bench --serve; or ansible-playbook "
        "playbooks/fabric_bench.yml, which does both sides."
    )
    raise UnusableError([error("fabric.bench.unreachable", text, fix)])


def _dial(own: Address, address: Address, port: int) -> socket.socket:
    return socket.create_connection((str(address), port), timeout=3, source_address=(str(own), 0))
