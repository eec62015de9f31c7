"""``fabric check`` and ``fabric up``: link, address, MTU, purpose of the interface, and the peers."""

from __future__ import annotations

import json
import time
from ipaddress import ip_address
from pathlib import Path

import pytest
from hosttree import TWINS, Config, Run, Tree, cluster_document, codes, message

from tandem_host.addresses import Address
from tandem_host.fabric import peers

ROUTE = peers.Route("enp1s0f0np0", "spark-b", ip_address("10.0.0.2"), 8972)


def pair(tree: Tree) -> None:
    for rail, netdev in enumerate(TWINS):
        tree.interface(netdev, f"10.0.{rail}.1/24")


def largest(tree: Tree, payloads: dict[str, int]) -> None:
    tree.write("tandem-fixture/ping.json", json.dumps(payloads))


GOOD = {"10.0.0.2": 8972, "10.0.1.2": 8972}


def test_a_good_pair(run: Run, tree: Tree, config: Config) -> None:
    pair(tree)
    largest(tree, GOOD)
    status, document = run("fabric", "check", "--config", config(kind="ethernet"), "--root", tree.root)
    assert (status, document["findings"]) == (0, [])
    assert [(answer["netdev"], answer["address"], answer["large"]) for answer in document["peers"]] == [
        ("enp1s0f0np0", "10.0.0.2", True),
        ("enP2p1s0f0np0", "10.0.1.2", True),
    ]


def test_a_copy_of_a_host_cannot_ask_peers_and_says_so(run: Run, tree: Tree, config: Config) -> None:
    pair(tree)
    status, document = run("fabric", "check", "--config", config(kind="ethernet"), "--root", tree.root)
    assert (status, codes(document, "info")) == (0, ["fabric.peer.unasked"])


def test_small_packets_alone_mean_a_wrong_mtu_on_the_way(run: Run, tree: Tree, config: Config) -> None:
    pair(tree)
    largest(tree, GOOD | {"10.0.1.2": 1472})
    status, document = run("fabric", "check", "--config", config(kind="ethernet"), "--root", tree.root)
    assert (status, codes(document)) == (1, ["fabric.path.mtu"])
    assert "enP2p1s0f0np0 -> spark-b (10.0.1.2)" in message(document, "fabric.path.mtu")


def test_a_peer_that_does_not_answer(run: Run, tree: Tree, config: Config) -> None:
    pair(tree)
    largest(tree, {"10.0.0.2": 8972})
    status, document = run("fabric", "check", "--config", config(kind="ethernet"), "--root", tree.root)
    assert (status, codes(document)) == (1, ["fabric.peer.unreachable"])


def test_up_writes_the_environment_only_when_the_peer_answers(
    run: Run, tree: Tree, config: Config, tmp_path: Path
) -> None:
    pair(tree)
    env_file = tmp_path / "fabric.env"
    arguments = (
        "fabric",
        "up",
        "--config",
        config(kind="ethernet"),
        "--root",
        tree.root,
        "--env-file",
        env_file,
    )
    largest(tree, GOOD)
    assert run(*arguments)[0] == 0
    assert "VLLM_HOST_IP=10.0.0.1\n" in env_file.read_text()
    largest(tree, {})
    status, document = run(*arguments)
    assert (status, document["env"]) == (1, {})
    assert not env_file.exists()


def test_no_rank_starts_on_rails_that_are_on_trial(
    run: Run, tree: Tree, config: Config, tmp_path: Path
) -> None:
    pair(tree)
    largest(tree, GOOD)
    tree.write("var/lib/tandem/fabric/pending.json", "{}")
    up = ("fabric", "up", "--config", config(kind="ethernet"), "--root", tree.root)
    env_file = tmp_path / "fabric.env"
    status, document = run(*up, "--env-file", env_file)
    assert (status, codes(document), document["env"]) == (1, ["fabric.change.pending"], {})
    assert not env_file.exists()


def test_link_without_carrier(run: Run, tree: Tree, config: Config) -> None:
    tree.interface("enp1s0f0np0", "10.0.0.1/24", carrier="0", operstate="down")
    tree.interface("enP2p1s0f0np0", "10.0.1.1/24")
    status, document = run("fabric", "check", "--config", config(kind="ethernet"), "--root", tree.root)
    assert (status, codes(document)) == (1, ["fabric.link.down"])
    assert "spark-a: the link of enp1s0f0np0 is DOWN" in message(document, "fabric.link.down")


def test_an_address_that_went_with_the_carrier_is_told_after_the_link(
    run: Run, tree: Tree, config: Config
) -> None:
    tree.interface("enp1s0f0np0", carrier="0", operstate="down")
    tree.interface("enP2p1s0f0np0", "10.0.1.1/24")
    cluster = cluster_document(kind="ethernet")
    cluster["nodes"][0]["rails"][0]["netdev"] = "enp1s0f0np0"
    status, document = run("fabric", "check", "--config", config(cluster), "--root", tree.root)
    assert (status, codes(document)) == (1, ["fabric.link.down", "fabric.address.missing"])


