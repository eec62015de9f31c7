"""``rank exec``: a program that writes down what it was given stands in for the engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosttree import Run, Tree, cluster_document, codes, fabric_env, message, serve_document

import tandem_host
from tandem_host import files

SOURCE = Path(tandem_host.__file__).resolve().parents[1]
ENGINE_PROGRAM = f"""#!{sys.executable}
import json, os, sys, time
given = {{"argv": sys.argv, "env": dict(os.environ), "pid": os.getpid()}}
open(os.environ["OUT"], "w").write(json.dumps(given))
time.sleep(60)
"""


# A file may have 10 bytes: what a full disk does, without one.
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
from tandem_host.cli import main
sys.exit(main())
"""


class Installed:
    """A release, a model and the files of a host, all under one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.program = directory / "release/bin/vllm"
        self.program.parent.mkdir(parents=True)
        self.program.write_text(ENGINE_PROGRAM)
        self.program.chmod(0o755)
        self.model = directory / "model"
        self.model.mkdir()
        (self.model / "config.json").write_text("{}")
        self.cluster = directory / "cluster.json"
        self.cluster.write_text(json.dumps(cluster_document("ethernet")))
        self.serve = directory / "serve.json"
        self.write({})
        self.fabric = fabric_env(directory)
        self.state = directory / "rank.json"
        self.out = directory / "out.json"
        self.started: list[subprocess.Popen[str]] = []

    def write(self, parts: dict[str, Any]) -> None:
        places = {"release": {"path": str(self.directory / "release")}, "model": {"path": str(self.model)}}
        engine = {"engine": {"env": {"OUT": str(self.directory / "out.json")}}}
        self.serve.write_text(json.dumps(serve_document(**{**places, **engine, **parts})))

    def execute(self, rank: int = 0, out: int = subprocess.PIPE, **environment: str) -> subprocess.Popen[str]:
        arguments: list[str | Path] = ["--cluster", self.cluster, "--serve", self.serve]
        arguments += ["--fabric-env", self.fabric]
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tandem_host",
                "rank",
                "exec",
                *arguments,
                "--state",
                self.state,
                "--rank",
                str(rank),
            ],
            env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
            stdout=out,
            text=True,
        )
        self.started.append(process)
        return process

    def refused(self, rank: int = 0) -> dict[str, Any]:
        """What ``rank exec`` says when it starts nothing."""
        output, _ = self.execute(rank).communicate(timeout=30)
        assert not self.state.exists()
        assert not self.out.exists()
        document: dict[str, Any] = json.loads(output)
        return document

    def refused_after_start(self) -> dict[str, Any]:
        """What ``rank exec`` says after the line with which it started, when the engine does not run."""
        output, _ = self.execute().communicate(timeout=30)
        assert not self.state.exists()
        assert json.loads(output.splitlines()[0])["rank"] == 0
        document: dict[str, Any] = json.loads("\n".join(output.splitlines()[1:]))
        return document

    def given(self) -> dict[str, Any]:
        """What the started program was given."""
        for _ in range(300):
            if self.out.exists() and self.out.read_text():
                document: dict[str, Any] = json.loads(self.out.read_text())
                return document
            time.sleep(0.05)
        raise AssertionError("the program was not started")


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installed]:
    """Everything that a rank needs; what was started is ended afterwards."""
    host = Installed(tmp_path)
    yield host
    for process in host.started:
        process.kill()
        process.wait()


def test_exec_becomes_the_engine(installed: Installed, run: Run) -> None:
    process = installed.execute(NCCL_SOCKET_IFNAME="docker0", PYTHONHOME_UNUSED="x", HOME="/home/tandem")
    given = installed.given()
    assert given["pid"] == process.pid
    assert given["argv"][0] == str(installed.program)
    assert given["env"]["GLOO_SOCKET_IFNAME"] == "enp1s0f0np0"
    assert given["env"]["HOME"] == "/home/tandem"
    assert not {"NCCL_SOCKET_IFNAME", "PYTHONPATH", "PYTHONHOME_UNUSED", "VLLM_API_KEY"} & set(given["env"])
    state = json.loads(installed.state.read_text())
    assert (state["rank"], state["pid"], state["config_digest"]) == (0, process.pid, "d1")
    assert state["argv"] == given["argv"]
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["argv"] == given["argv"]

    status, answer = run("rank", "status", "--state", installed.state, "--serve", installed.serve)
    assert (status, answer["active"], answer["matches"], answer["pid"]) == (0, True, True, process.pid)
    installed.write({"config_digest": "d2"})
    _, answer = run("rank", "status", "--state", installed.state, "--serve", installed.serve)
    assert (answer["active"], answer["matches"]) == (True, False)
    assert (answer["running_digest"], answer["wanted_digest"]) == ("d1", "d2")
    process.kill()
    process.wait()
    _, answer = run("rank", "status", "--state", installed.state, "--serve", installed.serve)
    assert (answer["active"], answer["matches"], answer["running_digest"]) == (False, False, None)


def test_the_key_reaches_the_environment_of_the_head_only(installed: Installed) -> None:
    key = installed.directory / "api.key"
    key.write_text("s3cret\n")
    key.chmod(0o640)
    installed.write({"api_key_file": str(key)})
    installed.execute(0)
    given = installed.given()
    assert given["env"]["VLLM_API_KEY"] == "s3cret"
    assert "s3cret" not in json.dumps(given["argv"])
    assert "s3cret" not in installed.state.read_text()
    installed.out.unlink()
    key.unlink()  # a worker has no key file
    installed.fabric = fabric_env(installed.directory, TANDEM_RANK="1", VLLM_HOST_IP="10.0.0.2")
    installed.execute(1)
    assert "VLLM_API_KEY" not in installed.given()["env"]


@pytest.mark.parametrize(
    ("content", "mode", "code"),
    [
        ("", 0o640, "rank.key.empty"),
        ("\n", 0o640, "rank.key.empty"),
        ("s3cret", 0o644, "rank.key.exposed"),
        ("two words", 0o600, "rank.key.invalid"),
        (None, 0, "rank.key.missing"),
    ],
    ids=["empty", "blank", "open", "words", "none"],
)
def test_unsafe_keys(installed: Installed, content: str | None, mode: int, code: str) -> None:
    key = installed.directory / "api.key"
    if content is not None:
        key.write_text(content)
        key.chmod(mode)
    installed.write({"api_key_file": str(key)})
    answer = installed.refused()
    assert codes(answer) == [code]
    assert "s3cret" not in json.dumps(answer)


def test_no_fabric_environment(installed: Installed) -> None:
    installed.fabric.unlink()
    assert codes(installed.refused()) == ["fabric.environment.missing"]


def test_a_damaged_fabric_environment(installed: Installed) -> None:
    installed.fabric.write_text("NCCL_IB_GID_INDEX=\n")
    assert codes(installed.refused()) == ["fabric.environment.invalid"]


def test_no_release_and_no_model(installed: Installed) -> None:
    installed.program.chmod(0o644)
    (installed.model / "config.json").unlink()
    assert codes(installed.refused()) == ["rank.release.broken", "rank.model.incomplete"]
    installed.write({"release": {"path": "/nowhere/r"}, "model": {"path": "/nowhere/m"}})
    answer = installed.refused()
    assert codes(answer) == ["rank.release.missing", "rank.model.missing"]
    assert "spark-a" in message(answer, "rank.model.missing")


def test_exec_on_a_copy_of_a_host_is_refused(run: Run, tree: Tree) -> None:
    status, answer = run("rank", "exec", "--root", tree.root)
    assert (status, codes(answer)) == (2, ["usage.root.refused"])


def test_the_first_signal_is_never_lost(installed: Installed, run: Run) -> None:
    for delay in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3):
        process = installed.execute()
        time.sleep(delay)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == -signal.SIGTERM
        status, answer = run("rank", "status", "--state", installed.state, "--serve", installed.serve)
        assert (status, answer["active"], answer["findings"]) == (0, False, [])


def test_a_state_left_half_written_by_a_killed_process_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / f".rank.json.{os.getpid()}").write_text("{")
    files.write_atomic(tmp_path / "rank.json", "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["rank.json"]


def test_nobody_reads_what_a_rank_prints(installed: Installed) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    installed.execute(out=writing)
    os.close(writing)
    assert installed.given()["argv"][0] == str(installed.program)
    installed.out.unlink()
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        installed.execute(out=full.fileno())
        assert installed.given()["argv"][0] == str(installed.program)


def test_the_engine_ignores_no_signals_that_python_does(installed: Installed) -> None:
    installed.program.write_text(
        "#!/bin/sh\ngrep SigIgn: /proc/self/status | tr -dc 0-9a-f >$OUT; exec sleep 60\n"
    )
    installed.execute()
    for _ in range(100):
        if installed.out.exists() and installed.out.read_text():
            break
        time.sleep(0.05)
    assert not int(installed.out.read_text()[1:], 16) & (1 << (signal.SIGPIPE - 1))


@pytest.mark.parametrize("place", ["read-only", "missing", "file", "itself"])
def test_a_state_that_cannot_be_written_starts_nothing(installed: Installed, place: str) -> None:
    directory = installed.directory / "state"
    if place == "read-only":
        directory = Path("/proc/self")  # nobody may write there, root included
    elif place == "file":
        directory.write_text("x")
    elif place == "itself":
        directory.mkdir()
        (directory / "rank.json").mkdir()
    installed.state = directory / "rank.json"
    process = installed.execute()
    output, _ = process.communicate(timeout=30)
    answer = json.loads(output)
    assert (process.returncode, codes(answer)) == (1, ["rank.state.unwritable"])
    assert str(installed.state) in message(answer, "rank.state.unwritable")
    assert not installed.out.exists()


def test_a_full_disk_starts_nothing_and_keeps_the_old_state(installed: Installed) -> None:
    installed.state.write_text("old")
    limited = [sys.executable, "-c", LIMITED, "rank", "exec", "--cluster", str(installed.cluster)]
    more = ["--serve", installed.serve, "--fabric-env", installed.fabric, "--state", installed.state]
    answer = subprocess.run(
        [*limited, *map(str, more), "--rank", "0"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, codes(json.loads(answer.stdout))) == (1, ["rank.state.unwritable"])
    assert installed.state.read_text() == "old"
    assert not [path for path in installed.directory.iterdir() if path.name.startswith(".rank")]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("#!/no/such/python\n", "interpreter"),
        ("\x7fELFgarbage", "Exec format error"),
        ("", "Exec format error"),
    ],
)
def test_an_engine_that_cannot_be_executed(installed: Installed, content: str, told: str) -> None:
    installed.program.write_text(content)
    answer = installed.refused_after_start()
    assert codes(answer) == ["rank.release.broken"]
    assert told in message(answer, "rank.release.broken")


def test_a_command_line_that_is_too_long(installed: Installed) -> None:
    installed.write({"engine": {"args": {"chat-template": "x" * 200_000}}})
    assert codes(installed.refused_after_start()) == ["rank.argument.long"]
