"""What the two sides say to each other: one JSON object a line, few kinds, nothing that names a program.

    > {"op": "hello", "version": 1}      < {"op": "hello", "version": 1, "facts": {…}, "findings": […]}
    > {"op": "start", "test": "write", "serving": true, "rail": 0, "seconds": 3}   < {"op": "started"}
    > {"op": "collect", "seconds": 23}   < {"op": "done", "outcomes": […]}   (what runs longer is killed)

Instead of an answer there may be ``{"op": "refused", "reason": "…"}``.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from typing import Any

from tandem_host.fabric.bench import SECONDS
from tandem_host.fabric.bench.figures import TESTS
from tandem_host.fabric.bench.jobs import Job, Outcome
from tandem_host.fabric.bench.outputs import printable
from tandem_host.strict import parse

VERSION = 1
REQUEST_BYTES = 1024
ANSWER_BYTES = 4 * 1024 * 1024


class ProtocolError(Exception):
    """The other side said something that it must not, or nothing in time."""


class Line:
    """Sends and receives messages over a connected socket; none may have more than ``limit`` bytes."""

    def __init__(self, connection: socket.socket, limit: int) -> None:
        self._connection = connection
        self._limit = limit
        self._rest = b""

    def send(self, **message: Any) -> None:
        """Send one message; raises ProtocolError when it does not get through."""
        try:
            self._connection.settimeout(10)
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as problem:
            raise ProtocolError(f"the connection broke: {problem}") from problem

    def receive(self, seconds: float) -> dict[str, Any] | None:
        """The next message, None when the other side has closed; raises ProtocolError after ``seconds``."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._rest:
            if len(self._rest) > self._limit:
                raise ProtocolError(f"a message has more than {self._limit} bytes")
            left = deadline - time.monotonic()
            if left <= 0:
                raise ProtocolError(f"no message came for {seconds:.0f} s")
            self._connection.settimeout(left)
            try:
                more = self._connection.recv(65536)
            except TimeoutError:
                continue
            except OSError as problem:
                raise ProtocolError(f"the connection broke: {problem}") from problem
            if not more:
                return None
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\n")
        return _object(text, self._limit)


def _object(text: bytes, limit: int) -> dict[str, Any]:
    if len(text) > limit:
        raise ProtocolError(f"a message has more than {limit} bytes")
    try:
        message = parse(text)
    except ValueError as problem:
        raise ProtocolError(f"a message is not JSON: {problem}") from None
    if not isinstance(message, dict):
        raise ProtocolError("a message is not a JSON object")
    return message


def hello(message: dict[str, Any]) -> None:
    """Raises ProtocolError unless it is the first message of a side that speaks the same version."""
    if message.get("op") != "hello" or message.get("version") != VERSION:
        raise ProtocolError(
            f"the other side does not speak version {VERSION}: is tandem-host the same there?"
        )


def job(message: dict[str, Any], rails: int, tests: frozenset[str]) -> Job:
    """The job that a ``start`` asks for; raises ProtocolError unless every field is one of those possible."""
    if set(message) != {"op", "test", "serving", "rail", "seconds"}:
        raise ProtocolError("a start has test, serving, rail and seconds, and nothing else")
    test, serving = message["test"], message["serving"]
    rail, seconds = message["rail"], message["seconds"]
    if not isinstance(test, str) or test not in TESTS or test not in tests:
        raise ProtocolError(f"the test must be one of {', '.join(sorted(tests))}")
    if type(serving) is not bool:
        raise ProtocolError("serving must be true or false")
    if type(rail) is not int or rail not in range(rails):
        raise ProtocolError(f"the rail must be from 0 to {rails - 1}")
    if type(seconds) is not int or seconds not in SECONDS:
        raise ProtocolError(f"the seconds must be from {SECONDS.start} to {SECONDS.stop - 1}")
    return Job(test, serving, rail, seconds)


def start(wanted: Job) -> dict[str, Any]:
    """The message that asks for a job."""
    return {
        "op": "start",
        "test": wanted.test,
        "serving": wanted.serving,
        "rail": wanted.rail,
        "seconds": wanted.seconds,
    }


def patience(message: dict[str, Any], longest: float) -> float:
    """How many seconds a ``collect`` gives the jobs, ``longest`` at most; raises ProtocolError."""
    seconds = message.get("seconds")
    if set(message) != {"op", "seconds"} or type(seconds) is not int or seconds < 0:
        raise ProtocolError("a collect has whole seconds, and nothing else")
    return min(float(min(seconds, 3600)), longest)


def outcomes(message: dict[str, Any], rails: Sequence[int]) -> list[Outcome]:
    """What a ``done`` holds, one for each of ``rails``; raises ProtocolError for anything else."""
    try:
        found = [_outcome(item) for item in message["outcomes"]]
    except (LookupError, TypeError) as problem:
        raise ProtocolError(f"the results of the other side are incomplete ({problem})") from problem
    if sorted(item.rail for item in found) != sorted(rails):
        raise ProtocolError("the results of the other side are not those of the rails that were asked for")
    return found


def _outcome(item: dict[str, Any]) -> Outcome:
    rail, status, output, error = item["rail"], item["status"], item["output"], item["error"]
    if type(rail) is not int or type(status) is not int:
        raise TypeError("rail and status must be numbers")
    if not isinstance(output, str) or not isinstance(error, str):
        raise TypeError("output and error must be texts")
    return Outcome(rail, status, output, printable(error))


def reason(message: dict[str, Any]) -> str:
    """Why the other side refused, as printable text of bounded length."""
    return printable(str(message.get("reason", "it gave no reason")))
