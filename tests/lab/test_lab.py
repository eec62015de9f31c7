"""The lab itself, on this machine: made, broken, mended, removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pair import Pair

from tandem.host_tool import build

NAME, NETWORK = "labtest", "10.231.9"
RAIL = "enp1s0f0np0"
PAIR = Pair(NAME, NETWORK)
CLUSTER: dict[str, Any] = {
    "schema": 1,
    "nodes": [
        {
            "rank": 0,
            "name": "spark-a",
            "rails": [{"address": "192.168.70.1/24", "netdev": None, "hca": None}],
        },
        {
            "rank": 1,
            "name": "spark-b",
            "rails": [{"address": "192.168.70.2/24", "netdev": None, "hca": None}],
        },
    ],
    "fabric": {"kind": "ethernet", "mtu": 9000, "gid_policy": "auto"},
    "rendezvous": {"port": 29521},
    "api": {"port": 8888},
}
tandem, on, traces = PAIR.tandem, PAIR.on, PAIR.traces


def machine_sysctls() -> dict[str, str]:
    names = (
        "vm/swappiness",
        "kernel/pid_max",
        "fs/file-max",
        "net/ipv4/ip_forward",
        "net/ipv4/conf/all/rp_filter",
    )
    return {name: Path("/proc/sys", name).read_text(encoding="utf-8").strip() for name in names}


@pytest.fixture(scope="module", autouse=True)
def lab() -> Iterator[None]:
    tandem("down")
    before = machine_sysctls()
    tandem("up", "--network", NETWORK)
    yield
    tandem("down")
    assert traces() == []
    assert machine_sysctls() == before, "a host changed this machine's kernel settings"


def test_a_second_up_finds_it_in_place() -> None:
    assert "was up already" in tandem("up", "--network", NETWORK).stdout


def test_the_hosts_are_like_sparks() -> None:
    assert on("spark-a", "hostname; systemctl is-system-running; id -un; cat /proc/1/comm").split() == [
        *("spark-a", "running", "root", "systemd")
    ]
    links = on("spark-b", "ls /sys/class/net").split()
    assert set(links) == {"lo", "enP7s7", RAIL, "enP2p1s0f0np0"}


def test_netplan_leaves_the_hardware_addresses_alone() -> None:
    """It replaces those that the kernel drew, and this machine would not find the host any more."""
    look = "cat /sys/class/net/e*/address"
    before = on("spark-b", look)
    assert before.split() == ["52:54:00:5a:02:02", "52:54:00:5a:00:02", "52:54:00:5a:01:02"]
    assert on("spark-b", f"netplan apply 2>/dev/null; {look}") == before


def test_nothing_leads_out() -> None:
    assert on("spark-a", "ip route show default; ip -6 route show default") == ""


def test_a_host_cannot_change_this_machine() -> None:
    assert on("spark-a", "sysctl -qw vm.swappiness=7 2>/dev/null && echo changed") == ""
    assert on("spark-a", "sysctl -qw net.ipv4.conf.all.rp_filter=2 && echo changed") == "changed"
    assert on("spark-a", "echo 1 >/sys/block/loop0/queue/read_ahead_kb 2>/dev/null && echo changed") == ""


def test_each_host_has_its_own_processes() -> None:
    """A shared control group would show the other host's processes as 0."""
    script = "find /sys/fs/cgroup -name cgroup.procs -exec cat {} + | sort -u | grep -cx 0"
    assert [on(host, script) for host in ("spark-a", "spark-b")] == ["0", "0"]


def test_a_question_that_is_given_up_leaves_the_callers_input_as_it_was() -> None:
    """ssh that is killed leaves it non-blocking, and Ansible refuses to run with that."""
    given, other = os.pipe()
    question = f"""
from pathlib import Path
from tandem.lab import manage, reach
from tandem.lab.client import Owner
from tandem.lab.spec import client_directory
owner = Owner(0, 0, client_directory(Path.home(), "{NAME}"))
print(reach.ask(owner, manage.existing("{NAME}").host("spark-a"), "sleep 9", timeout=1) or "given up")
"""
    asked = subprocess.run(
        [sys.executable, "-c", question], stdin=given, capture_output=True, text=True, check=True
    )
    assert asked.stdout == "given up\n"
    assert os.get_blocking(given)
    os.close(given)
    os.close(other)


def test_the_network_of_another_is_refused() -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "tandem", "lab", "up", "--name", "other", "--network", NETWORK],
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 1
    assert f"{NETWORK}.0/24 is in use on this machine already" in outcome.stderr
    assert not Path("/var/lib/tandem-lab/other").exists()


