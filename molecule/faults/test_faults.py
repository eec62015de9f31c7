"""Faults in the middle of a run, one after the other on the same pair; the last word is always a good run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from shared.runs import ENVIRONMENT, NETWORK, PROJECT, Run, command, lab, on, play

HOSTS = ("spark-a", "spark-b")
SENTENCE = "Two Sparks, one server: both ranks computed this answer."
MODEL = "/var/lib/tandem/models/tandem-demo/local"


def answer() -> str:
    """What the pair says now; the empty text when it does not answer."""
    outcome = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "tandem_host",
                "probe",
                "completion",
                "--url",
                f"http://{NETWORK}.11:8888",
            ),
            *("--model", "tandem-demo", "--timeout", "20", "--max-tokens", "32"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return str(json.loads(outcome.stdout).get("text", "")) if outcome.returncode == 0 else ""


def good_run(scratch: Path) -> Run:
    """A run with nothing wrong: it must end with the pair answering."""
    run = play("site.yml", scratch)
    assert run.status == 0, run.text
    assert SENTENCE in answer()
    return run


def another_model(source: str) -> dict[str, str]:
    """The variables of a run that brings a second revision of the model, from another directory."""
    return {"tandem_model_revision": "two", "model_weights_source_dir": source}


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    run = play("site.yml", tmp_path, another_model("/srv/models/no"))
    assert run.status != 0
    run.says("weights.source.missing: spark-a: /srv/models/no/config.json is not there")
    run.says("Fix: put the checkpoint there")
    assert SENTENCE in answer(), "the pair that ran must still serve"


def test_a_model_that_is_cut_short(tmp_path: Path) -> None:
    on("spark-a", "cp -r /srv/models/tandem-demo /srv/models/cut")
    on("spark-a", "truncate -s -100 /srv/models/cut/*-00002-*.safetensors")
    run = play("site.yml", tmp_path, another_model("/srv/models/cut"))
    on("spark-a", "rm -r /srv/models/cut")
    assert run.status != 0
    run.says("spark-a", "model-00002-of-00002.safetensors", "Fix:")
    for host in HOSTS:
        assert on(host, f"cd {MODEL}/..; ls -d two two.manifest.json 2>/dev/null || true") == "", host
    assert SENTENCE in answer(), "the pair that ran must still serve"


def test_a_file_that_changed_on_the_worker(tmp_path: Path) -> None:
    """The next run finds it by its hash and brings the right bytes."""
    shard = f"{MODEL}/model-00001-of-00002.safetensors"
    wanted = on("spark-a", f"sha256sum <{shard}")
    on("spark-b", f"truncate -s -1 {shard}")
    good_run(tmp_path)
    assert on("spark-b", f"sha256sum <{shard}") == wanted


@pytest.fixture
def spoilt_wheelhouse(tmp_path: Path) -> Iterator[Path]:
    """A wheelhouse in which one wheel of every release has another byte, behind the back of the index."""
    source = Path(ENVIRONMENT.get("TANDEM_WHEELHOUSE", str(Path.home() / ".cache/tandem/wheels")))
    copy = tmp_path / "wheels"
    shutil.copytree(source, copy, copy_function=os.link)
    wheels = list(copy.glob("*/idna-*.whl"))
    assert wheels, source
    for wheel in wheels:
        times = wheel.stat()
        content = bytearray(wheel.read_bytes())
        content[len(content) // 2] ^= 1
        wheel.unlink()
        wheel.write_bytes(content)
        os.utime(wheel, ns=(times.st_atime_ns, times.st_mtime_ns))
    yield copy
    shutil.rmtree(copy)


@pytest.fixture
def second() -> Iterator[str]:
    """Another installation directory, so that a release is built while the first one serves."""
    path = "/opt/second"
    yield path
    on("spark-a", f"systemctl stop tandem-build || true; if mountpoint -q {path}; then umount {path}; fi")
    for host in HOSTS:
        on(host, f"rm -rf {path}")


def test_a_wheel_whose_hash_does_not_match(second: str, spoilt_wheelhouse: Path, tmp_path: Path) -> None:
    variables = {"tandem_install_dir": second, "stack_release_wheelhouse_dir": str(spoilt_wheelhouse)}
    run = play("site.yml", tmp_path, variables)
    assert run.status != 0
    run.says("stack.build.failed: spark-a", "idna", "Fix:")
    assert SENTENCE in answer(), "the pair that ran must still serve"


def test_a_disk_that_fills_up_while_building(second: str, tmp_path: Path) -> None:
    on("spark-a", f"mkdir -p {second}; mount -t tmpfs -o size=300m tmpfs {second}")
    run = play("site.yml", tmp_path, {"tandem_install_dir": second, "preflight_release_gib": 0.1})
    assert run.status != 0
    run.says("stack.build.failed: spark-a", "No space left on device", "Fix:")
    assert SENTENCE in answer(), "the pair that ran must still serve"


def test_arguments_that_the_server_refuses(tmp_path: Path) -> None:
    run = play("site.yml", tmp_path, {"vllm_server_engine_args": {"max-model-len": -5}})
    assert run.status != 0
    run.says("serve.start.failed: spark-a", "max", "journalctl -u tandem-rank", "Fix:")
    for host in HOSTS:
        state = on(host, "systemctl is-active tandem.target tandem-rank.service || true")
        assert "inactive" in state or "failed" in state, state
    assert answer() == "", "nothing half-started may serve"
    good_run(tmp_path)


def test_a_rank_never_starts_on_a_wrong_mtu_or_without_its_address(tmp_path: Path) -> None:
    for host in HOSTS:
        on(host, "systemctl stop tandem.target tandem-rank.service")
    # At a boot it is right to wait for what may come by itself; here it would only be time.
    unit = "/etc/systemd/system/tandem-fabric.service"
    on("spark-b", f"sed -i 's/--peer-wait [0-9]*/--peer-wait 1/' {unit}; systemctl daemon-reload")
    for harm, code, fix in (
        ("ip link set enp1s0f0np0 mtu 1500", "fabric.mtu.mismatch", "ip link set enp1s0f0np0 mtu 9000"),
        ("ip address flush dev enP2p1s0f0np0", "fabric.address.missing", "ip addr add 192.168.201.2/24 dev"),
    ):
        started = "if systemctl start tandem-rank.service; then echo it started; exit 1; fi"
        on("spark-b", f"{harm}; {started}; [ ! -e /run/tandem/fabric.env ]")
        look = "systemctl show tandem-fabric.service -p InvocationID --value"
        said = on("spark-b", f"journalctl -o cat _SYSTEMD_INVOCATION_ID=$({look})")
        assert f'"code": "{code}"' in said
        assert fix in said
        assert on("spark-b", "systemctl is-active tandem-rank.service || true") == "inactive"
    good_run(tmp_path)


def test_a_host_that_loses_power(tmp_path: Path) -> None:
    lab("kill", "spark-b")
    run = play("site.yml", tmp_path)
    assert run.status != 0
    run.says(f"host.ssh.unreachable: spark-b: no ssh to spark@{NETWORK}.12", "Fix: switch it on")
    lab("start", "spark-b")
    good_run(tmp_path)


def killed_run(task: str, scratch: Path) -> None:
    """Start site.yml and kill it, as a lost terminal would, while ``task`` runs."""
    process = subprocess.Popen(
        command("site.yml", scratch=scratch),
        cwd=PROJECT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("TASK") and task in line:
                time.sleep(3)
                return
        pytest.fail(f"the run never came to {task!r}")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_run_that_is_killed_again_and_again(tmp_path: Path) -> None:
    """From hosts without a release: each run gets further than the last one, and the last one is whole."""
    for host in HOSTS:
        on(host, "systemctl stop tandem.target; rm -rf /opt/tandem/releases/* /var/lib/tandem/models/*")
    for task in (
        "The wheels are on the builder",
        "The wheels are installed, each by its hash",
        "Python's bytecode is compiled",
        "The directory arrives",
        "The workers start",
        "The pair answers",
    ):
        # What a killed run started goes on starting: stopped, each run has something to start again.
        for host in HOSTS:
            on(host, "systemctl stop tandem.target")
        killed_run(task, tmp_path)
        if task not in ("The workers start", "The pair answers"):
            assert answer() == "", f"half a run serves after a kill at {task!r}"
    run = good_run(tmp_path)
    assert run.status == 0
    again = play("site.yml", tmp_path)
    assert again.status == 0, again.text
    assert set(again.changed.values()) == {0}, again.text
    for host in HOSTS:
        leftovers = "/run/tandem-copy /var/lib/tandem/cache/wheels-* /opt/tandem/cache/uv-*"
        assert on(host, f"ls -d {leftovers} 2>/dev/null || true") == ""
