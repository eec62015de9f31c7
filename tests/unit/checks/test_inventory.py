"""The inventory's rules: each odd inventory, and the one finding it must give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tandem.checks.inventory import Cluster, Node, inventory_findings


def rails(number: int, subnets: tuple[int, ...] = (200, 201)) -> list[dict[str, Any]]:
    names = ["enp1s0f0np0", "enP2p1s0f0np0"]
    return [
        {"netdev": name, "address": f"192.168.{subnet}.{number}/24"}
        for name, subnet in zip(names, subnets, strict=False)
    ]


def pair(**changes: Any) -> Cluster:
    good = Cluster(
        head=["spark-a"],
        workers=["spark-b"],
        nodes=[Node("spark-a", "10.0.0.11", rails(1)), Node("spark-b", "10.0.0.12", rails(2))],
        play_hosts=["spark-a", "spark-b"],
        ports={"tandem_api_port": 8888, "tandem_rendezvous_port": 29521},
        absolute_paths={"model_weights_source_dir": "/srv/models/m"},
    )
    return replace(good, **changes)


def with_rails(first: Any, second: Any) -> Cluster:
    return pair(nodes=[Node("spark-a", "a.local", first), Node("spark-b", "b.local", second)])


def codes(cluster: Cluster) -> list[str]:
    return [item["code"] for item in inventory_findings(cluster)]


def test_a_good_pair_has_no_findings() -> None:
    assert codes(pair()) == []


def test_names_and_ipv6_rails_are_fine() -> None:
    six = [{"netdev": "enp1s0f0np0", "address": "fd00:1::1/64"}]
    other = [{"netdev": "enp1s0f0np0", "address": "fd00:1::2/64"}]
    assert codes(with_rails(six, other)) == []


@pytest.mark.parametrize(
    ("cluster", "code", "words"),
    [
        (pair(head=[]), "inventory.head.count", "holds 0 (nobody)"),
        (pair(head=["spark-a", "spark-b"], workers=[]), "inventory.head.count", "spark-a, spark-b"),
        (pair(workers=[]), "inventory.workers.empty", "no host"),
        (pair(workers=["spark-a"]), "inventory.host.twice", "spark-a"),
        (pair(play_hosts=["spark-a"]), "inventory.limit.splits_pair", "leaves out spark-b"),
        (pair(fabric_kind="infiniband"), "inventory.fabric.kind", "'infiniband'"),
        (pair(mtu=90000), "inventory.fabric.mtu", "90000"),
        (pair(mtu="jumbo"), "inventory.fabric.mtu", "'jumbo'"),
        (pair(mtu=True), "inventory.fabric.mtu", "True"),
        (pair(ports={"tandem_api_port": 80}), "inventory.port.range", "tandem_api_port is 80"),
        (pair(ports={"a": 8888, "b": "8888"}), "inventory.port.twice", "b and a are both 8888"),
        (pair(absolute_paths={"model_weights_source_dir": "models"}), "inventory.path.relative", "'models'"),
        (pair(absolute_paths={"x": "/srv/../etc"}), "inventory.path.relative", "/srv/../etc"),
        (with_rails(None, rails(2)), "inventory.rails.missing", "spark-a: tandem_rails is None"),
        (with_rails(["192.168.200.1/24"], rails(2)), "inventory.rails.shape", "spark-a: tandem_rails[0]"),
        (
            with_rails([{"netdev": "", "address": "192.168.200.1/24"}], rails(2)),
            "inventory.rails.netdev",
            "is ''",
        ),
        (
            with_rails([{"netdev": "e", "address": "192.168.200/24"}], rails(2)),
            "inventory.address.invalid",
            "192.168.200/24",
        ),
        (
            with_rails([{"netdev": "e", "address": "192.168.200.1"}], rails(2)),
            "inventory.address.prefix",
            "without a subnet",
        ),
        (
            with_rails([{"netdev": "e", "address": "192.168.200.0/24"}], rails(2)),
            "inventory.address.edge",
            "network or broadcast",
        ),
        (
            with_rails([{**rail, "netdev": "e"} for rail in rails(1)], rails(2)),
            "inventory.rails.netdev_twice",
            "uses e for two rails",
        ),
        (with_rails(rails(1)[:1], rails(2)), "inventory.rails.count", "spark-a has 1, spark-b has 2"),
        (
            with_rails(rails(1), rails(1)),
            "inventory.address.duplicate",
            "192.168.200.1 belongs to spark-a rail 0",
        ),
        (with_rails(rails(1), rails(2, (200, 202))), "inventory.rails.subnet", "rail 1 is not in one subnet"),
        (
            with_rails(rails(1, (200, 200)), rails(2, (200, 200))),
            "inventory.rails.shared_subnet",
            "share the subnet 192.168.200.0/24",
        ),
    ],
)
def test_a_bad_inventory_is_named(cluster: Cluster, code: str, words: str) -> None:
    found = {item["code"]: item["message"] for item in reversed(inventory_findings(cluster))}
    assert code in found
    assert words in found[code]


def test_management_inside_a_rail_is_refused() -> None:
    cluster = pair(nodes=[Node("spark-a", "192.168.200.9", rails(1)), Node("spark-b", "10.0.0.12", rails(2))])
    assert codes(cluster) == ["inventory.fabric.is_management"]


def test_all_problems_are_told_at_once() -> None:
    cluster = pair(head=[], mtu=1, ports={"tandem_api_port": 0})
    assert codes(cluster) == ["inventory.head.count", "inventory.fabric.mtu", "inventory.port.range"]