def test_carrier_of_an_interface_that_is_set_down_cannot_be_read(
    run: Run, tree: Tree, config: Config
) -> None:
    tree.interface("enp1s0f0np0", "10.0.0.1/24", operstate="down")
    (tree.root / "sys/class/net/enp1s0f0np0/carrier").unlink()
    tree.interface("enP2p1s0f0np0", "10.0.1.1/24")
    _, document = run("fabric", "check", "--config", config(kind="ethernet"), "--root", tree.root)
    assert codes(document) == ["fabric.link.down"]


def test_f18_mtu(run: Run, tree: Tree, config: Config) -> None:
    tree.interface("enp1s0f0np0", "10.0.0.1/24", mtu=1500)
    tree.interface("enP2p1s0f0np0", "10.0.1.1/24")
    status, document = run("fabric", "check", "--config", config(kind="ethernet"), "--root", tree.root)
    assert (status, codes(document)) == (1, ["fabric.mtu.mismatch"])
    assert "enp1s0f0np0 has MTU 1500, wanted 9000" in message(document, "fabric.mtu.mismatch")


def test_f01_an_address_that_was_lost(run: Run, tree: Tree, config: Config) -> None:
    tree.interface("enp1s0f0np0", "10.0.0.1/24")
    tree.interface("enP2p1s0f0np0")
    status, document = run("fabric", "check", "--config", config(kind="ethernet"), "--root", tree.root)
    assert (status, codes(document)) == (1, ["fabric.address.missing"])
    assert "10.0.1.1/24" in message(document, "fabric.address.missing")


def test_an_address_on_two_interfaces(run: Run, tree: Tree, config: Config) -> None:
    tree.interface("enp1s0f0np0", "10.0.0.1/24")
    tree.interface("enp1s0f1np1", "10.0.0.1/24")
    tree.interface("enP2p1s0f0np0", "10.0.1.1/24")
    _, document = run("fabric", "check", "--config", config(kind="ethernet"), "--root", tree.root)
    assert codes(document) == ["fabric.address.duplicate"]


def test_an_address_with_another_prefix_length(run: Run, tree: Tree, config: Config) -> None:
    tree.interface("enp1s0f0np0", "10.0.0.1/16")
    tree.interface("enP2p1s0f0np0", "10.1.1.1/24")
    _, document = run(
        "fabric", "check", "--config", config(kind="ethernet"), "--root", tree.root, "--rank", 0
    )
    assert "fabric.address.prefix" in codes(document)


def test_f25_both_functions_in_one_subnet(run: Run, tree: Tree, config: Config) -> None:
    pair(tree)
    tree.interface("enp1s0f1np1", "10.0.0.77/24")
    status, document = run("fabric", "check", "--config", config(kind="ethernet"), "--root", tree.root)
    assert (status, codes(document)) == (1, ["fabric.subnet.duplicate"])
    assert "enp1s0f1np1 holds 10.0.0.77/24" in message(document, "fabric.subnet.duplicate")


@pytest.mark.parametrize("marker", ["wireless", "phy80211"])
def test_wifi_is_no_fabric(run: Run, tree: Tree, config: Config, marker: str) -> None:
    pair(tree)
    (tree.root / f"sys/class/net/enp1s0f0np0/{marker}").mkdir()
    _, document = run("fabric", "check", "--config", config(kind="ethernet"), "--root", tree.root)
    assert codes(document) == ["fabric.link.wireless"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (
            "proc/net/route",
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
            "enp1s0f0np0\t00000000\t010000C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
            "enP2p1s0f0np0\t0001000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0",
        ),
        (
            "proc/net/ipv6_route",
            f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} 00000400 00000001 00000000 00000003 enp1s0f0np0\n"
            f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 00000001 00000000 00200200       lo",
        ),
    ],
)
def test_the_management_interface_is_no_fabric(
    run: Run, tree: Tree, config: Config, file: str, text: str
) -> None:
    pair(tree)
    tree.write(file, text)
    _, document = run("fabric", "check", "--config", config(kind="ethernet"), "--root", tree.root)
    assert codes(document) == ["fabric.link.management"]


def test_f25_a_bond_over_the_twins(run: Run, tree: Tree, config: Config) -> None:
    document = cluster_document("soft-roce")
    for rank, node in enumerate(document["nodes"]):
        node["rails"] = [{"address": f"172.16.0.{rank + 1}/30", "netdev": None, "hca": None}]
    tree.interface("bond0", "172.16.0.1/30")
    (tree.root / "sys/class/net/bond0/bonding").mkdir()
    _, answer = run("fabric", "check", "--config", config(document), "--root", tree.root)
    assert "fabric.link.bond" in codes(answer)


def test_the_peer_may_come_later() -> None:
    asked: list[int] = []

    def ping(_netdev: str, _address: Address, payload: int) -> bool:
        asked.append(payload)
        return len(asked) > 3

    (answer,) = peers.ask([ROUTE], ping, wait=10)
    assert answer.large
    assert answer.seconds > 0.9


def test_the_wait_is_bounded() -> None:
    started = time.monotonic()
    (answer,) = peers.ask([ROUTE], lambda *_: False, wait=1.5)
    assert not answer.small
    assert time.monotonic() - started < 4


def test_a_wrong_mtu_is_not_waited_for_like_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MTU_GRACE_SECONDS", 1.0)
    started = time.monotonic()
    (answer,) = peers.ask([ROUTE], lambda _netdev, _address, payload: payload == peers.SMALL, wait=60)
    assert (answer.small, answer.large) == (True, False)
    assert time.monotonic() - started < 4
