"""What ``fabric check`` looks at around the rails: links, leftovers, limits, routes, GIDs that moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hosttree import Config, Run, Tree, cluster_document, codes, ipv4_gid, message, v1_v2_pair
from sparktree import FE80, Spark, plain, recorded

RAILS = {"enp1s0f0np0": "10.0.0.1/24", "enP2p1s0f0np0": "10.0.1.1/24"}
ACCOUNTS = "root:x:0:0::/root:/bin/bash\ntandem:x:990:990::/var/lib/tandem:/usr/sbin/nologin"


def check(run: Run, tree: Tree, config: Path, *more: object) -> dict[str, Any]:
    status, document = run("fabric", "check", "--config", config, "--root", tree.root, *more)
    assert status == int(bool(codes(document)))
    return document


@pytest.fixture
def spark(tree: Tree) -> Tree:
    """A good Spark whose peer answers."""
    Spark(tree, addresses=RAILS).build()
    tree.write("tandem-fixture/ping.json", json.dumps({"10.0.0.2": 8972, "10.0.1.2": 8972}))
    tree.write("etc/passwd", ACCOUNTS)
    tree.write(
        "proc/self/limits", "Max locked memory         unlimited            unlimited            bytes"
    )
    return tree


def test_a_good_spark_has_no_findings(run: Run, spark: Tree, config: Config) -> None:
    document = check(run, spark, config())
    assert document["findings"] == []
    assert document["env"] != {}


@pytest.mark.parametrize(
    ("path", "text", "level", "code", "words"),
    [
        ("etc/nvidia/cx7-hotplug-enabled", "", "warning", "fabric.hotplug.armed", "cx7-hotplug-enabled"),
        ("etc/nccl.conf", "NCCL_DEBUG=INFO", "warning", "fabric.nccl_file.present", "NCCL_DEBUG"),
        ("etc/nccl.conf", "NCCL_IB_GID_INDEX=3", "error", "fabric.nccl_file.harmful", "NCCL_IB_GID_INDEX=3"),
        ("etc/nccl.conf", "NCCL_IB_GID_INDEX=", "error", "fabric.nccl_file.harmful", "NCCL_IB_GID_INDEX="),
        ("etc/nccl.conf", "NCCL_IB_GID_INDEX = -1", "warning", "fabric.nccl_file.present", "GID_INDEX"),
        ("etc/nccl.conf", "NCCL_IB_USE_INLINE=1", "error", "fabric.nccl_file.harmful", "USE_INLINE=1"),
        ("etc/nccl.conf", "NCCL_IB_USE_INLINE=0", "warning", "fabric.nccl_file.present", "/etc/nccl.conf"),
        (
            "var/lib/tandem/.nccl.conf",
            "NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS=1",
            "error",
            "fabric.nccl_file.harmful",
            "/var/lib/tandem/.nccl.conf",
        ),
        ("etc/environment", 'NCCL_IB_HCA="rocep1s0f1"', "warning", "fabric.profile.variable", "NCCL_IB_HCA"),
        ("etc/profile", "export GLOO_SOCKET_IFNAME=x", "warning", "fabric.profile.variable", "GLOO_"),
        ("etc/profile.d/nccl.sh", "export UCX_TLS=tcp", "warning", "fabric.profile.variable", "nccl.sh"),
        ("etc/environment.d/9.conf", "NCCL_NET=IB", "warning", "fabric.profile.variable", "9.conf"),
        (
            "etc/systemd/system.conf.d/nccl.conf",
            '[Manager]\nDefaultEnvironment="A=1" \\\n  "NCCL_IB_GID_INDEX=3"',
            "warning",
            "fabric.manager.variable",
            "nccl.conf sets NCCL_IB_GID_INDEX",
        ),
        ("etc/systemd/system.conf", "DefaultEnvironment=UCX_A=1", "warning", "fabric.manager.variable", "A"),
    ],
)  # fmt: skip
def test_what_somebody_left_on_the_host(
    run: Run, spark: Tree, config: Config, path: str, text: str, level: str, code: str, words: str
) -> None:
    spark.write(path, text)
    document = check(run, spark, config())
    assert [(item["level"], item["code"]) for item in document["findings"]] == [(level, code)]
    assert words in message(document, code)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("etc/nccl.conf", "# NCCL_IB_GID_INDEX=3\n"),
        ("etc/profile", "# export NCCL_DEBUG=INFO\nPATH=/bin"),
        ("etc/systemd/system.conf", "#DefaultEnvironment=NCCL_NET=IB\nDefaultLimitMEMLOCK=8M"),
        ("home/somebody/.nccl.conf", "NCCL_IB_GID_INDEX=3"),
    ],
)
def test_what_does_not_count(run: Run, spark: Tree, config: Config, path: str, text: str) -> None:
    spark.write(path, text)
    assert check(run, spark, config())["findings"] == []


def test_a_pinned_index_wins_over_the_file(run: Run, spark: Tree, config: Config) -> None:
    spark.write("etc/nccl.conf", "NCCL_IB_GID_INDEX=5")
    pinned = cluster_document(fabric={"kind": "roce", "mtu": 9000, "gid_policy": "pin"})
    document = check(run, spark, config(pinned))
    assert (codes(document), codes(document, "warning")) == ([], ["fabric.nccl_file.present"])


@pytest.mark.parametrize(
    ("limit", "capabilities", "level"),
    [
        ("8388608", "0000000000000000", "error"),
        ("8388608", "000001ffffffffff", ""),
        ("2147483648", "0", ""),
    ],
)
def test_memory_that_may_be_locked(
    run: Run, spark: Tree, config: Config, limit: str, capabilities: str, level: str
) -> None:
    line = f"Max locked memory         {limit}              {limit}              bytes"
    spark.write("proc/self/limits", f"Max stack size  8388608  unlimited  bytes\n{line}")
    spark.write("proc/self/status", f"Name:\tpython3\nCapEff:\t{capabilities}")
    document = check(run, spark, config())
    assert [item["level"] for item in document["findings"]] == ([level] if level else [])
    if level:
        assert "may lock 8 MiB" in message(document, "fabric.memlock.small")


def test_ethernet_needs_no_locked_memory_and_no_device_files(run: Run, spark: Tree, config: Config) -> None:
    spark.write("proc/self/limits", "Max locked memory  65536  65536  bytes")
    for file in (spark.root / "dev/infiniband").iterdir():
        file.unlink()
    assert check(run, spark, config(kind="ethernet"))["findings"] == []


def test_an_hca_that_cannot_be_opened(run: Run, spark: Tree, config: Config) -> None:
    owner = {
        file.parent.name: file.read_text().strip()
        for file in spark.root.glob("sys/class/infiniband_verbs/*/ibdev")
    }
    lost = next(name for name, hca in owner.items() if hca == "roceP2p1s0f0")
    (spark.root / "dev/infiniband" / lost).unlink()
    document = check(run, spark, config())
    assert codes(document) == ["fabric.device.missing"]
    assert f"/dev/infiniband/{lost} of roceP2p1s0f0" in message(document, "fabric.device.missing")


def test_no_device_files_at_all(run: Run, spark: Tree, config: Config) -> None:
    for file in (spark.root / "dev/infiniband").iterdir():
        file.unlink()
    document = check(run, spark, config())
    assert set(codes(document)) == {"fabric.device.missing"}
    assert codes(document, "warning") == ["fabric.device.rdma_cm"]


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("current_link_width", "2", "is x2 at 32 GT/s, it could be x4 at 32 GT/s"),
        ("current_link_speed", "16.0 GT/s PCIe", "is x4 at 16 GT/s, it could be x4 at 32 GT/s"),
    ],
)
def test_a_reduced_pcie_link(
    run: Run, spark: Tree, config: Config, attribute: str, value: str, words: str
) -> None:
    spark.write(f"sys/class/net/enP2p1s0f0np0/device/{attribute}", value)
    document = check(run, spark, config())
    assert codes(document, "warning") == ["fabric.pcie.reduced"]
    assert f"enP2p1s0f0np0 (0002:01:00.0) {words}" in message(document, "fabric.pcie.reduced")


@pytest.mark.parametrize(("port_lanes", "found"), [("8", ["fabric.pcie.reduced"]), ("4", [])])
def test_another_card_is_as_wide_as_card_and_slot_allow(
    run: Run, spark: Tree, config: Config, port_lanes: str, found: list[str]
) -> None:
    place = "sys/class/net/enp1s0f0np0/device"
    spark.write(f"{place}/uevent", "DRIVER=ice\nPCI_ID=8086:1592\nPCI_SLOT_NAME=0000:01:00.0")
    (spark.root / place).resolve().parent.joinpath("max_link_width").write_text(port_lanes)
    assert codes(check(run, spark, config()), "warning") == found


@pytest.mark.parametrize(
    ("route", "code"),
    [
        ({"dst": "10.0.1.2", "from": "10.0.1.1", "dev": "enp1s0f0np0"}, ["fabric.route.elsewhere"]),
        ({"dst": "10.0.1.2", "from": "10.0.1.1", "dev": "enP2p1s0f0np0"}, []),
        ({"dst": "10.0.1.9", "dev": "enP2p1s0f0np0"}, ["fabric.route.missing"]),
    ],
)
def test_the_route_to_a_peer(
    run: Run, spark: Tree, config: Config, route: dict[str, str], code: list[str]
) -> None:
    recorded(spark, "ip-route-get.json", [{"dst": "10.0.0.2", "dev": "enp1s0f0np0"}, route])
    assert codes(check(run, spark, config())) == code


def test_f20_a_healthy_rail(run: Run, spark: Tree, config: Config) -> None:
    routes = [
        {"dst": f"10.0.{rail}.2", "from": f"10.0.{rail}.1", "dev": name} for rail, name in enumerate(RAILS)
    ]
    recorded(spark, "ip-route-get.json", routes)
    document = check(run, spark, config())
    assert document["findings"] == []
    assert [answer["payload"] for answer in document["peers"]] == [8972, 8972]


@pytest.mark.parametrize(("active", "found"), [(4096, []), (1024, ["fabric.mtu.active"])])
def test_the_mtu_that_the_hca_uses(
    run: Run, spark: Tree, config: Config, active: int, found: list[str]
) -> None:
    text = (
        "hca_id:\trocep1s0f0\n\ttransport:\t\tInfiniBand (0)\n\t\tport:\t1\n\t\t\tstate:\t\tPORT_ACTIVE (4)\n"
        "\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t4096 (5)\n"
        f"hca_id:\troceP2p1s0f0\n\t\tport:\t1\n\t\t\tactive_mtu:\t\t{active} (3)\n"
    )
    spark.write("tandem-fixture/ibv_devinfo.txt", text)
    document = check(run, spark, config())
    assert codes(document, "warning") == found
    if found:
        assert "roceP2p1s0f0 port 1 has an active MTU of 1024" in message(document, found[0])


def test_f18_an_mtu_of_1500_and_what_the_hca_makes_of_it(run: Run, tree: Tree, config: Config) -> None:
    """The small active MTU is right for this interface, so only the interface is told."""
    Spark(tree, addresses={"enp1s0f1np1": "192.168.100.10/24"}, cabled=["p1"], mtu=1500).build()
    tree.write("tandem-fixture/ibv_devinfo.txt", "hca_id:\trocep1s0f1\n\tport:\t1\n\tactive_mtu:\t1024 (3)")
    document = cluster_document()
    for rank, node in enumerate(document["nodes"]):
        node["rails"] = [{"address": f"192.168.100.1{rank}/24", "netdev": None, "hca": None}]
    answer = check(run, tree, config(document))
    assert (codes(answer), codes(answer, "warning")) == (["fabric.mtu.mismatch"], [])
    assert "enp1s0f1np1 has MTU 1500, wanted 9000" in message(answer, "fabric.mtu.mismatch")


def test_f14_without_a_default_route_the_first_rail_is_used(run: Run, tree: Tree, config: Config) -> None:
    Spark(tree, addresses={"enp1s0f0np0": "10.20.3.3/24", "enP2p1s0f0np0": "10.20.4.3/24"}).build()
    tree.write("proc/net/route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask")
    document = cluster_document()
    for rank, node in enumerate(document["nodes"]):
        node["rails"] = [
            {"address": f"10.20.{net}.{3 + rank}/24", "netdev": None, "hca": None} for net in (3, 4)
        ]
    env = check(run, tree, config(document))["env"]
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
    assert {env[name] for name in names} == {"enp1s0f0np0"}


def start(run: Run, tree: Tree, config: Path, directory: Path) -> tuple[int, dict[str, Any]]:
    return run(
        "fabric", "up", "--config", config, "--root", tree.root, "--env-file", directory / "fabric.env"
    )


def test_f07_a_gid_that_moved_since_the_last_start(
    run: Run, spark: Tree, config: Config, tmp_path: Path
) -> None:
    assert start(run, spark, config(), tmp_path)[0] == 0
    assert check(run, spark, config(), "--record", tmp_path / "fabric.json")["findings"] == []
    gids = spark.root / "sys/class/infiniband/roceP2p1s0f0/ports/1"
    for name in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (gids / name / "4").write_text((gids / name / "3").read_text())
    (gids / "gids/3").write_text("0000:0000:0000:0000:0000:0000:0000:0000\n")
    document = check(run, spark, config(), "--record", tmp_path / "fabric.json")
    assert codes(document, "warning") == ["fabric.gid.moved"]
    assert "on roceP2p1s0f0 port 1 moved 3 -> 4" in message(document, "fabric.gid.moved")
    assert "NCCL_IB_GID_INDEX" not in document["env"]
    # The next start tells it once more and then knows the new place.
    assert codes(start(run, spark, config(), tmp_path)[1], "warning") == ["fabric.gid.moved"]
    assert start(run, spark, config(), tmp_path)[1]["findings"] == []


def test_a_gid_that_is_gone_stops_the_next_start(
    run: Run, spark: Tree, config: Config, tmp_path: Path
) -> None:
    assert start(run, spark, config(), tmp_path)[0] == 0
    assert (tmp_path / "fabric.env").exists()
    gids = spark.root / "sys/class/infiniband/roceP2p1s0f0/ports/1"
    (gids / "gids/3").write_text("0000:0000:0000:0000:0000:0000:0000:0000\n")
    (gids / "gid_attrs/types/3").unlink()
    status, document = start(run, spark, config(), tmp_path)
    assert (status, codes(document), document["env"]) == (1, ["fabric.gid.missing"], {})
    text = message(document, "fabric.gid.missing")
    assert text.startswith("spark-a: roceP2p1s0f0 port 1 has no RoCE v2 GID for 10.0.1.1")
    assert not (tmp_path / "fabric.env").exists()


def test_a_start_that_fails_leaves_the_record_of_the_last_good_one(
    run: Run, spark: Tree, config: Config, tmp_path: Path
) -> None:
    start(run, spark, config(), tmp_path)
    before = (tmp_path / "fabric.json").read_text()
    spark.write("sys/class/net/enp1s0f0np0/mtu", "1500")
    assert start(run, spark, config(), tmp_path)[0] == 1
    assert (tmp_path / "fabric.json").read_text() == before
    assert not (tmp_path / "fabric.env").exists()


def test_a_second_entry_for_the_address_is_no_move(
    run: Run, tree: Tree, config: Config, tmp_path: Path
) -> None:
    both = plain("10.0.0.1") | v1_v2_pair(4, ipv4_gid("10.0.0.1"))
    Spark(tree, addresses=RAILS, gids={"rocep1s0f0": both}).build()
    rail = {"hca": "rocep1s0f0", "port": 1, "gid_index": 5}
    record = tmp_path / "fabric.json"
    record.write_text(json.dumps({"rails": [rail]}))
    assert codes(check(run, tree, config(), "--record", record), "warning") == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"rails": 3}', '{"rails": [{"hca": "x"}]}', '{"rails": ["x"]}']
)
def test_a_damaged_record_stops_nothing(
    run: Run, spark: Tree, config: Config, tmp_path: Path, text: str
) -> None:
    (tmp_path / "fabric.json").write_text(text)
    status, document = start(run, spark, config(), tmp_path)
    assert (status, codes(document, "warning")) == (0, ["fabric.record.invalid"])
    assert start(run, spark, config(), tmp_path)[1]["findings"] == []


def test_the_record_of_a_tree_is_in_the_tree(run: Run, spark: Tree, config: Config) -> None:
    rail = {"hca": "rocep1s0f0", "port": 1, "gid_index": 7}
    spark.write("run/tandem/fabric.json", json.dumps({"rails": [rail]}))
    assert codes(check(run, spark, config()), "warning") == ["fabric.gid.moved"]


def test_f05_a_table_that_begins_at_four(run: Run, tree: Tree, config: Config) -> None:
    table = v1_v2_pair(4, FE80) | v1_v2_pair(6, ipv4_gid("10.0.0.1"))
    Spark(tree, addresses=RAILS, gids={"rocep1s0f0": table}).build()
    _, document = run("fabric", "resolve", "--config", config(), "--root", tree.root)
    assert [rail["gid_index"] for rail in document["rails"]] == [7, 3]


def test_f04_a_public_address(run: Run, tree: Tree, config: Config) -> None:
    Spark(tree, addresses={"enp1s0f0np0": "200.0.209.6/24"}).build()
    document = cluster_document()
    for rank, node in enumerate(document["nodes"]):
        node["rails"] = [{"address": f"200.0.209.{6 + rank}/24", "netdev": None, "hca": None}]
    _, answer = run("fabric", "resolve", "--config", config(document), "--root", tree.root)
    assert answer["rails"][0]["gid_index"] == 3


def test_the_environment_of_two_rdma_rails(run: Run, spark: Tree, config: Config) -> None:
    """All of it, so that a change shows."""
    assert check(run, spark, config())["env"] == {
        "GLOO_SOCKET_IFNAME": "enp1s0f0np0",
        "NCCL_IB_ADDR_FAMILY": "AF_INET",
        "NCCL_IB_DISABLE": "0",
        "NCCL_IB_HCA": "rocep1s0f0,roceP2p1s0f0",
        "NCCL_IB_ROCE_VERSION_NUM": "2",
        "NCCL_NET": "IB",
        "NCCL_SOCKET_FAMILY": "AF_INET",
        "NCCL_SOCKET_IFNAME": "enp1s0f0np0",
        "TANDEM_FABRIC_KIND": "roce",
        "TANDEM_MASTER_ADDR": "10.0.0.1",
        "TANDEM_MASTER_PORT": "29521",
        "TANDEM_RANK": "0",
        "TP_SOCKET_IFNAME": "enp1s0f0np0",
        "UCX_NET_DEVICES": "rocep1s0f0:1,roceP2p1s0f0:1",
        "VLLM_HOST_IP": "10.0.0.1",
    }
