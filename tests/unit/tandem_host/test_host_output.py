"""What becomes of the answer when nobody reads it, the disk is full, or a person presses Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hosttree import Run, codes

import tandem_host
from tandem_host import cli, files
from tandem_host.weights import manifest

SOURCE = Path(tandem_host.__file__).resolve().parents[1]
PORT = ["port", "check", "--address", "127.0.0.1", "--port", "1"]


def tool(arguments: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tandem_host", *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        **how,
    )


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """``tool`` is the program."""
    return subprocess.run(
        ["bash", "-c", f'tool() {{ "{sys.executable}" -m tandem_host "$@"; }}; {command}'],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_reader_that_went_away() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    answer = tool(PORT, stdout=writing)
    os.close(writing)
    assert (answer.returncode, answer.stderr) == (1, "")


def test_no_standard_output_at_all() -> None:
    answer = shell(f"tool {' '.join(PORT)} >&-")
    assert (answer.returncode, answer.stderr) == (0, "")
    answer = shell("tool nonsense >&- 2>&-")
    assert answer.returncode == 2


def test_a_disk_that_is_full() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        answer = tool(PORT, stdout=full)
    assert answer.returncode == 1
    assert answer.stderr == "tandem-host: the answer cannot be written: No space left on device\n"


def test_an_answer_is_ascii_whatever_the_locale() -> None:
    answer = shell("LC_ALL=C PYTHONUTF8=0 tool rank show --cluster /tmp/r\u00e4ma\u0308c.json")
    assert answer.returncode == 1
    assert answer.stdout.isascii()
    assert codes(json.loads(answer.stdout)) == ["cluster.file.missing"]


def test_names_that_are_not_text() -> None:
    answer = shell("tool weights manifest $'/tmp/\\xff\\xfe'")
    assert answer.returncode == 1
    assert codes(json.loads(answer.stdout)) == ["weights.directory.missing"]


def test_a_model_whose_files_have_names_that_are_not_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (Path(os.fsdecode(os.fsencode(tmp_path / "model") + b"/\xff\n"))).write_text("x")
    out = tmp_path / "m.json"
    assert run("weights", "manifest", tmp_path / "model", "--out", out)[0] == 0
    assert run("weights", "verify", tmp_path / "model", "--manifest", out)[0] == 0


def test_a_mistake_of_ours_is_json_too(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(manifest, "names", broken)
    status, document = run("weights", "manifest", tmp_path)
    assert (status, codes(document)) == (1, ["host.tool.failed"])
    monkeypatch.setattr(sys, "stderr", None)
    assert run("weights", "manifest", tmp_path)[0] == 1


def test_ctrl_c_while_waiting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        arguments = ["probe", "completion", "--url", url, "--model", "x", "--deadline", "60"]
        process = subprocess.Popen(
            # A test run in the background of a script ignores the signal, and so would what it starts.
            ["env", "--default-signal=INT", sys.executable, "-m", "tandem_host", *arguments],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        mute.settimeout(30)
        asked, _ = mute.accept()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
        asked.close()
    assert (process.returncode, errors) == (1, "")
    assert codes(json.loads(output)) == ["host.tool.interrupted"]


def test_an_error_of_the_disk_names_the_file_that_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for file in (tmp_path / "state", tmp_path / "none/state"):
        with pytest.raises(OSError, match=r"state'$") as caught:
            files.write_atomic(file, "new")
        assert caught.value.filename == str(file)


def test_the_package_is_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert codes(json.loads(capsys.readouterr().out)) == ["usage.arguments.invalid"]
