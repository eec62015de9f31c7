"""The hosts' rules: what a host must be, and what two hosts must agree on."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.checks.preflight import (
    GIB,
    Needs,
    clock_findings,
    clock_offset,
    host_findings,
)

NEEDS = Needs(
    release="lab-cpu",
    platforms=[{"name": "p", "machine": "x86_64", "python": "3.11", "accelerator": "cpu"}],
    accelerator="cpu",
    disk_gib={"/opt/tandem": 8.0, "/var/lib/tandem": 1.0},
    memory_gib=4.0,
    ports={"tandem_api_port": 8888},
    release_ids={"spark-a": "lab-cpu-abc", "spark-b": "lab-cpu-abc"},
    rails={"spark-a": ["enp1s0f0np0"], "spark-b": ["enp1s0f0np0"]},
)


def host(**changes: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "machine": "x86_64",
        "os": {"id": "debian", "version": "12"},
        "python": "3.11",
        "time": 100.5,
        "asked_at": 100.0,
        "answered_at": 101.0,
        "memory_kib": {"MemTotal": 8 * 1024**2},
        "disks": {
            "/opt/tandem": {"free": 20 * GIB, "device": 1},
            "/var/lib/tandem": {"free": 20 * GIB, "device": 1},
        },
        "interfaces": {"lo": {}, "enp1s0f0np0": {}},
        "ports": {},
        "releases": [],
        "systemd": True,
        "machine_id": "",
        "ssh_host_keys": [],
    }
    return copy.deepcopy(facts | changes)


def findings(**changes: Any) -> dict[str, str]:
    return {
        item["code"]: item["message"]
        for item in host_findings({"spark-a": host(), "spark-b": host(**changes)}, NEEDS)
    }


def test_two_good_hosts_have_no_findings() -> None:
    assert findings() == {}


def test_f24_cloned_hosts_are_told_apart_by_their_names_only() -> None:
    clone = {"machine_id": "0f1e2d3c", "ssh_host_keys": ["SHA256:aaa", "SHA256:bbb"]}
    facts = {"spark-a": host(**clone), "spark-b": host(**clone | {"ssh_host_keys": ["SHA256:bbb"]})}
    found = host_findings(facts, NEEDS)
    assert [(item["level"], item["code"]) for item in found] == [
        ("warning", "pair.machine_id.same"),
        ("warning", "pair.ssh_key.same"),
    ]
    assert "spark-a and spark-b have the same machine-id (0f1e2d3c)" in found[0]["message"]
    assert "SHA256:bbb" in found[1]["message"]
    assert "on spark-b" in found[1]["fix"]


FULL = {"/opt/tandem": {"free": 8.5 * GIB, "device": 1}, "/var/lib/tandem": {"free": 8.5 * GIB, "device": 1}}


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"machine": "riscv64"}, "host.platform.unsupported", "spark-b: is riscv64 with Python 3.11"),
        ({"machine": "riscv64"}, "pair.machine.differs", "spark-a has x86_64, spark-b has riscv64"),
        ({"python": "3.12"}, "host.platform.unsupported", "locked for x86_64 with Python 3.11 (cpu)"),
        ({"python": "3.9"}, "host.python.old", "spark-b: /usr/bin/python3 is 3.9"),
        ({"os": {"id": "ubuntu", "version": "24.04"}}, "pair.os.differs", "spark-b has ubuntu 24.04"),
        ({"systemd": False}, "host.systemd.missing", "spark-b"),
        ({"disks": FULL}, "host.disk.full", "8.5 GiB free for /opt/tandem and /var/lib/tandem; 9.0 GiB"),
        ({"memory_kib": {"MemTotal": 2 * 1024**2}}, "host.memory.small", "spark-b: 2.0 GiB"),
        (
            {"ports": {"8888": {"pid": 7, "command": "nginx", "unit": "nginx.service"}}},
            "host.port.busy",
            "spark-b: port 8888 is held by nginx (pid 7, unit nginx.service)",
        ),
        (
            {"interfaces": {"lo": {}, "eth0": {}}},
            "host.rail.missing",
            "no interface enp1s0f0np0; it has eth0",
        ),
        ({"time": 104.6}, "pair.clock.differs", "at least 3.1 s apart"),
    ],
)
def test_an_unfit_host_is_named(changes: dict[str, Any], code: str, words: str) -> None:
    found = findings(**changes)
    assert code in found
    assert words in found[code]


def test_disks_are_counted_apart_where_they_are_apart() -> None:
    disks = {
        "/opt/tandem": {"free": 8.5 * GIB, "device": 1},
        "/var/lib/tandem": {"free": 2 * GIB, "device": 2},
    }
    assert findings(disks=disks) == {}


def test_a_host_that_holds_the_release_needs_no_room_for_it() -> None:
    assert "host.disk.full" not in findings(disks=FULL, releases=["lab-cpu-abc"])
    assert "host.disk.full" in findings(disks=FULL, releases=["lab-cpu-other"])


def test_our_own_server_may_hold_its_port() -> None:
    held = {"8888": {"pid": 7, "command": "python", "unit": "tandem-rank.service"}}
    assert findings(ports=held) == {}


@given(
    true_offset=st.floats(-1, 1),
    latency=st.floats(0, 30),
    where=st.floats(0, 1),
)
def test_a_slow_answer_never_looks_like_a_wrong_clock(
    true_offset: float, latency: float, where: float
) -> None:
    """Two clocks less than 2 s apart pass, however long the answers took."""
    slow = {"asked_at": 0.0, "answered_at": latency, "time": latency * where + true_offset}
    exact = {"asked_at": 0.0, "answered_at": 0.0, "time": 0.0}
    low, high = clock_offset(slow)
    assert low <= true_offset + 1e-6
    assert high >= true_offset - 1e-6
    assert clock_findings({"a": slow, "b": exact}, 2.0) == []
