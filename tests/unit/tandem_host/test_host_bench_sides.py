"""Both sides of a measurement on loopback, with small programs in the place of perftest."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

import pytest

from tandem_host.cluster import Cluster, Fabric, Node, Rail
from tandem_host.fabric.bench import client, jobs, protocol, server
from tandem_host.fabric.bench.facts import Facts, RailFacts
from tandem_host.fabric.bench.figures import TCP, WRITE, Step
from tandem_host.fabric.bench.jobs import Job, Side
from tandem_host.fabric.bench.look import Here
from tandem_host.fabric.hcas import HcaPort
from tandem_host.fabric.rails import RailState
from tandem_host.findings import UnusableError, warning
from tandem_host.host import Host

#: Rail 0 is 127.9.0.0/24, rail 1 127.9.1.0/24: Linux answers to all of 127.0.0.0/8.
RAILS = [[f"127.9.{rail}.{rank + 1}/24" for rail in (0, 1)] for rank in (0, 1)]
WAIT = (
    "import socket,sys; s=socket.create_server((sys.argv[1], int(sys.argv[2]))); s.accept(); print('served')"
)
CALL = "import socket,sys; socket.create_connection((sys.argv[1], int(sys.argv[2]))); print('called')"
FAIL = "import sys; print('no such device'); sys.exit(3)"


@dataclass(frozen=True)
class Fake(Here):
    """A host whose measuring programs are scripts: what serves waits for one caller."""

    scripts: dict[bool, str] = field(default_factory=lambda: {True: WAIT, False: CALL})

    def command(self, job: Job, peer: int, port: int) -> tuple[list[str], int]:
        own = port + 1 + job.rail
        serving = self.node.rank if job.serving else peer
        address = RAILS[serving][job.rail].split("/")[0]
        return [sys.executable, "-S", "-c", self.scripts[job.serving], address, str(own)], own


NODES = tuple(
    Node(rank, name, tuple(Rail(ip_interface(address), None, None) for address in RAILS[rank]))
    for rank, name in enumerate(("spark-a", "spark-b"))
)


def side(rank: int, serving: str = WAIT, calling: str = CALL) -> Fake:
    node = NODES[rank]
    devices = tuple(RailFacts(name, None, 9000, None, None, None) for name in ("eth0", "eth1"))
    return Fake(
        Host(),
        Cluster(NODES, Fabric("soft-roce", 9000, "auto"), 29521, 8888),
        node,
        tuple(RailState(rail.address, "lo") for rail in node.rails),
        Facts(node.name, f"boot-{rank}", frozenset({"ib_write_bw"}), devices),
        (warning("fabric.gid.rival", f"{node.name}: \x1btwo addresses", "one"),),
        {True: serving, False: calling},
    )


@pytest.fixture
def port() -> int:
    """A port with free ones after it."""
    with closing(socket.create_server(("127.9.0.1", 0))) as listener:
        return min(int(listener.getsockname()[1]), 65000)


def together(there: Here, port: int, measure: Callable[[], None]) -> dict[str, Any]:
    """Serve here, in the main thread as the program does, until ``measure`` in another one has ended."""
    problems: list[BaseException] = []

    def run() -> None:
        try:
            measure()
        except BaseException as problem:
            problems.append(problem)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=run)
    thread.start()
    document = server.serve(there, port, 60)
    thread.join()
    if problems:
        raise problems[0]
    return document


def children() -> list[str]:
    found = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True, check=False
    )
    return [line for line in found.stdout.splitlines() if "socket" in line]


@pytest.mark.parametrize("outward", [True, False])
def test_a_step_with_both_rails(port: int, outward: bool) -> None:
    here, there = side(0), side(1)

    def measure() -> None:
        with client.Session(here, there.node, port, 5) as session:
            assert (session.facts.host, session.facts.boot_id) == ("spark-b", "boot-1")
            assert session.findings[0].message == "spark-b:  two addresses"
            outcomes = session.run(Step(WRITE, (0, 1), outward), 3)
        assert [(item.rail, item.status, item.output) for item in outcomes] == [
            (0, 0, "called\n"),
            (1, 0, "called\n"),
        ]

    document = together(there, port, measure)
    assert (document["clients"], document["findings"]) == (1, [])
    assert children() == []


@pytest.mark.parametrize("outward", [True, False])
def test_a_client_that_fails_ends_its_server_at_once(port: int, outward: bool) -> None:
    here, there = (side(rank, calling=FAIL) for rank in (0, 1))

    def measure() -> None:
        started = time.monotonic()
        with client.Session(here, there.node, port, 5) as session:
            outcomes = session.run(Step(WRITE, (0,), outward), 3)
        assert [(item.status, item.error) for item in outcomes] == [(3, "no such device")]
        assert time.monotonic() - started < 3

    together(there, port, measure)
    assert children() == []


@pytest.mark.parametrize("outward", [True, False])
def test_a_server_that_does_not_start_is_told_with_its_words(port: int, outward: bool) -> None:
    here, there = (side(rank, serving=FAIL) for rank in (0, 1))

    def measure() -> None:
        with client.Session(here, there.node, port, 5) as session:
            outcomes = session.run(Step(WRITE, (0, 1), outward), 3)
        assert [item.status for item in outcomes] == [1, 1]
        assert "ended before it listened: no such device" in outcomes[0].error

    together(there, port, measure)


def test_nobody_serves(port: int) -> None:
    here, there = side(0), side(1)
    with pytest.raises(UnusableError) as problem:
        client.Session(here, there.node, port, 0)
    assert problem.value.findings[0].code == "fabric.bench.unreachable"
    assert f"127.9.1.2 port {port}" in problem.value.findings[0].message


def test_the_port_is_taken() -> None:
    there = side(1)
    with closing(socket.create_server(("127.9.1.2", 0))) as other:
        port = other.getsockname()[1]
        with pytest.raises(UnusableError) as problem:
            server.serve(there, port, 1)
    assert problem.value.findings[0].code == "fabric.bench.port"
    assert f"127.9.1.2 port {port}" in problem.value.findings[0].message


def test_it_ends_by_itself(port: int) -> None:
    started = time.monotonic()
    server.serve(side(1), port, 0.2)
    assert time.monotonic() - started < 2


def dial(port: int, source: str) -> socket.socket:
    """A connection to the server, which may not listen yet."""
    deadline = time.monotonic() + 5
    while True:
        try:
            return socket.create_connection(("127.9.0.2", port), timeout=5, source_address=(source, 0))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


HELLO = b'{"op": "hello", "version": 1}\n'


def asked(connection: socket.socket, text: bytes) -> dict[str, Any]:
    with suppress(ConnectionError):
        connection.sendall(text)
    return json.loads(connection.makefile("rb").readline())


@pytest.mark.parametrize(
    "text",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xfe\x00\n",
        b"[]\n",
        b"{}\n",
        b'{"op": "hello"}\n',
        b'{"op": "hello", "version": 2}\n',
        b'{"op": "hello", "op": "hello", "version": 1}\n',
        b"[" * 900 + b"\n",
        b"x" * 5000,
    ],
    ids=lambda text: repr(text[:20]),
)
def test_a_client_that_talks_nonsense_is_hung_up_on_and_the_next_one_is_served(
    port: int, text: bytes
) -> None:
    there = side(1)

    def measure() -> None:
        with dial(port, "127.9.0.1") as rude:
            assert asked(rude, text)["op"] == "refused"
        with dial(port, "127.9.0.1") as good:
            assert asked(good, HELLO)["op"] == "hello"

    assert together(there, port, measure)["clients"] == 2


def test_a_stranger_gets_no_word(port: int) -> None:
    there = side(1)

    def measure() -> None:
        with dial(port, "127.0.0.1") as stranger:
            assert stranger.recv(100) == b""

    document = together(there, port, measure)
    assert (document["clients"], document["refused"]) == (0, 1)


START = {"op": "start", "test": WRITE, "serving": True, "rail": 0, "seconds": 3}


@pytest.mark.parametrize(
    "change",
    [
        {"test": "sh"},
        {"test": ["write"]},
        {"test": None},
        {"serving": 1},
        {"serving": "yes"},
        {"rail": 2},
        {"rail": -1},
        {"rail": True},
        {"rail": 0.0},
        {"rail": "0"},
        {"seconds": 2},
        {"seconds": 61},
        {"seconds": 1e9},
        {"seconds": "3; reboot"},
        {"argv": ["/bin/sh"]},
        {"op": "exec"},
    ],
    ids=str,
)
def test_only_the_few_jobs_can_be_asked_for(port: int, change: dict[str, Any]) -> None:
    there = side(1)

    def measure() -> None:
        with dial(port, "127.9.0.1") as rude:
            asked(rude, HELLO)
            answer = asked(rude, json.dumps(START | change).encode() + b"\n")
            assert answer["op"] == "refused"

    together(there, port, measure)
    assert children() == []


def test_no_verbs_are_run_where_there_are_none() -> None:
    with pytest.raises(protocol.ProtocolError):
        protocol.job(START, 2, frozenset({TCP}))


@pytest.mark.parametrize("message", [{"op": "collect"}, {"op": "collect", "seconds": -1}], ids=str)
def test_a_collect_says_how_long(message: dict[str, Any]) -> None:
    with pytest.raises(protocol.ProtocolError):
        protocol.patience(message, 30)


def test_a_collect_is_never_longer_than_the_job() -> None:
    assert protocol.patience({"op": "collect", "seconds": 10**30}, 23) == 23
    assert protocol.patience({"op": "collect", "seconds": 0}, 23) == 0


def test_a_job_is_killed_with_its_client(port: int) -> None:
    there = side(1)

    def measure() -> None:
        with dial(port, "127.9.0.1") as gone:
            asked(gone, HELLO)
            assert asked(gone, json.dumps(START).encode() + b"\n")["op"] == "started"
            assert asked(gone, json.dumps(START).encode() + b"\n")["reason"] == "rail 0 has a job already"
        deadline = time.monotonic() + 5
        while children() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert children() == []

    together(there, port, measure)


class Liar:
    """A peer that answers with what it was given."""

    def __init__(self, *answers: bytes) -> None:
        self._listener = socket.create_server(("127.9.0.2", 0))
        self.port = int(self._listener.getsockname()[1])
        self._answers = answers
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rb") as stream:
            for answer in self._answers:
                stream.readline()
                with suppress(OSError):
                    connection.sendall(answer + b"\n")

    def close(self) -> None:
        self._thread.join()
        self._listener.close()


FACTS = {
    "host": "spark-b",
    "boot_id": "b",
    "tools": [],
    "rails": [
        {"netdev": name, "hca": None, "mtu": 9000, "speed": None, "pcie": None, "iommu": None}
        for name in ("eth0", "eth1")
    ],
}
GOOD_HELLO = {"op": "hello", "version": 1, "facts": FACTS, "findings": []}
OUTCOME = {"rail": 0, "status": 0, "output": "x", "error": ""}


@pytest.fixture
def liar() -> Iterator[Callable[..., Liar]]:
    made = []

    def make(*answers: Any) -> Liar:
        texts = [item if isinstance(item, bytes) else json.dumps(item).encode() for item in answers]
        made.append(Liar(*texts))
        return made[-1]

    yield make
    for item in made:
        item.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"not JSON",
        [],
        {},
        GOOD_HELLO | {"version": 2},
        GOOD_HELLO | {"facts": None},
        GOOD_HELLO | {"facts": FACTS | {"host": "spark-c"}},
        GOOD_HELLO | {"facts": FACTS | {"host": "spark-b\x1b"}},
        GOOD_HELLO | {"facts": FACTS | {"rails": FACTS["rails"][:1]}},
        GOOD_HELLO | {"facts": FACTS | {"rails": [dict.fromkeys(FACTS["rails"][0], "x")] * 2}},
        GOOD_HELLO | {"findings": 1},
        GOOD_HELLO | {"findings": [{"level": "error"}]},
        GOOD_HELLO | {"findings": [dict.fromkeys(("level", "code", "message", "fix"), "x")]},
        {"op": "refused", "reason": "no"},
    ],
    ids=lambda answer: str(answer)[:60],
)
def test_a_peer_that_says_rubbish_of_itself(liar: Callable[..., Liar], answer: Any) -> None:
    here, there = side(0), side(1)
    with pytest.raises(UnusableError) as problem:
        client.Session(here, there.node, liar(answer).port, 1)
    found = problem.value.findings[0]
    assert found.code == "fabric.bench.peer"
    assert found.message.startswith("spark-b: ")
    assert found.message.isprintable()


@pytest.mark.parametrize(
    "outcomes",
    [
        [],
        None,
        [1],
        [{}],
        [OUTCOME, OUTCOME],
        [OUTCOME | {"rail": 7}],
        [OUTCOME | {"rail": "0"}],
        [OUTCOME | {"status": None}],
        [OUTCOME | {"output": ["x"]}],
        [OUTCOME | {"error": 1}],
    ],
    ids=str,
)
def test_a_peer_whose_results_are_rubbish(liar: Callable[..., Liar], outcomes: Any) -> None:
    here, there = side(0), side(1)
    peer = liar(GOOD_HELLO, {"op": "started"}, {"op": "done", "outcomes": outcomes})
    with client.Session(here, there.node, peer.port, 1) as session, pytest.raises(UnusableError) as problem:
        session.run(Step(WRITE, (0,), outward=False), 3)
    assert problem.value.findings[0].code == "fabric.bench.peer"
    assert children() == []


def test_what_takes_too_long_is_killed() -> None:
    here = side(0, calling="import time; time.sleep(60)")
    runner = Side(here.host, lambda job: here.command(job, 1, 29522))
    assert runner.start(Job(WRITE, False, 0, 3)) is None
    (outcome,) = runner.collect(0.2)
    assert (outcome.status, outcome.error) == (-signal.SIGKILL, "it took too long and was killed")


def test_the_port_of_another_program_does_not_pass_for_its_own(port: int) -> None:
    here = side(0, serving="import sys, time; time.sleep(0.3); print('in use'); sys.exit(1)")
    runner = Side(here.host, lambda job: here.command(job, 1, port))
    with closing(socket.create_server(("127.9.0.1", port + 1))):
        assert "ended before it listened: in use" in str(runner.start(Job(WRITE, True, 0, 3)))


def test_a_program_ends_with_the_one_that_started_it(tmp_path: Path, port: int) -> None:
    """A killed server of measurements must not leave one that waits for ever."""
    pid = tmp_path / "pid"
    script = f"import os,time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    starter = (
        "from tandem_host.fabric.bench.jobs import Side, Job; from tandem_host.host import Host\n"
        f"Side(Host(), lambda job: ([{sys.executable!r}, '-S', '-c', {script!r}], {port}))"
        ".start(Job('write', False, 0, 3)); import time; time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", starter])
    deadline = time.monotonic() + 10
    while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    state = Path("/proc") / pid.read_text() / "stat"

    def runs() -> bool:
        return state.exists() and ") Z " not in state.read_text()  # a zombie has ended

    while runs() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not runs()


RAIL = RailState(
    ip_interface("10.0.0.1/24"),
    "enp1s0f0np0",
    HcaPort("rocep1s0f0", 1, "ACTIVE", "Ethernet", frozenset({"enp1s0f0np0"})),
    gid_index=3,
)


def line(job: Job, kind: str = "roce") -> str:
    return " ".join(jobs.argv(job, kind, RAIL, ip_interface("10.0.0.2/24").ip, 29523))


def test_the_command_lines() -> None:
    common = "-d rocep1s0f0 -i 1 -x 3 -p 29523 -F"
    bandwidth = f"{common} --report_gbits -s 65536 -D 5 -f 1"
    assert line(Job("write", True, 0, 5)) == f"ib_write_bw {bandwidth} -q 4"
    assert line(Job("write", False, 0, 5)) == f"ib_write_bw {bandwidth} -q 4 10.0.0.2"
    assert line(Job("read", False, 0, 5), "soft-roce") == f"ib_read_bw {bandwidth} -q 1 -t 8 -o 4 10.0.0.2"
    assert line(Job("latency", False, 0, 5)) == f"ib_write_lat {common} -s 8 -n 1000 10.0.0.2"
    iperf = "iperf3 -p 29523 -B 10.0.0.1 -J -i 0"
    assert line(Job("tcp", True, 0, 5)) == f"{iperf} -s -1"
    assert line(Job("tcp", False, 0, 5)) == f"{iperf} -c 10.0.0.2 -t 5 -P 4 --connect-timeout 3000"
