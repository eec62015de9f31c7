"""The lab of virtual machines, with a cable between different cages.

RDMA over it, and a reboot of both hosts, are molecule's scenario ``fabric``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pair import Pair

PAIR = Pair("qemutest", "10.231.19", seconds=120)
UP = ("up", "--driver", "qemu", "--network", PAIR.network, "--cable", "0:1")
tandem, on = PAIR.tandem, PAIR.on

#: By host: the netdevs that the cable reaches, with their HCAs, and one of the port that it does not.
RAILS = {
    "spark-a": {"enp1s0f0np0": "rocep1s0f0", "enP2p1s0f0np0": "roceP2p1s0f0"},
    "spark-b": {"enp1s0f1np1": "rocep1s0f1", "enP2p1s0f1np1": "roceP2p1s0f1"},
}
EMPTY = {"spark-a": "enp1s0f1np1", "spark-b": "enp1s0f0np0"}
ADDRESSES = {"spark-a": ("10.77.0.1", "10.77.1.1"), "spark-b": ("10.77.0.2", "10.77.1.2")}


def netplan(host: str) -> str:
    """A script that gives the host's rails their addresses, as a person does on a Spark."""
    rails = "".join(
        f"    {netdev}: {{addresses: [{address}/24], mtu: 9000, link-local: []}}\n"
        for netdev, address in zip(RAILS[host], ADDRESSES[host], strict=True)
    )
    file = "/etc/netplan/60-rails.yaml"
    return (
        f"umask 077; cat >{file} <<'END'\nnetwork:\n  version: 2\n  ethernets:\n{rails}END\n"
        f"netplan apply; {await_carrier(host, '1')}"
    )


def await_carrier(host: str, wanted: str) -> str:
    """A script that waits up to 10 s for the first rail's carrier to be what is wanted, and prints it."""
    file = f"/sys/class/net/{next(iter(RAILS[host]))}/carrier"
    look = f'read now <{file}; [ "$now" != {wanted} ] || break; sleep 0.5'
    return f"for i in $(seq 20); do {look}; done; echo $now"


def through(rail: int) -> bool:
    """Whether full frames of 9000 bytes reach the other host, unfragmented."""
    ping = f"ping -q -c 4 -i 0.5 -W 2 -M do -s 8972 {ADDRESSES['spark-b'][rail]} >/dev/null && echo through"
    return on("spark-a", ping) == "through"


def first_rail(host: str, carrier: str) -> str:
    """The carrier and the HCA of the host's first rail, once the carrier is as wanted."""
    return on(host, f"{await_carrier(host, carrier)}; rdma link show {next(iter(RAILS[host].values()))}/1")


@pytest.fixture(scope="module", autouse=True)
def lab() -> Iterator[None]:
    tandem("down")
    tandem(*UP)
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(lambda host: on(host, netplan(host)), RAILS)) == ["1", "1"]
    yield
    tandem("down")
    assert PAIR.traces() == []


def test_a_second_up_finds_it_in_place() -> None:
    assert "was up already" in tandem(*UP).stdout
    assert PAIR.status()["driver"] == "qemu"


@pytest.mark.parametrize("host", RAILS)
def test_the_hosts_are_like_sparks(host: str) -> None:
    look = (
        "hostname; cat /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name; "
        "ls /sys/class/net; systemctl is-system-running"
    )
    name, vendor, product, *links, running = on(host, look).split()
    assert (name, vendor, product, running) == (host, "NVIDIA", "NVIDIA_DGX_Spark", "running")
    fabric = {"enp1s0f0np0", "enp1s0f1np1", "enP2p1s0f0np0", "enP2p1s0f1np1"}
    assert set(links) == {"lo", "enP7s7", *fabric}
    hcas = {
        words[1].removesuffix("/1"): words[-1] for words in map(str.split, on(host, "rdma link").splitlines())
    }
    assert hcas == {
        "rocep1s0f0": "enp1s0f0np0",
        "rocep1s0f1": "enp1s0f1np1",
        "roceP2p1s0f0": "enP2p1s0f0np0",
        "roceP2p1s0f1": "enP2p1s0f1np1",
    }
    port = on(host, f"cd /sys/class/net/{EMPTY[host]}; cat carrier phys_port_name").split()
    assert port == ["0", {"spark-a": "p1", "spark-b": "p0"}[host]]
    assert len(set(on(host, "cat /sys/class/infiniband/*/sys_image_guid").split())) == 1


def test_nothing_leads_out() -> None:
    assert on("spark-a", "ip route show default; ip -6 route show default") == ""


def test_a_pulled_cable_takes_the_carrier_of_both_ends() -> None:
    tandem("unplug", "enp1s0f1np1")  # as the worker calls it
    for host in RAILS:
        assert re.match(r"0\n.* state DOWN ", first_rail(host, "0"))
    assert not through(0)
    assert through(1)
    assert PAIR.status()["cables"] == {"enp1s0f0np0": "pulled", "enP2p1s0f0np0": "plugged"}
    tandem("plug", "enp1s0f0np0")  # as the head does
    for host in RAILS:
        assert re.match(r"1\n.* state ACTIVE ", first_rail(host, "1"))
    assert through(0)


def test_a_snapshot_brings_memory_disk_and_cables_back() -> None:
    before = on(
        "spark-a", "echo kept >/run/memory; echo kept >/root/disk; cat /proc/sys/kernel/random/boot_id"
    )
    tandem("snapshot")
    on("spark-a", "rm /run/memory /root/disk")
    tandem("kill", "spark-b")
    tandem("unplug", "enP2p1s0f0np0")
    tandem("restore")
    look = "cat /run/memory /root/disk /proc/sys/kernel/random/boot_id; date +%s"
    *kept, boot, now = on("spark-a", look).split()
    assert (kept, boot) == (["kept", "kept"], before)
    assert abs(int(now) - time.time()) < 30
    assert through(0)
    assert through(1)


def test_a_host_without_power_is_off_and_comes_back_to_a_cable_that_was_pulled() -> None:
    tandem("kill", "spark-b")
    assert [host["power"] for host in PAIR.status()["hosts"]] == ["on", "off"]
    tandem("unplug", "enp1s0f0np0")
    tandem("start", "spark-b")
    assert on("spark-b", "systemctl is-system-running; ls /etc/netplan").split() == [
        *("running", "10-management.yaml", "60-rails.yaml")
    ]
    assert on("spark-b", await_carrier("spark-b", "0")) == "0"
    assert through(1)
    tandem("plug", "enp1s0f0np0")
    assert on("spark-b", await_carrier("spark-b", "1")) == "1"
    assert through(0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("kill", "spark-c"), "no host 'spark-c'"),
        (("unplug", "eth0"), "the rails are enp1s0f0np0, enp1s0f1np1, enP2p1s0f0np0, enP2p1s0f1np1"),
        (("up", "--network", PAIR.network), "is up on driver qemu"),
        ((*UP[:-1], "0:0"), "is up on cable 0:1"),
    ],
)
def test_what_cannot_be_done_is_said(words: tuple[str, ...], message: str) -> None:
    outcome = tandem(*words, check=False)
    assert outcome.returncode == 1
    assert message in outcome.stderr
    assert "Traceback" not in outcome.stderr
