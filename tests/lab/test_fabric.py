"""The rails of two hosts, changed by the playbooks while things go wrong: what was before comes back.

``tandem-fabric.service`` is not part of this pair, so its command is run as the unit would.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pair import Pair

from tandem.lab import management
from tandem.lab.spec import Lab

PROJECT = Path(__file__).parents[2]
PAIR = Pair("fabrictest", "10.231.24")
HOSTS = ("spark-a", "spark-b")
RAIL = "enp1s0f0np0"
OWN = "/etc/netplan/60-tandem-fabric.yaml"
tandem, on = PAIR.tandem, PAIR.on
ENVIRONMENT = {
    **os.environ,
    "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
    "ANSIBLE_NOCOLOR": "1",
    "TANDEM_LAB_NAME": PAIR.name,
    "TANDEM_LAB_NETWORK": PAIR.network,
}

#: What each host had before: a file of the rails alone, and one that also has another interface.
BEFORE = {
    "spark-a": (
        "/etc/netplan/40-cx7.yaml",
        "# two subnets\nnetwork:\n  version: 2\n  ethernets:\n"
        "    enp1s0f0np0: {addresses: [192.168.177.11/24], link-local: []}\n"
        "    enP2p1s0f0np0: {addresses: [192.168.178.11/24], link-local: []}\n",
    ),
    "spark-b": (
        "/etc/netplan/50-all.yaml",
        "network:\n  version: 2\n  ethernets:\n    enp1s0f0np0:\n      link-local: [ipv4]\n"
        "    # not a rail\n    eth9: {dhcp4: no, optional: yes}\n",
    ),
}
#: Bandwidth is another test's: each change of the rails would be measured for 20 s.
UNMEASURED = json.dumps({"rdma_fabric_bandwidth_gate": False})
LOOK = "cd /etc/netplan; for f in *; do stat -c '%n %a %U %Y' $f; sha256sum <$f; done"


@dataclass(frozen=True)
class Run:
    """How a playbook ended; ``text`` as one line without folding."""

    status: int
    text: str
    changed: tuple[int, ...]


def command(playbook: str, *words: str) -> list[str]:
    return ["ansible-playbook", "-i", "inventory/lab", "--extra-vars", UNMEASURED, playbook, *words]


def play(playbook: str, *words: str) -> Run:
    outcome = subprocess.run(
        command(playbook, *words),
        cwd=PROJECT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    text = outcome.stdout + outcome.stderr
    changed = tuple(int(count) for count in re.findall(r"ok=\d+\s+changed=(\d+)", text))
    return Run(outcome.returncode, re.sub(r"\s+", " ", text), changed)


def fabric(*words: str) -> Run:
    return play("playbooks/fabric.yml", *words)


def variables(**values: object) -> tuple[str, str]:
    return "--extra-vars", json.dumps(values)


def files() -> dict[str, str]:
    return {host: on(host, LOOK) for host in HOSTS}


def mtu(host: str) -> str:
    return on(host, f"cat /sys/class/net/{RAIL}/mtu")


def until(seconds: float, what: str, check: object) -> None:
    deadline = time.monotonic() + seconds
    while not check():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


def found_by_the_unit(host: str) -> list[str]:
    """The codes of what the unit's command finds wrong."""
    answer = on(
        host,
        "/opt/tandem/libexec/tandem-host fabric up --config /etc/tandem/cluster.json"
        " --env-file /run/try.env --peer-wait 2",
    )
    return [item["code"] for item in json.loads(answer)["findings"] if item["level"] == "error"]


@pytest.fixture(scope="module", autouse=True)
def pair() -> Iterator[dict[str, str]]:
    """Two hosts with rails of somebody else, and what those files were."""
    tandem("down")
    tandem("up", "--network", PAIR.network)
    for host, (path, text) in BEFORE.items():
        on(host, f"umask 077; cat >{path} <<'END'\n{text}END\ntouch -d 2026-01-02 {path}; netplan apply")
    before = files()
    run = play("site.yml", "--tags", "host,fabric")
    assert run.status == 0, run.text
    yield before
    tandem("down")


