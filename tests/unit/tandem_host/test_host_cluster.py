"""cluster.json: every way to write it wrong is one finding, and the exit status is 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hosttree import Config, Run, Tree, cluster_document, codes, message

from tandem_host import cluster
from tandem_host.findings import UnusableError


def test_the_cluster_of_the_design_is_read_in_order_of_rank(config: Config) -> None:
    document = cluster_document()
    document["nodes"].reverse()
    read = cluster.read(config(document))
    assert [node.name for node in read.nodes] == ["spark-a", "spark-b"]
    assert str(read.master_address) == "10.0.0.1"
    assert (read.rendezvous_port, read.api_port, read.fabric.mtu) == (29521, 8888, 9000)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The document with the value at a path like ``nodes.1.name`` replaced, or removed for ``...``."""
    document = cluster_document()
    *parents, last = path.split(".")
    place: Any = document
    for name in parents:
        place = place[int(name) if name.isdecimal() else name]
    key: Any = int(last) if last.isdecimal() else last
    if value is ...:
        del place[key]
    else:
        place[key] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "code", "told"),
    [
        ("fabric.speed", 200, "cluster.field.unknown", "fabric.speed"),
        ("fabric.mtu", ..., "cluster.field.missing", "fabric.mtu"),
        ("fabric.mtu", "9000", "cluster.field.invalid", '"9000"'),
        ("fabric.mtu", 576, "cluster.field.invalid", "576"),
        ("fabric.mtu", True, "cluster.field.invalid", "true"),
        ("fabric.kind", "infiniband", "cluster.field.invalid", "infiniband"),
        ("fabric.gid_policy", 3, "cluster.field.invalid", "fabric.gid_policy"),
        ("schema", 2, "cluster.field.invalid", "schema"),
        ("nodes", [], "cluster.field.invalid", "empty list"),
        ("nodes.1", "spark-b", "cluster.field.invalid", "nodes[1]"),
        ("nodes.0.rails.0.netdev", "", "cluster.field.invalid", "nodes[0].rails[0].netdev"),
        ("nodes.0.rails.0.address", "10.0.0.1", "cluster.field.invalid", "prefix length"),
        ("nodes.0.rails.0.address", "10.0.0.256/24", "cluster.field.invalid", "10.0.0.256/24"),
        ("nodes.0.rails.0.address", "127.0.0.1/8", "cluster.field.invalid", "no other host can reach it"),
        ("nodes.0.rails.0.address", "10.0.0.0/24", "cluster.field.invalid", "network's own address"),
        ("nodes.0.rails.0.address", "10.0.0.255/24", "cluster.field.invalid", "broadcast"),
        ("nodes.0.rails.0.address", "10.0.0.1/32", "cluster.field.invalid", "no peer"),
        ("nodes.1.rank", 0, "cluster.rank.duplicate", "spark-a, spark-b"),
        ("nodes.1.rank", 2, "cluster.rank.gap", "0, 2"),
        ("nodes.1.name", "spark-a", "cluster.name.duplicate", "spark-a"),
        ("nodes.1.rails.0.address", "10.0.0.1/24", "cluster.address.duplicate", "10.0.0.1"),
        ("nodes.1.rails.0.address", "10.0.9.2/24", "cluster.subnet.mismatch", "10.0.9.2/24"),
        ("nodes.1.rails.0.address", "10.0.0.2/25", "cluster.subnet.mismatch", "10.0.0.2/25"),
        ("nodes.1.rails.1.address", "10.0.0.3/24", "cluster.subnet.duplicate", "10.0.0.3/24"),
        ("nodes.1.rails.1", ..., "cluster.rails.uneven", "spark-b has 1"),
        ("rendezvous.port", 8888, "cluster.port.duplicate", "8888"),
    ],
)
def test_what_is_wrong_is_named(config: Config, path: str, value: Any, code: str, told: str) -> None:
    file = config(changed(path, value))
    with pytest.raises(UnusableError) as caught:
        cluster.read(file)
    found = {item.code: item.message for item in caught.value.findings}
    assert code in found
    assert told in found[code]
    assert str(file) in found[code]


