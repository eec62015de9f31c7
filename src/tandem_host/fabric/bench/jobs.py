"""The measurement programs: their command lines, made here alone, and running them for a bounded time."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tandem_host import processes
from tandem_host.addresses import Address
from tandem_host.fabric.bench import outputs
from tandem_host.fabric.bench.figures import LATENCY, READ, TCP, TOOLS
from tandem_host.fabric.rails import RailState
from tandem_host.host import Host

#: Bytes of a message: where published figures of healthy rails were measured, and little memory.
MESSAGE = 65536
#: A program may take this much longer than it measures, for its start and its end.
GRACE_SECONDS = 20.0
_LISTEN_SECONDS = 15.0
_OUTPUT_BYTES = 256 * 1024
_ERROR_LINES = 3
#: The kernel ends a program with the process that started it, even if that one is killed: a perftest or
#: iperf3 that waits for a client would wait for ever, with its port.
_TIED = ("setpriv", "--pdeathsig", "KILL", "--")


@dataclass(frozen=True)
class Job:
    """One program of one side: ``serving`` waits for the other side, which is the client, on ``rail``."""

    test: str
    serving: bool
    rail: int
    seconds: int


@dataclass(frozen=True)
class Outcome:
    """How a program ended: ``status`` 0 is fine; ``error`` has its last words."""

    rail: int
    status: int
    output: str
    error: str

    def as_json(self) -> dict[str, Any]:
        """The outcome as it goes over the wire."""
        return {"rail": self.rail, "status": self.status, "output": self.output, "error": self.error}


def argv(job: Job, kind: str, rail: RailState, peer: Address, port: int) -> list[str]:
    """The command line of a job: this side's own ``rail``, the peer's address on it, and the job's port.

    A serving perftest takes the greeting of its client on every address of the host: the option that would
    bind it is ``--source_ip`` in one version and ``--bind_source_ip`` in the next.
    """
    if job.test == TCP:
        return _iperf(job, rail, peer, port)
    assert rail.rdma is not None  # a rail without verbs has no such job  # noqa: S101
    command = [TOOLS[job.test], "-d", rail.rdma.hca, "-i", str(rail.rdma.port), "-x", str(rail.gid_index)]
    command += ["-p", str(port), "-F"]
    if job.test == LATENCY:
        command += ["-s", "8", "-n", "1000"]
    else:
        # -f: without a second at each end, where the two sides do not overlap for certain.
        command += ["--report_gbits", "-s", str(MESSAGE), "-D", str(job.seconds), "-f", "1"]
        if kind == "roce":
            command += ["-q", "4"]
        else:
            # rdma_rxe runs on a processor: deep queues of several pairs end in retries and errors there.
            command += ["-q", "1", "-t", "8", *(["-o", "4"] if job.test == READ else [])]
    return command if job.serving else [*command, str(peer)]


def _iperf(job: Job, rail: RailState, peer: Address, port: int) -> list[str]:
    command = ["iperf3", "-p", str(port), "-B", str(rail.address.ip), "-J", "-i", "0"]
    if job.serving:
        return [*command, "-s", "-1"]
    return [*command, "-c", str(peer), "-t", str(job.seconds), "-P", "4", "--connect-timeout", "3000"]


class Side:
    """Runs the jobs of this host. ``command`` makes a job's command line and port."""

    def __init__(self, host: Host, command: Callable[[Job], tuple[list[str], int]]) -> None:
        self._host = host
        self._command = command
        self._running: list[_Running] = []

    def start(self, job: Job) -> str | None:
        """Start a job; for a serving one wait until it listens. Returns why it could not, or None."""
        command, port = self._command(job)
        try:
            running = _Running(job, command)
        except OSError as problem:
            return f"{problem.filename or command[0]} cannot be started: {problem.strerror}"
        self._running.append(running)
        if not job.serving:
            return None
        deadline = time.monotonic() + _LISTEN_SECONDS
        while time.monotonic() < deadline:
            if running.ended:
                self._running.remove(running)
                return f"{command[0]} ended before it listened: {running.outcome(0).error}"
            if self._listens(running.pid, port):
                return None
            time.sleep(0.05)
        self._running.remove(running)
        running.outcome(0)
        return f"{command[0]} does not listen on port {port} after {_LISTEN_SECONDS:.0f} s"

    def _listens(self, pid: int, port: int) -> bool:
        """Whether this program listens there itself: somebody else's port must not pass for its own."""
        waiting = {
            item.inode
            for item in processes.sockets(self._host)
            if item.state == processes.LISTEN and item.local_port == port
        }
        return bool(waiting) and bool(waiting & processes.inodes(self._host, pid))

    def busy(self, rail: int) -> bool:
        """Whether a job on this rail was started and not collected."""
        return any(item.rail == rail for item in self._running)

    def collect(self, seconds: float) -> list[Outcome]:
        """Wait for every job started, up to ``seconds`` in all; what runs longer is killed."""
        deadline = time.monotonic() + seconds
        outcomes = [item.outcome(max(0.0, deadline - time.monotonic())) for item in self._running]
        self._running = []
        return outcomes

    def stop(self) -> None:
        """Kill what still runs."""
        self.collect(0)


class _Running:
    def __init__(self, job: Job, command: list[str]) -> None:
        self._job = job
        # Files, not pipes: nobody reads while the program runs, and a full pipe would stop it.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the outcome
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [*_TIED, *command],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._errors,
                env={**os.environ, "LC_ALL": "C"},
            )
        except BaseException:
            self._output.close()
            self._errors.close()
            raise

    @property
    def rail(self) -> int:
        return self._job.rail

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def outcome(self, seconds: float) -> Outcome:
        """Wait up to ``seconds``, then kill; call once."""
        late = False
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
        output, errors = self._text(self._output), self._text(self._errors)
        complaint = outputs.complaint(self._job.test, output)
        # iperf3 that reports in JSON ends with 0 even where it could not connect.
        status = self._process.returncode or int(bool(complaint))
        words = [line.strip() for line in f"{output}\n{errors}".splitlines() if line.strip(" -*\t")]
        error = complaint or "; ".join(words[-_ERROR_LINES:])
        if late:
            error = "it took too long and was killed"
        return Outcome(self._job.rail, status, output, "" if status == 0 else outputs.printable(error))

    @staticmethod
    def _text(stream: Any) -> str:
        with stream:
            stream.seek(0)
            return str(stream.read(_OUTPUT_BYTES).decode("utf-8", errors="replace"))