def test_a_pulled_cable_takes_the_carrier_and_keeps_the_configuration() -> None:
    configured = "ip address replace 192.168.77.{}/24 dev " + RAIL + "; ip link set " + RAIL + " up mtu 9000"
    on("spark-a", configured.format(1))
    on("spark-b", configured.format(2))
    ping = "ping -q -c 2 -W 1 -M do -s 8972 192.168.77.2 >/dev/null && echo through"
    assert on("spark-a", "sleep 0.5; " + ping) == "through"
    tandem("unplug", RAIL)
    look = f"cat /sys/class/net/{RAIL}/carrier; cat /sys/class/net/{RAIL}/mtu; ip -br address show dev {RAIL}"
    for host, address in (("spark-a", "192.168.77.1"), ("spark-b", "192.168.77.2")):
        carrier, mtu, rest = on(host, look).split(maxsplit=2)
        assert (carrier, mtu) == ("0", "9000")
        assert address in rest
    assert on("spark-a", ping) == ""
    assert PAIR.status()["cables"] == {RAIL: "pulled", "enP2p1s0f0np0": "plugged"}
    tandem("plug", RAIL)
    assert on("spark-a", "sleep 1; " + ping) == "through"


def test_a_rail_is_measured_in_both_directions(tmp_path: Path) -> None:
    """tandem-host on both hosts, with iperf3: one measures, the other serves and leaves nothing running."""
    tool, cluster = tmp_path / "tandem-host", tmp_path / "cluster.json"
    tool.write_bytes(build())
    cluster.write_text(json.dumps(CLUSTER), encoding="utf-8")
    for node in CLUSTER["nodes"]:
        host, address = node["name"], node["rails"][0]["address"]
        tandem("put", host, str(tool), "/opt/measure/tandem-host")
        tandem("put", host, str(cluster), "/opt/measure/cluster.json")
        on(host, f"ip address replace {address} dev {RAIL}; ip link set {RAIL} up mtu 9000")
    bench = "/usr/bin/python3 /opt/measure/tandem-host fabric bench --config /opt/measure/cluster.json"
    on("spark-b", f"systemd-run --quiet --collect --unit=measured --service-type=exec {bench} --serve")
    document = json.loads(on("spark-a", f"{bench} --expect-gbps 0.1"))
    assert (document["class"], document["baseline"]["compared"]) == ("good", False)
    assert [(item["test"], item["from"], item["class"]) for item in document["figures"]] == [
        ("tcp", "spark-a", "good"),
        ("tcp", "spark-b", "good"),
    ]
    assert on("spark-b", "systemctl stop measured; pgrep -c iperf3") == "0"


def test_files_arrive(tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    (folder / "one").write_text("1", encoding="utf-8")
    tandem("put", "spark-b", str(folder), "/srv/some where/new")
    assert on("spark-b", "cat '/srv/some where/new/one'; stat -c %U '/srv/some where/new/one'") == "1root"


def test_a_reboot_is_one_and_keeps_the_disk() -> None:
    before = on("spark-a", "touch /var/lib/kept; cat /proc/sys/kernel/random/boot_id")
    tandem("reboot", "spark-a")
    after = on("spark-a", "ls /var/lib/kept; cat /proc/sys/kernel/random/boot_id")
    assert after.startswith("/var/lib/kept\n")
    assert before not in after


def test_a_host_without_power_is_off_and_comes_back() -> None:
    tandem("kill", "spark-b")
    assert [host["power"] for host in PAIR.status()["hosts"]] == ["on", "off"]
    tandem("start", "spark-b")
    assert on("spark-b", "systemctl is-system-running") == "running"


def test_up_mends_what_is_missing() -> None:
    tandem("kill", "spark-a")
    tandem("kill", "spark-b")
    subprocess.run(["ip", "netns", "delete", f"tandem-{NAME}-cables"], check=True)
    assert "is up" in tandem("up", "--network", NETWORK).stdout
    assert on("spark-a", "ls /var/lib/kept") == "/var/lib/kept"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("kill", "spark-c"), "no host 'spark-c'"),
        (("unplug", "eth0"), "'eth0' is not a rail"),
        (("put", "spark-a", "/no/such/file", "/srv/x"), "/no/such/file is not there"),
        (("put", "spark-a", "/etc/hostname", "relative"), "not an absolute path"),
        (("up", "--network", "10.231.10"), "is up on 10.231.9.0/24"),
        (("up", "--network", NETWORK, "--driver", "qemu"), "is up on driver nspawn"),
        (("up", "--driver", "podman"), "no driver 'podman'; the drivers are nspawn, qemu"),
        (("up", "--cable", "0:1"), "only the hosts of --driver qemu have a second cage"),
        (("up", "--cable", "0-1"), "a cable cannot be '0-1'"),
        (("snapshot",), "containers, which keep no snapshot"),
    ],
)
def test_what_cannot_be_done_is_said(words: tuple[str, ...], message: str) -> None:
    outcome = tandem(*words, check=False)
    assert outcome.returncode == 1
    assert message in outcome.stderr
    assert "Traceback" not in outcome.stderr