def test_the_rails_are_taken_over() -> None:
    assert "40-cx7.yaml" not in files()["spark-a"]
    assert on("spark-b", f"cat {BEFORE['spark-b'][0]}").endswith(
        "ethernets:\n    # not a rail\n    eth9: {dhcp4: no, optional: yes}"
    )
    assert {on(host, f"stat -c '%a %U' {OWN}") for host in HOSTS} == {"600 root"}
    assert [found_by_the_unit(host) for host in HOSTS] == [[], []]
    assert "192.168.177.11" not in on("spark-a", "ip -br address")


def test_a_second_run_changes_nothing_and_check_mode_tells_what_would_change() -> None:
    assert fabric().changed == (0, 0)
    run = fabric("--check", "--diff", *variables(tandem_fabric_mtu=8000))
    assert (run.status, min(run.changed) > 0) == (0, True)
    assert "- mtu: 9000 + mtu: 8000" in run.text


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (f"ip link set {RAIL} mtu 1500", "fabric.mtu.mismatch"),
        (f"ip address flush dev {RAIL}", "fabric.address.missing"),
        (f"ip link set {RAIL} down", "fabric.link.down"),
    ],
    ids=["MTU of one side", "an address removed", "a link set down"],
)
def test_what_comes_apart_is_found_by_the_unit_and_mended_by_the_next_run(harm: str, code: str) -> None:
    on("spark-b", harm)
    assert found_by_the_unit("spark-b")[0] == code
    run = fabric()
    assert run.status == 0, run.text
    assert found_by_the_unit("spark-b") == []
    assert fabric().changed == (0, 0)


def test_a_cable_that_is_out_for_a_moment() -> None:
    """It is found, and the address, whose GID would move, is not touched by it."""
    before = on("spark-a", f"ip -o address show dev {RAIL}")
    tandem("unplug", RAIL)
    until(10, "the link goes", lambda: found_by_the_unit("spark-a")[:1] == ["fabric.link.down"])
    assert on("spark-a", f"ip -o address show dev {RAIL}") == before
    tandem("plug", RAIL)
    until(10, "the link comes back", lambda: found_by_the_unit("spark-a") == [])


def test_a_cable_that_is_out_stops_the_change_and_the_old_one_comes_back() -> None:
    """The proof fails on both hosts, so nobody confirms; the message says when the hosts go back."""
    before = files()
    tandem("unplug", RAIL)
    run = fabric(
        *variables(tandem_fabric_mtu=8000, rdma_fabric_confirm_seconds=15, rdma_fabric_peer_wait_seconds=2)
    )
    tandem("plug", RAIL)
    assert run.status != 0
    assert "fabric.link.down: spark-a" in run.text
    assert re.search(
        r"go back to their former configuration by themselves: spark-a at \d\d:\d\d:\d\d, spark-b at",
        run.text,
    )
    until(20, "old files", lambda: files() == before)
    until(10, "old MTU", lambda: {mtu(host) for host in HOSTS} == {"9000"})
    assert fabric().status == 0


def test_the_control_connection_is_lost_in_the_middle() -> None:
    """The management port goes down as the change begins; ansible is told, the hosts help themselves."""
    before = files()
    lab = Lab(PAIR.name, PAIR.network)
    port = management.port(lab, lab.hosts[1])
    settings = variables(
        tandem_fabric_mtu=8000, rdma_fabric_confirm_seconds=15, rdma_fabric_reconnect_seconds=10
    )
    process = start(*settings)
    wait_for(process, "on trial")
    until(10, "the change began", lambda: "pending.json" in on("spark-b", "ls /var/lib/tandem/fabric"))
    subprocess.run(["ip", "link", "set", port, "down"], check=True)
    try:
        output = process.communicate(timeout=150)[0]
    finally:
        subprocess.run(["ip", "link", "set", port, "up"], check=True)
    assert process.returncode != 0, output
    assert "fabric.connection.lost: spark-b: no answer" in output
    assert re.search(r"spark-b at \d\d:\d\d:\d\d", output)
    until(30, "old files", lambda: files() == before)
    assert {mtu(host) for host in HOSTS} == {"9000"}


