"""``fabric resolve``: GIDs, interfaces and the environment of a rank, from trees of real reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hosttree import FE80, TWINS, Config, Run, Tree, cluster_document, codes, ipv4_gid, message, v1_v2_pair

Gids = dict[int, tuple[str, str] | None]


def spark(tree: Tree, rank: int, tables: dict[str, Gids], **interface: Any) -> None:
    """Both functions of cage 0 with the addresses of a rank and the given GID tables."""
    for rail, (netdev, hca) in enumerate(TWINS.items()):
        tree.interface(netdev, f"10.0.{rail}.{rank + 1}/24", port="p0", **interface)
        tree.hca(hca, netdev, tables[hca])


def plain(address: str, first: int = 2) -> Gids:
    """The table of a host without surprises: link-local first, then IPv4."""
    return v1_v2_pair(0, FE80) | v1_v2_pair(first, ipv4_gid(address))


HEAD = {"rocep1s0f0": plain("10.0.0.1"), "roceP2p1s0f0": plain("10.0.1.1")}
# F01: a stable-privacy link-local address came between, on one HCA of the worker only.
SHIFTED: Gids = {
    **v1_v2_pair(0, FE80),
    2: ("fe80:0000:0000:0000:a1b2:c3d4:e5f6:0718", "IB/RoCE v1"),
    3: None,
    4: ("fe80:0000:0000:0000:a1b2:c3d4:e5f6:0718", "RoCE v2"),
    **v1_v2_pair(5, ipv4_gid("10.0.0.2")),
}
WORKER = {"rocep1s0f0": SHIFTED, "roceP2p1s0f0": plain("10.0.1.2")}


def indexes(document: dict[str, Any]) -> dict[str, int]:
    return {rail["hca"]: rail["gid_index"] for rail in document["rails"]}


def pinned() -> dict[str, Any]:
    return cluster_document(fabric={"kind": "roce", "mtu": 9000, "gid_policy": "pin"})


def test_f01_head(run: Run, tree: Tree, config: Config) -> None:
    spark(tree, 0, HEAD)
    status, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert status == 0
    assert document["findings"] == []
    assert document["rails"][0] == {
        "netdev": "enp1s0f0np0",
        "hca": "rocep1s0f0",
        "port": 1,
        "address": "10.0.0.1/24",
        "mtu": 9000,
        "gid_index": 3,
        "physical_port": "p0",
        "state": "ACTIVE",
    }
    assert indexes(document) == {"rocep1s0f0": 3, "roceP2p1s0f0": 3}


def test_f01_worker_has_two_indexes_and_none_in_its_environment(run: Run, tree: Tree, config: Config) -> None:
    spark(tree, 1, WORKER)
    status, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert status == 0
    assert indexes(document) == {"rocep1s0f0": 6, "roceP2p1s0f0": 3}
    assert "NCCL_IB_GID_INDEX" not in document["env"]
    assert document["env"]["NCCL_IB_ROCE_VERSION_NUM"] == "2"
    assert document["env"]["NCCL_IB_ADDR_FAMILY"] == "AF_INET"


def test_f01_worker_cannot_be_pinned(run: Run, tree: Tree, config: Config, tmp_path: Path) -> None:
    spark(tree, 1, WORKER)
    env_file = tmp_path / "fabric.env"
    env_file.write_text("NCCL_IB_GID_INDEX=3\n")
    status, document = run(
        "fabric", "resolve", "--config", config(pinned()), "--root", tree.root, "--env-file", env_file
    )
    assert (status, codes(document)) == (1, ["fabric.gid.pin"])
    assert "spark-b" in message(document, "fabric.gid.pin")
    assert "GID index 3 is EMPTY on rocep1s0f0" in message(document, "fabric.gid.pin")
    assert document["env"] == {}
    assert not env_file.exists()


def test_a_pin_that_is_right_everywhere_is_set(run: Run, tree: Tree, config: Config) -> None:
    spark(tree, 0, HEAD)
    status, document = run("fabric", "resolve", "--config", config(pinned()), "--root", tree.root)
    assert (status, document["env"]["NCCL_IB_GID_INDEX"]) == (0, "3")


@pytest.mark.parametrize(("rank", "first", "index"), [(0, 3, 4), (1, 2, 3)])
def test_f02_each_host_has_its_own_index(
    run: Run, tree: Tree, config: Config, rank: int, first: int, index: int
) -> None:
    tables = {hca: plain(f"10.0.{rail}.{rank + 1}", first) for rail, hca in enumerate(TWINS.values())}
    spark(tree, rank, tables)
    _, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert set(indexes(document).values()) == {index}


def test_f07_an_entry_that_moved_is_found_where_it_is_now(run: Run, tree: Tree, config: Config) -> None:
    moved: Gids = v1_v2_pair(0, FE80) | {2: (ipv4_gid("10.0.1.1"), "IB/RoCE v1"), 3: None}
    moved[4] = (ipv4_gid("10.0.1.1"), "RoCE v2")
    spark(tree, 0, HEAD | {"roceP2p1s0f0": moved})
    _, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert indexes(document) == {"rocep1s0f0": 3, "roceP2p1s0f0": 4}
    assert not [name for name, value in document["env"].items() if not value]


def test_f09_without_an_ipv4_v2_entry_there_is_no_index(
    run: Run, tree: Tree, config: Config, tmp_path: Path
) -> None:
    only_v1: Gids = v1_v2_pair(0, FE80) | {2: (ipv4_gid("10.0.0.1"), "IB/RoCE v1"), 3: None}
    spark(tree, 0, HEAD | {"rocep1s0f0": only_v1})
    env_file = tmp_path / "fabric.env"
    status, document = run(
        "fabric", "resolve", "--config", config(), "--root", tree.root, "--env-file", env_file
    )
    assert (status, codes(document)) == (1, ["fabric.gid.missing"])
    assert document["rails"][0]["gid_index"] is None
    assert "rocep1s0f0 port 1" in message(document, "fabric.gid.missing")
    assert not env_file.exists()


def test_an_address_of_another_interface_is_not_this_rails(run: Run, tree: Tree, config: Config) -> None:
    spark(tree, 0, HEAD)
    ndevs = tree.root / "sys/class/infiniband/rocep1s0f0/ports/1/gid_attrs/ndevs"
    (ndevs / "3").write_text("enp1s0f0np0.100\n")
    status, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert (status, codes(document)) == (1, ["fabric.gid.missing"])


def test_a_second_ipv4_address_is_a_warning(run: Run, tree: Tree, config: Config) -> None:
    spark(tree, 0, HEAD | {"rocep1s0f0": plain("10.0.0.1") | v1_v2_pair(4, ipv4_gid("10.0.0.99"))})
    status, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert (status, codes(document, "warning")) == (0, ["fabric.gid.rival"])
    assert "10.0.0.99" in message(document, "fabric.gid.rival")


def test_f11_the_cable_is_in_the_other_cage(run: Run, tree: Tree, config: Config) -> None:
    for name in ("enp1s0f0np0", "enP2p1s0f0np0"):
        tree.interface(name, carrier="0", operstate="down", port="p0")
    for rail, name in enumerate(("enp1s0f1np1", "enP2p1s0f1np1")):
        tree.interface(name, f"10.0.{rail}.1/24", port="p1")
    for hca, netdev in (("rocep1s0f0", "enp1s0f0np0"), ("roceP2p1s0f0", "enP2p1s0f0np0")):
        tree.hca(hca, netdev, v1_v2_pair(0, FE80), state="1: DOWN")
    tree.hca("rocep1s0f1", "enp1s0f1np1", plain("10.0.0.1"))
    tree.hca("roceP2p1s0f1", "enP2p1s0f1np1", plain("10.0.1.1"))
    status, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert status == 0
    assert document["env"]["NCCL_IB_HCA"] == "rocep1s0f1,roceP2p1s0f1"
    assert document["env"]["UCX_NET_DEVICES"] == "rocep1s0f1:1,roceP2p1s0f1:1"
    assert document["env"]["GLOO_SOCKET_IFNAME"] == "enp1s0f1np1"
    assert {rail["physical_port"] for rail in document["rails"]} == {"p1"}


def test_f12_ports_that_go_elsewhere_are_not_listed(run: Run, tree: Tree, config: Config) -> None:
    spark(tree, 0, HEAD)
    tree.interface("enp1s0f1np1", "192.168.100.10/24", port="p1")
    tree.hca("rocep1s0f1", "enp1s0f1np1", plain("192.168.100.10"))
    _, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert document["env"]["NCCL_IB_HCA"] == "rocep1s0f0,roceP2p1s0f0"


def test_an_exact_name_is_asked_for_where_names_begin_alike(run: Run, tree: Tree, config: Config) -> None:
    spark(tree, 0, HEAD)
    tree.interface("enp1s0f0np0.7", "10.9.0.1/24")
    tree.hca("rocep1s0f01", "enp1s0f0np0.7", plain("10.9.0.1"))
    _, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert document["env"]["NCCL_IB_HCA"] == "=rocep1s0f0,roceP2p1s0f0"
    assert document["env"]["NCCL_SOCKET_IFNAME"] == "=enp1s0f0np0"
    assert document["env"]["GLOO_SOCKET_IFNAME"] == "enp1s0f0np0"


def test_soft_roce_has_no_v1_entries_and_names_its_parent(run: Run, tree: Tree, config: Config) -> None:
    for rail, (netdev, hca) in enumerate(TWINS.items()):
        tree.interface(netdev, f"10.0.{rail}.1/24")
        empty: Gids = dict.fromkeys(range(2, 40))
        tree.hca(hca, netdev, {0: (FE80, "RoCE v2"), 1: (ipv4_gid(f"10.0.{rail}.1"), "RoCE v2"), **empty})
        tree.write(f"sys/class/infiniband/{hca}/parent", netdev)
    _, document = run("fabric", "resolve", "--config", config(kind="soft-roce"), "--root", tree.root)
    assert set(indexes(document).values()) == {1}


def test_an_ipv6_fabric(run: Run, tree: Tree, config: Config) -> None:
    document = cluster_document()
    for rank, node in enumerate(document["nodes"]):
        node["rails"] = [{"address": f"fd00::{rank + 1}/64", "netdev": None, "hca": None}]
    tree.interface("enp1s0f0np0", "fd00::1/64")
    tree.hca(
        "rocep1s0f0",
        "enp1s0f0np0",
        v1_v2_pair(0, FE80) | v1_v2_pair(2, "fd00:0000:0000:0000:0000:0000:0000:0001"),
    )
    status, answer = run("fabric", "resolve", "--config", config(document), "--root", tree.root)
    assert (status, indexes(answer)) == (0, {"rocep1s0f0": 3})
    assert answer["env"]["NCCL_IB_ADDR_FAMILY"] == "AF_INET6"
    assert answer["env"]["NCCL_SOCKET_FAMILY"] == "AF_INET6"


def test_ethernet_environment(run: Run, tree: Tree, config: Config, tmp_path: Path) -> None:
    for rail, netdev in enumerate(TWINS):
        tree.interface(netdev, f"10.0.{rail}.2/24")
    env_file = tmp_path / "fabric.env"
    status, document = run(
        "fabric", "resolve", "--config", config(kind="ethernet"), "--root", tree.root, "--env-file", env_file
    )
    assert status == 0
    assert document["env"] == {
        "GLOO_SOCKET_IFNAME": "enp1s0f0np0",
        "NCCL_IB_DISABLE": "1",
        "NCCL_NET": "Socket",
        "NCCL_SOCKET_FAMILY": "AF_INET",
        "NCCL_SOCKET_IFNAME": "enp1s0f0np0",
        "TANDEM_FABRIC_KIND": "ethernet",
        "TANDEM_MASTER_ADDR": "10.0.0.1",
        "TANDEM_MASTER_PORT": "29521",
        "TANDEM_RANK": "1",
        "TP_SOCKET_IFNAME": "enp1s0f0np0",
        "UCX_NET_DEVICES": "enp1s0f0np0,enP2p1s0f0np0",
        "VLLM_HOST_IP": "10.0.0.2",
    }
    lines = [line for line in env_file.read_text().splitlines() if not line.startswith("#")]
    assert dict(line.split("=", 1) for line in lines) == document["env"]
    assert env_file.stat().st_mode & 0o777 == 0o644
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_an_unusable_cluster_file_removes_the_environment(run: Run, tree: Tree, tmp_path: Path) -> None:
    env_file = tmp_path / "fabric.env"
    env_file.write_text("TANDEM_RANK=0\n")
    broken = tmp_path / "cluster.json"
    broken.write_text("{}")
    status, _ = run("fabric", "resolve", "--config", broken, "--root", tree.root, "--env-file", env_file)
    assert status == 1
    assert not env_file.exists()


@pytest.mark.parametrize("missing", ["hca", "netdev"])
def test_named_devices_must_be_the_ones_of_the_address(
    run: Run, tree: Tree, config: Config, missing: str
) -> None:
    spark(tree, 0, HEAD)
    document = cluster_document()
    document["nodes"][0]["rails"][0][missing] = "nowhere"
    status, answer = run("fabric", "resolve", "--config", config(document), "--root", tree.root)
    code = {"hca": "fabric.hca.mismatch", "netdev": "fabric.address.misplaced"}[missing]
    assert (status, codes(answer)) == (1, [code])
    assert "nowhere" in message(answer, code)


def test_no_rdma_device(run: Run, tree: Tree, config: Config) -> None:
    for rail, netdev in enumerate(TWINS):
        tree.interface(netdev, f"10.0.{rail}.1/24")
    status, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert (status, codes(document)) == (1, ["fabric.hca.missing", "fabric.hca.missing"])


def test_an_rdma_port_that_is_down_or_not_ethernet(run: Run, tree: Tree, config: Config) -> None:
    tree.interface("enp1s0f0np0", "10.0.0.1/24")
    tree.interface("enP2p1s0f0np0", "10.0.1.1/24")
    tree.hca("rocep1s0f0", "enp1s0f0np0", HEAD["rocep1s0f0"], state="1: DOWN")
    tree.hca("roceP2p1s0f0", "enP2p1s0f0np0", HEAD["roceP2p1s0f0"], layer="InfiniBand")
    _, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert codes(document) == ["fabric.hca.down", "fabric.hca.link_layer"]


def test_several_ports_on_one_device(run: Run, tree: Tree, config: Config) -> None:
    for rail, netdev in enumerate(TWINS):
        tree.interface(netdev, f"10.0.{rail}.1/24")
        tree.hca("mlx5_0", netdev, plain(f"10.0.{rail}.1"), port=rail + 1)
    _, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert document["env"]["NCCL_IB_HCA"] == "mlx5_0:1,mlx5_0:2"


def test_it_is_quick(run: Run, tree: Tree, config: Config) -> None:
    """A thousand slots on each HCA, as soft-RoCE has them, are read in well under the limit."""
    import time

    empty: Gids = dict.fromkeys(range(4, 1024))
    spark(tree, 0, {hca: table | empty for hca, table in HEAD.items()})
    started = time.perf_counter()
    status, _ = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert status == 0
    assert time.perf_counter() - started < 0.5


def test_the_document_is_stable(run: Run, tree: Tree, config: Config) -> None:
    spark(tree, 0, HEAD)
    first = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert json.dumps(first) == json.dumps(
        run("fabric", "resolve", "--config", config(), "--root", tree.root)
    )