def test_all_problems_are_reported_together(config: Config) -> None:
    document = cluster_document()
    document["fabric"] = {"kind": "token-ring", "mtu": 1, "gid_policy": "auto"}
    document["nodes"][0]["colour"] = "green"
    with pytest.raises(UnusableError) as caught:
        cluster.read(config(document))
    assert len(caught.value.findings) == 3


def test_an_hca_without_rdma_is_a_contradiction(config: Config) -> None:
    document = cluster_document("ethernet")
    document["nodes"][0]["rails"][0]["hca"] = "rocep1s0f0"
    with pytest.raises(UnusableError, match=r"cluster\.hca\.unused.*rocep1s0f0"):
        cluster.read(config(document))


def test_the_same_interface_twice_is_refused(config: Config) -> None:
    document = cluster_document()
    for rail in document["nodes"][0]["rails"]:
        rail["netdev"] = "enp1s0f0np0"
    with pytest.raises(UnusableError, match=r"cluster\.netdev\.duplicate.*enp1s0f0np0"):
        cluster.read(config(document))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "cluster.file.invalid"),
        ("[]", "cluster.file.invalid"),
        ('{"schema": 1, "schema": 1}', "cluster.file.invalid"),
    ],
)
def test_a_file_that_is_no_json_object(run: Run, tree: Tree, tmp_path: Path, text: str, code: str) -> None:
    file = tmp_path / "broken.json"
    file.write_text(text)
    status, document = run("fabric", "resolve", "--config", file, "--root", tree.root)
    assert (status, codes(document)) == (1, [code])
    assert str(file) in message(document, code)


def test_a_missing_file(run: Run, tree: Tree, tmp_path: Path) -> None:
    status, document = run("fabric", "resolve", "--config", tmp_path / "none.json", "--root", tree.root)
    assert (status, codes(document)) == (1, ["cluster.file.missing"])


def test_own_rank_is_the_node_whose_address_this_host_holds(run: Run, tree: Tree, config: Config) -> None:
    tree.interface("enp1s0f0np0", "10.0.0.2/24")
    tree.interface("enP2p1s0f0np0", "10.0.1.2/24")
    _, document = run("fabric", "resolve", "--config", config(kind="ethernet"), "--root", tree.root)
    assert (document["host"], document["rank"]) == ("spark-b", 1)


def test_no_own_rank_without_an_address(run: Run, tree: Tree, config: Config) -> None:
    tree.interface("eth0", "192.0.2.7/24")
    status, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert (status, codes(document)) == (1, ["cluster.rank.undecided"])
    assert "10.0.0.1 (spark-a)" in message(document, "cluster.rank.undecided")


def test_addresses_of_two_hosts_leave_the_rank_open(run: Run, tree: Tree, config: Config) -> None:
    tree.interface("enp1s0f0np0", "10.0.0.1/24", "10.0.0.2/24")
    status, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert (status, codes(document)) == (1, ["cluster.rank.undecided"])


def test_a_rank_that_does_not_exist(run: Run, tree: Tree, config: Config) -> None:
    status, document = run("fabric", "resolve", "--config", config(), "--root", tree.root, "--rank", 2)
    assert (status, codes(document)) == (2, ["cluster.rank.unknown"])


def test_bad_usage_is_json_too(run: Run) -> None:
    for arguments in (
        ["fabric"],
        ["fabric", "bend"],
        ["no-such-area"],
        ["fabric", "resolve", "--rank", "x"],
        [],
    ):
        status, document = run(*arguments)
        assert (status, codes(document)) == (2, ["usage.arguments.invalid"])


def test_the_recorded_addresses_must_be_the_output_of_ip(run: Run, tree: Tree, config: Config) -> None:
    tree.write("tandem-fixture/ip-addr.json", json.dumps({"ifname": "lo"}))
    status, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert (status, codes(document)) == (1, ["host.addresses.invalid"])
