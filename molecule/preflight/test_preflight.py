"""Each case: what is wrong, and the message that a person gets. Nothing may have changed on any host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shared.runs import NETWORK, Run, on, play

A = [
    {"netdev": "enp1s0f0np0", "address": "192.168.200.1/24"},
    {"netdev": "enP2p1s0f0np0", "address": "192.168.201.1/24"},
]


def preflight(
    scratch: Path, variables: dict[str, Any] | None = None, hosts: dict[str, Any] | None = None
) -> Run:
    run = play("playbooks/preflight.yml", scratch, variables, hosts)
    assert run.status != 0, run.text
    assert set(run.changed.values()) <= {0}, run.text
    return run


def rails(first: str, second: str) -> dict[str, Any]:
    return {"spark-b": {"tandem_rails": [{**A[0], "address": first}, {**A[1], "address": second}]}}


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (
            rails("192.168.200.1/24", "192.168.201.2/24"),
            ["inventory.address.duplicate", "192.168.200.1 belongs to spark-a rail 0 and to spark-b rail 0"],
        ),
        (
            rails("192.168.210.2/24", "192.168.201.2/24"),
            ["inventory.rails.subnet", "spark-a in 192.168.200.0/24, spark-b in 192.168.210.0/24"],
        ),
        (
            rails("192.168.200.2/24", "192.168.201.2"),
            ["inventory.address.prefix", "spark-b: tandem_rails[1].address is '192.168.201.2'"],
        ),
        (
            {
                "spark-b": {
                    "tandem_rails": [
                        {**A[0], "netdev": "enp9s9", "address": "192.168.200.2/24"},
                        {**A[1], "address": "192.168.201.2/24"},
                    ]
                }
            },
            [
                "host.rail.missing",
                "spark-b: has no interface enp9s9; it has enP2p1s0f0np0, enP7s7, enp1s0f0np0",
            ],
        ),
        (
            {"spark-b": {"tandem_rails": None}},
            ["inventory.rails.missing", "spark-b: tandem_rails is None"],
        ),
    ],
    ids=["duplicate address", "two subnets", "no prefix", "no such interface", "no rails"],
)
def test_rails(hosts: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    preflight(tmp_path, hosts=hosts).says(*words, "Fix:")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"tandem_release": "nowhere"}, ["release.name.unknown", "tandem_release is 'nowhere'"]),
        ({"tandem_fabric_mtu": 90000}, ["inventory.fabric.mtu", "tandem_fabric_mtu is 90000"]),
        ({"tandem_api_port": 29521}, ["inventory.port.twice", "are both 29521"]),
        ({"tandem_fabric_kind": "infiniband"}, ["tandem_fabric_kind", "infiniband"]),
        (
            {"model_weights_source_dir": "models/m"},
            ["inventory.path.relative", "model_weights_source_dir is 'models/m'"],
        ),
        ({"preflight_memory_gib": 4000}, ["host.memory.small", "spark-a:", "spark-b:", "needs 4000.0 GiB"]),
        (
            {"tandem_accelerator": "cuda"},
            ["host.platform.unsupported", "spark-a: is x86_64 with Python 3.11 (cuda)"],
        ),
        (
            {"tandem_head_group": "sparks", "tandem_workers_group": "nobody"},
            ["inventory.head.count", "it holds 2 (spark-a, spark-b)"],
        ),
    ],
    ids=["release", "mtu", "ports", "kind", "path", "memory", "accelerator", "two heads"],
)
def test_values(variables: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    preflight(tmp_path, variables).says(*words)


def test_limit_would_split_the_pair(tmp_path: Path) -> None:
    run = play("site.yml", tmp_path, None, None, "--limit", "spark-a")
    assert run.status != 0
    run.says("inventory.limit.splits_pair", "this run leaves out spark-b", "run without --limit")


def test_a_host_that_does_not_answer(tmp_path: Path) -> None:
    run = preflight(tmp_path, hosts={"spark-b": {"ansible_host": f"{NETWORK}.99"}})
    run.says(f"host.ssh.unreachable: spark-b: no ssh to spark@{NETWORK}.99", f"ssh spark@{NETWORK}.99 true")


@pytest.fixture
def plain_user() -> Iterator[str]:
    """A user on spark-b with a key and without sudo."""
    on("spark-b", "useradd -m plain; cp -a /home/spark/.ssh /home/plain/; chown -R plain: /home/plain/.ssh")
    yield "plain"
    on("spark-b", "pkill -u plain || true; sleep 1; userdel -rf plain", check=False)


def test_a_user_who_cannot_become_root(plain_user: str, tmp_path: Path) -> None:
    run = preflight(tmp_path, hosts={"spark-b": {"ansible_user": plain_user}})
    run.says("host.sudo.refused: spark-b: plain cannot become root", "-K")


@pytest.fixture
def busy_port() -> Iterator[int]:
    """Somebody else's server on spark-a."""
    on("spark-a", "systemd-run --collect --unit=somebody python3 -m http.server 18888; sleep 1")
    yield 18888
    on("spark-a", "systemctl stop somebody")


def test_a_port_that_is_taken(busy_port: int, tmp_path: Path) -> None:
    run = preflight(tmp_path, {"tandem_api_port": busy_port})
    run.says(
        "host.port.busy: spark-a: port 18888 is held by python3",
        "unit somebody.service",
        "systemctl stop somebody",
    )


@pytest.fixture
def small_disk() -> Iterator[str]:
    """A file system of 64 MiB on spark-b."""
    on("spark-b", "mkdir -p /mnt/small; mount -t tmpfs -o size=64m tmpfs /mnt/small")
    yield "/mnt/small"
    on("spark-b", "umount /mnt/small; rmdir /mnt/small")


def test_a_disk_that_is_full(small_disk: str, tmp_path: Path) -> None:
    run = preflight(tmp_path, {"tandem_install_dir": f"{small_disk}/tandem"})
    run.says("host.disk.full: spark-b: 0.1 GiB free for /mnt/small/tandem", "free space on spark-b")


@pytest.fixture
def other_architecture() -> Iterator[str]:
    """A Python on spark-b that runs under another machine personality: the kernel answers i686."""
    path = "/usr/local/bin/python3-i686"
    on(
        "spark-b",
        f"printf '#!/bin/sh\\nexec setarch i686 /usr/bin/python3 \"$@\"\\n' >{path}; chmod 755 {path}",
    )
    yield path
    on("spark-b", f"rm {path}")


def test_a_host_of_the_wrong_architecture(other_architecture: str, tmp_path: Path) -> None:
    run = preflight(tmp_path, hosts={"spark-b": {"ansible_python_interpreter": other_architecture}})
    run.says(
        "host.platform.unsupported: spark-b: is i686 with Python 3.11",
        "pair.machine.differs: the hosts differ in architecture: spark-a has x86_64, spark-b has i686",
    )


def test_no_python_on_the_host(tmp_path: Path) -> None:
    run = preflight(tmp_path, hosts={"spark-b": {"ansible_python_interpreter": "/usr/bin/python9"}})
    run.says("host.python.missing: spark-b: /usr/bin/python9 is not there")
