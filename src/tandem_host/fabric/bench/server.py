"""The side that is measured against: serves one client at a time, and ends by itself."""

from __future__ import annotations

import selectors
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

from tandem_host.addresses import Address
from tandem_host.fabric.bench import SECONDS, protocol
from tandem_host.fabric.bench.figures import LATENCY, READ, TCP, WRITE
from tandem_host.fabric.bench.jobs import GRACE_SECONDS, Job, Side
from tandem_host.fabric.bench.look import Here
from tandem_host.findings import UnusableError, as_json, error

_IDLE_SECONDS = 90.0  # a step takes a minute at most


def serve(here: Here, port: int, seconds: float) -> dict[str, Any]:
    """Serve until ``seconds`` are over or a signal says so; raises UnusableError when nothing can listen."""
    clients = refused = 0
    deadline = time.monotonic() + seconds
    with _stoppable(), _listening(here, port) as listeners:
        for connection, address in _connections(listeners, deadline):
            with closing(connection):
                peer = here.peer_at(address)
                if peer is None:
                    refused += 1
                    continue
                clients += 1
                # Whoever talks nonsense is hung up on; the next one may be a good client.
                with suppress(protocol.ProtocolError):
                    _Conversation(here, peer, connection, port, deadline).hold()
    return {"host": here.node.name, "port": port, "clients": clients, "refused": refused, "findings": []}


@contextmanager
def _stoppable() -> Iterator[None]:
    """End on SIGTERM and SIGHUP as if time were over, so that no measuring program stays behind."""

    def stop(*_: object) -> None:
        for number in numbers:  # a second one must not break off the cleaning up
            signal.signal(number, signal.SIG_IGN)
        raise _Stopped

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    except _Stopped:
        pass
    finally:
        for number, action in before.items():
            signal.signal(number, action)


class _Stopped(BaseException):
    pass


@contextmanager
def _listening(here: Here, port: int) -> Iterator[list[socket.socket]]:
    listeners: list[socket.socket] = []
    try:
        for rail in here.rails:
            listeners.append(_listen(here, rail.address.ip, port))
        yield listeners
    finally:
        for listener in listeners:
            listener.close()


def _listen(here: Here, address: Address, port: int) -> socket.socket:
    listener = socket.socket(
        socket.AF_INET6 if address.version == 6 else socket.AF_INET,  # noqa: PLR2004
        socket.SOCK_STREAM,
    )
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((str(address), port))
        listener.listen(1)
        listener.setblocking(False)  # a client that is gone again must not hold up the others
    except OSError as problem:
        listener.close()
        text = f"{here.node.name}: cannot listen on {address} port {port}: {problem.strerror}."
        fix = f"ss -ltnp 'sport = :{port}' shows who does; stop it, or choose another --port on both hosts."
        raise UnusableError([error("fabric.bench.port", text, fix)]) from problem
    return listener


def _connections(listeners: Sequence[socket.socket], deadline: float) -> Iterator[tuple[socket.socket, Any]]:
    with selectors.DefaultSelector() as selector:
        for listener in listeners:
            selector.register(listener, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                with suppress(OSError):
                    yield key.fileobj.accept()  # type: ignore[union-attr]


class _Conversation:
    """One client, from its first message to its end; never longer than the server lives."""

    def __init__(self, here: Here, peer: int, connection: socket.socket, port: int, deadline: float) -> None:
        self._here = here
        self._line = protocol.Line(connection, protocol.REQUEST_BYTES)
        self._deadline = deadline
        self._seconds = SECONDS.start
        self._tests = frozenset({TCP, *((WRITE, READ, LATENCY) if here.cluster.fabric.rdma else ())})
        self._side = Side(here.host, lambda job: here.command(job, peer, port))

    def hold(self) -> None:
        """Answer until the client has enough; raises ProtocolError when it says what it must not."""
        try:
            protocol.hello(self._next() or {})
            self._line.send(
                op="hello",
                version=protocol.VERSION,
                facts=self._here.facts.as_json(),
                findings=as_json(self._here.findings),
            )
            while (message := self._next()) is not None:
                self._answer(message)
        except protocol.ProtocolError as problem:
            with suppress(protocol.ProtocolError):
                self._line.send(op="refused", reason=str(problem))
            raise
        finally:
            self._side.stop()

    def _next(self) -> dict[str, Any] | None:
        return self._line.receive(min(_IDLE_SECONDS, max(0.0, self._deadline - time.monotonic())))

    def _answer(self, message: dict[str, Any]) -> None:
        if message.get("op") == "collect":
            left = min(self._seconds + GRACE_SECONDS, max(0.0, self._deadline - time.monotonic()))
            outcomes = self._side.collect(protocol.patience(message, left))
            self._line.send(op="done", outcomes=[item.as_json() for item in outcomes])
            return
        if message.get("op") != "start":
            raise protocol.ProtocolError("after the hello come start and collect, nothing else")
        job = protocol.job(message, len(self._here.rails), self._tests)
        self._start(job)

    def _start(self, job: Job) -> None:
        if self._side.busy(job.rail):
            raise protocol.ProtocolError(f"rail {job.rail} has a job already")
        self._seconds = job.seconds
        problem = self._side.start(job)
        if problem:
            self._line.send(op="refused", reason=problem)
        else:
            self._line.send(op="started")
