"""``probe completion --while-unit``: no waiting for a server whose unit is down."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hosttree import Run, Tree, codes, message

from tandem_host import units
from tandem_host.host import Host
from tandem_host.system import ask

UNIT = "tandem-rank.service"
NOBODY = "http://127.0.0.1:1"  # nothing listens there: refused at once


def unit(tree: Tree, **values: object) -> None:
    """Write what ``systemctl show`` says; by default the unit runs."""
    running = {"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "Result": "success"}
    running |= {"ExecMainCode": "0", "ExecMainStatus": "0", "NRestarts": "0"}
    lines = (f"{name}={value}" for name, value in {**running, **values}.items())
    tree.write(f"tandem-fixture/systemctl-show/{UNIT}", "\n".join(lines))


FAILED = {"ActiveState": "failed", "SubState": "failed", "Result": "exit-code"}
FAILED |= {"ExecMainCode": "1", "ExecMainStatus": "3"}


def probe(run: Run, tree: Tree, *more: object, url: str = NOBODY) -> tuple[int, dict[str, Any]]:
    waiting = ("--deadline", 60, "--while-unit", UNIT, "--root", tree.root)
    return run("probe", "completion", "--url", url, "--model", "tiny", *waiting, *more)


def test_a_failed_unit_ends_the_waiting(run: Run, tree: Tree) -> None:
    unit(tree, **FAILED)
    lines = [f"line {number}" for number in range(40)]
    tree.write(f"tandem-fixture/journalctl/{UNIT}", "\n".join(lines))
    started = time.monotonic()
    status, document = probe(run, tree)
    assert time.monotonic() - started < 5
    assert (status, document["ok"], codes(document)) == (1, False, ["probe.unit.stopped"])
    text = message(document, "probe.unit.stopped")
    assert f"spark-a: {UNIT} is failed (failed), result exit-code, exit status 3" in text
    assert "Connection refused" in text
    assert text.endswith("\n  line 38\n  line 39")
    assert "line 25" in text
    assert "line 24" not in text
    assert document["unit"]["exit_status"] == 3
    assert document["unit"]["journal"] == lines[-15:]
    assert "journalctl -u tandem-rank.service" in document["findings"][0]["fix"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({**FAILED, "ExecMainCode": "2", "ExecMainStatus": "9", "Result": "signal"}, "signal 9"),
        ({**FAILED, "Result": "oom-kill"}, "result oom-kill"),
        ({"ActiveState": "inactive", "SubState": "dead"}, "inactive (dead)"),
        ({"ActiveState": "inactive", "SubState": "dead", "LoadState": "not-found"}, "not-found"),
        ({"ActiveState": "deactivating", "SubState": "stop-sigterm"}, "deactivating"),
    ],
)
def test_ways_to_be_down(run: Run, tree: Tree, values: dict[str, str], told: str) -> None:
    unit(tree, **values)
    status, document = probe(run, tree)
    assert (status, codes(document), document["attempts"]) == (1, ["probe.unit.stopped"], 1)
    assert told in message(document, "probe.unit.stopped")
    assert "nothing that this user may read" in message(document, "probe.unit.stopped")


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"ActiveState": "activating", "SubState": "start"},
        {"ActiveState": "reloading"},
        {"ActiveState": "inactive", "SubState": "dead", "Job": "4711"},
        {"NRestarts": "7"},
    ],
    ids=["active", "activating", "reloading", "queued", "restarted-before"],
)
def test_ways_to_be_up(run: Run, tree: Tree, values: dict[str, str]) -> None:
    unit(tree, **values)
    status, document = probe(run, tree, "--deadline", 1.2)
    assert (status, codes(document)) == (1, ["serve.completion.failed"])
    assert document["attempts"] >= 2


class Server:
    """A server that is still loading, and does something with each request."""

    url = ""

    def __init__(self) -> None:
        self.asked = 0
        self.on_request: Callable[[int], None] = lambda _number: None


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            state.asked += 1
            state.on_request(state.asked)
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield state
    http.shutdown()
    http.server_close()
    thread.join()


def test_a_unit_that_fails_while_it_loads(run: Run, tree: Tree, server: Server) -> None:
    unit(tree)
    server.on_request = lambda number: unit(tree, **FAILED) if number == 2 else None
    status, document = probe(run, tree, url=server.url)
    assert (status, codes(document), document["attempts"]) == (1, ["probe.unit.stopped"], 2)


def test_a_unit_that_restarts_for_ever(run: Run, tree: Tree, server: Server) -> None:
    unit(tree, NRestarts=4)
    server.on_request = lambda number: unit(tree, NRestarts=6) if number == 2 else None
    status, document = probe(run, tree, url=server.url)
    assert (status, codes(document), document["attempts"]) == (1, ["probe.unit.stopped"], 2)
    assert "was restarted 2 times meanwhile and is active" in message(document, "probe.unit.stopped")


def test_restarts_before_systemd_could_be_asked_do_not_count(run: Run, tree: Tree, server: Server) -> None:
    server.on_request = lambda _number: unit(tree, NRestarts=6)
    assert codes(probe(run, tree, "--deadline", 1.2, url=server.url)[1]) == ["serve.completion.failed"]


def test_without_systemd_the_deadline_counts_and_it_is_said(run: Run, tree: Tree) -> None:
    status, document = probe(run, tree, "--deadline", 0.5)
    assert (status, codes(document)) == (1, ["serve.completion.failed"])
    assert codes(document, "warning") == ["probe.unit.unknown"]


def test_the_key_in_the_journal_is_not_shown(run: Run, tree: Tree, tmp_path: Path) -> None:
    key = tmp_path / "api.key"
    key.write_text("s3cret")
    unit(tree, **FAILED)
    tree.write(f"tandem-fixture/journalctl/{UNIT}", "started with key s3cret")
    document = probe(run, tree, "--api-key-file", key)[1]
    assert document["unit"]["journal"] == ["started with key (the key)"]
    assert "s3cret" not in str(document)


@pytest.mark.parametrize("name", ["", "-p", "a b", "../x", "tandem-*"])
def test_what_is_no_name_of_a_unit(run: Run, name: str) -> None:
    status, document = run("probe", "completion", "--url", NOBODY, "--model", "tiny", f"--while-unit={name}")
    assert (status, codes(document)) == (2, ["usage.unit.invalid"])


def program(directory: Path, name: str, text: str) -> None:
    file = directory / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def test_systemd_is_asked_on_a_live_host(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(
        tmp_path,
        "systemctl",
        'echo "$@" >>"$0.log"; printf "ActiveState=failed\\nSubState=failed\\nExecMainStatus=1\\n"',
    )
    program(tmp_path, "journalctl", 'echo "$@" >>"$0.log"; printf "caf\\303\\251 \\377\\n\\nlast words\\n"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    arguments = ("--url", NOBODY, "--model", "tiny", "--deadline", 60, "--while-unit", UNIT)
    status, document = run("probe", "completion", *arguments)
    assert (status, codes(document)) == (1, ["probe.unit.stopped"])
    assert document["unit"]["journal"] == ["café \ufffd", "last words"]
    assert (tmp_path / "systemctl.log").read_text().startswith(f"show {UNIT} -p LoadState,ActiveState,")
    assert (tmp_path / "journalctl.log").read_text() == f"-u {UNIT} -n 15 -o cat --no-pager\n"


def test_a_program_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    program(tmp_path, "hangs", "sleep 60 & sleep 60")
    started = time.monotonic()
    assert ask([str(tmp_path / "hangs")], 0.3) is None
    assert time.monotonic() - started < 5


def test_programs_that_fail_or_are_not_there(tmp_path: Path) -> None:
    program(tmp_path, "fails", "echo half; exit 1")
    assert ask([str(tmp_path / "fails")], 5) is None
    assert ask([str(tmp_path / "none")], 5) is None


@pytest.mark.parametrize("text", ["", "garbage", "ActiveState=", "=\n==\nActiveState"])
def test_an_answer_of_systemd_that_says_nothing(tree: Tree, text: str) -> None:
    tree.write(f"tandem-fixture/systemctl-show/{UNIT}", text)
    assert units.show(Host(tree.root), UNIT) is None
