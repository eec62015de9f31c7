"""Telling a running QEMU what to do, over its QMP socket."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tandem.lab.spec import LabError


class Monitor:
    """A connection to one QEMU; a context manager. Raises LabError where QEMU does not answer or refuses."""

    def __init__(self, path: Path, timeout: float = 120) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)

    def __enter__(self) -> Self:
        try:
            self._socket.connect(str(self._path))
        except OSError as problem:
            self._socket.close()
            raise LabError(f"the virtual machine at {self._path} does not answer: {problem}") from problem
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self._read()  # its greeting
        self.execute("qmp_capabilities")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lines.close()
        self._socket.close()

    def execute(self, command: str, **arguments: object) -> Any:
        """What QEMU answers to ``command``; events that come before the answer are dropped."""
        message = {"execute": command, "arguments": arguments}
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as problem:
            raise LabError(f"the virtual machine at {self._path} went away: {problem}") from problem
        while "event" in (answer := self._read()):
            pass
        if "error" in answer:
            raise LabError(f"QEMU refuses {command}: {answer['error'].get('desc', answer['error'])}")
        return answer["return"]

    def type(self, line: str) -> None:
        """Type a line at QEMU's monitor for people, which says something only when it fails."""
        said = self.execute("human-monitor-command", **{"command-line": line}).strip()
        if said:
            raise LabError(f"QEMU refuses `{line}`: {said}")

    def _read(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except OSError as problem:
            raise LabError(f"the virtual machine at {self._path} does not answer: {problem}") from problem
        if not line:
            raise LabError(f"the virtual machine at {self._path} went away")
        document: dict[str, Any] = json.loads(line)
        return document


def await_start(path: Path, is_alive: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until a QEMU that was just started listens at ``path``. Raises LabError where it ended."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with Monitor(path, timeout=5):
                return
        except LabError:
            if not is_alive() or time.monotonic() > deadline:
                raise
        time.sleep(0.05)