def test_a_run_that_is_killed_in_the_middle() -> None:
    before = files()
    process = start(*variables(tandem_fabric_mtu=8000, rdma_fabric_confirm_seconds=12))
    wait_for(process, "must not be split")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert files() != before
    until(30, "old files", lambda: files() == before)
    until(10, "old MTU", lambda: {mtu(host) for host in HOSTS} == {"9000"})
    assert [found_by_the_unit(host) for host in HOSTS] == [[], []], "what was proved before still starts"
    assert fabric().status == 0


def test_the_way_to_a_host_is_no_rail(tmp_path: Path) -> None:
    before = files()
    rails = [
        {"netdev": "enP7s7", "address": "192.168.200.2/24"},
        {"netdev": "enP2p1s0f0np0", "address": "192.168.201.2/24"},
    ]
    overlay = tmp_path / "overlay.yml"
    overlay.write_text(json.dumps({"all": {"hosts": {"spark-b": {"tandem_rails": rails}}}}))
    run = fabric("-i", str(overlay))
    assert run.status != 0
    assert f"fabric.link.management: spark-b: enP7s7 holds {PAIR.network}.12" in run.text
    assert files() == before
    assert fabric().status == 0


def test_power_is_cut_while_a_change_is_on_trial() -> None:
    before = files()
    on("spark-a", "sed 's/9000/8000/' /etc/tandem/cluster.json >/run/other.json")
    answer = on(
        "spark-a",
        "/opt/tandem/libexec/tandem-host fabric apply --config /run/other.json --confirm-within 900",
    )
    assert json.loads(answer)["applied"], answer
    tandem("kill", "spark-a")
    tandem("start", "spark-a")
    assert files() == before
    assert mtu("spark-a") == "9000"
    assert on("spark-a", "systemctl show -p Result --value tandem-fabric-revert.service") == "success"
    assert fabric().changed == (0, 0)


def test_netplan_refuses_another_file() -> None:
    """NetworkManager may write a file into netplan's folder that netplan itself does not take."""
    path = "/etc/netplan/90-NM-0a1b2c3d.yaml"
    on("spark-a", f"printf 'network:\\n  ethernets:\\n    eth7: {{mtu: many}}\\n' >{path}")
    before = files()
    run = fabric(*variables(tandem_fabric_mtu=8000, rdma_fabric_confirm_seconds=20))
    assert run.status != 0
    assert "fabric.netplan.failed: spark-a" in run.text
    assert path in run.text
    until(30, "old files on both", lambda: files() == before)
    on("spark-a", f"rm {path}")
    assert fabric().status == 0


def test_the_way_back(pair: dict[str, str]) -> None:
    on("spark-a", "systemd-run --unit=tandem-rank sleep 300")
    run = play("playbooks/fabric_restore.yml")
    assert run.status != 0
    assert "fabric.restore.serving: spark-a: a rank runs" in run.text
    on("spark-a", "systemctl stop tandem-rank")
    now = files()
    run = play("playbooks/fabric_restore.yml", "--check", "--diff")
    assert (run.status, min(run.changed) > 0, files()) == (0, True, now)
    assert f"--- {OWN}" in run.text
    run = play("playbooks/fabric_restore.yml")
    assert run.status == 0, run.text
    assert files() == pair
    assert "192.168.177.11" in on("spark-a", "ip -br address")
    assert on("spark-a", "ls /etc/systemd/system/tandem-fabric-revert.service 2>/dev/null") == ""
    assert play("playbooks/fabric_restore.yml").changed == (0, 0)


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("playbooks/fabric.yml", *words),
        cwd=PROJECT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for(process: subprocess.Popen[str], task: str) -> None:
    """Read on until a task of this name begins."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("TASK") and task in line:
            return
    pytest.fail(f"the run never came to {task!r}")
