"""The side that measures: talks to the peer's server, runs its own programs, and collects both ends."""

from __future__ import annotations

import math
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
from tandem_host.fabric.bench.outputs import printable
from tandem_host.findings import LEVELS, Finding, UnusableError, error

_ANSWER_SECONDS = 30.0
_Start = Callable[[Job], str | None]
_Collect = Callable[[float], list[Outcome]]


class Session:
    """A conversation with one peer's server; use it as a context manager."""

    def __init__(self, here: Here, peer: Node, port: int, wait: float) -> None:
        self._side = Side(here.host, lambda job: here.command(job, peer.rank, port))
        self._connection = _connect(peer, here, port, wait)
        self._line = protocol.Line(self._connection, protocol.ANSWER_BYTES)
        self._peer = peer
        self._started: list[int] = []
        try:
            answer = self._ask(_ANSWER_SECONDS, op="hello", version=protocol.VERSION)
            if answer.get("op") == "refused":
                raise protocol.ProtocolError(protocol.reason(answer))  # noqa: TRY301 - answered like others
            protocol.hello(answer)
            self.facts: Facts = facts.from_json(answer["facts"], peer.name, len(here.rails))
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
        sides: list[tuple[_Start, _Collect]] = [
            (self._side.start, self._side.collect),
            (self._start_there, self._collect_there),
        ]
        (start_client, collect_client), (start_server, collect_server) = (
            sides if step.client_here else reversed(sides)
        )
        problems: dict[int, str] = {}
        for serving, start in ((True, start_server), (False, start_client)):
            for rail in step.rails if not problems else ():
                if problem := start(Job(step.test, serving, rail, seconds)):
                    problems[rail] = problem
        outcomes = collect_client(0 if problems else seconds + GRACE_SECONDS)
        # A server whose client has failed waits for another one.
        failed = bool(problems) or any(item.status for item in outcomes)
        collect_server(0 if failed else GRACE_SECONDS)
        if problems:
            return [Outcome(rail, 1, "", problem) for rail, problem in problems.items()]
        return outcomes

    def _start_there(self, job: Job) -> str | None:
        answer = self._asked(_ANSWER_SECONDS, **protocol.start(job))
        if answer.get("op") != "started":
            return f"{self._peer.name}: {protocol.reason(answer)}"
        self._started.append(job.rail)
        return None

    def _collect_there(self, seconds: float) -> list[Outcome]:
        wanted, self._started = self._started, []
        answer = self._asked(seconds + _ANSWER_SECONDS, op="collect", seconds=math.ceil(seconds))
        try:
            return protocol.outcomes(answer, wanted)
        except protocol.ProtocolError as problem:
            raise self._unusable(problem) from problem

    def _asked(self, patience: float, **message: Any) -> dict[str, Any]:
        try:
            return self._ask(patience, **message)
        except protocol.ProtocolError as problem:
            raise self._unusable(problem) from problem

    def _ask(self, patience: float, **message: Any) -> dict[str, Any]:
        self._line.send(**message)
        answer = self._line.receive(patience)
        if answer is None:
            raise protocol.ProtocolError("it closed the connection")
        return answer

    def _unusable(self, problem: Exception) -> UnusableError:
        text = f"{self._peer.name}: its side of the measurement cannot be used: {problem}."
        fix = (
            "It serves one client at a time, and needs the same tandem-host and cluster.json "
            f"(ansible-playbook site.yml --tags host). On {self._peer.name}: journalctl -u tandem-bench"
        )
        return UnusableError([error("fabric.bench.peer", text, fix)])


def _finding(item: Any) -> Finding:
    found = Finding(*(printable(str(item[name])) for name in ("level", "code", "message", "fix")))
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
