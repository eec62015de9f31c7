"""``fabric lint``: environments that people pasted, and logs of NCCL, against a Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hosttree import FE80, Config, Run, Tree, codes, ipv4_gid, message, v1_v2_pair
from sparktree import Gids, Spark

from tandem_host.fabric.hcas import HcaPort
from tandem_host.fabric.lint import nccl_log, selectors, settings

RAILS_P0 = {"enp1s0f0np0": "10.0.0.1/24", "enP2p1s0f0np0": "10.0.1.1/24"}
RAILS_P1 = {"enp1s0f1np1": "10.0.0.1/24", "enP2p1s0f1np1": "10.0.1.1/24"}


@pytest.fixture
def spark(tree: Tree) -> Tree:
    """A Spark with its cable in cage 0."""
    Spark(tree, addresses=RAILS_P0).build()
    return tree


def lint(run: Run, tree: Tree, text: str, *more: object) -> dict[str, Any]:
    file = tree.root.parent / "pasted.env"
    file.write_text(text)
    status, document = run("fabric", "lint", "--root", tree.root, "--env-file", file, *more)
    assert status == int(bool(codes(document)))
    return document


def test_what_tandem_renders_is_clean(run: Run, spark: Tree, config: Config) -> None:
    _, resolved = run("fabric", "resolve", "--config", config(), "--root", spark.root)
    text = "".join(f"{name}={value}\n" for name, value in resolved["env"].items())
    assert lint(run, spark, text, "--config", config())["findings"] == []


def test_f15_a_placeholder_that_was_half_replaced(run: Run, spark: Tree) -> None:
    text = (
        "NCCL_SOCKET_IFNAME=enp1s0f0np0\nTP_SOCKET_IFNAME=enp1s0f1np1\n"
        "GLOO_SOCKET_IFNAME=enp1s0f1np1\nNCCL_IB_GID_INDEX=0\n"
    )
    document = lint(run, spark, text)
    assert codes(document) == ["fabric.lint.address"] * 2 + ["fabric.lint.gid_index"] * 2
    assert "TP_SOCKET_IFNAME names enp1s0f1np1, which has no address" in message(
        document, "fabric.lint.address"
    )
    assert "GID index 0 is the link-local" in message(document, "fabric.lint.gid_index")


def test_f14_an_interface_that_nobody_has(run: Run, spark: Tree) -> None:
    document = lint(run, spark, "GLOO_SOCKET_IFNAME=eth0\n")
    assert codes(document) == ["fabric.lint.interface"]
    assert "names eth0" in message(document, "fabric.lint.interface")
    assert "enp1s0f0np0" in message(document, "fabric.lint.interface")


@pytest.mark.parametrize("name", ["enp1s0f0np1", "enP2p1s0f0np1"])
def test_f19_names_that_no_spark_has(run: Run, spark: Tree, name: str) -> None:
    assert codes(lint(run, spark, f"UCX_NET_DEVICES={name}")) == ["fabric.lint.interface"]


RING = """\
GLOO_SOCKET_IFNAME=enP7s7
MN_IF_NAME=enP7s7
NCCL_CROSS_NIC=1
NCCL_IB_DISABLE=0
NCCL_IB_HCA=rocep1s0f0,rocep1s0f1,roceP2p1s0f0,roceP2p1s0f1
NCCL_IB_MERGE_NICS=0
NCCL_IB_SUBNET_AWARE_ROUTING=1
NCCL_IGNORE_CPU_AFFINITY=1
NCCL_NET=IB
NCCL_NET_PLUGIN=none
NCCL_SOCKET_IFNAME=enP7s7,enp1s0f0np0,enp1s0f1np1,enP2p1s0f0np0,enP2p1s0f1np1
"""


def test_f27_an_environment_for_a_ring_on_a_pair(run: Run, tree: Tree, config: Config) -> None:
    Spark(tree, addresses=RAILS_P0 | {"enp1s0f1np1": "10.9.0.1/24", "enP2p1s0f1np1": "10.9.1.1/24"},
          cabled=["p0", "p1"]).build()  # fmt: skip
    assert lint(run, tree, RING)["findings"] == []
    document = lint(run, tree, RING + "SPARK_HOSTS=127.0.0.1,10.0.0.2\n", "--config", config())
    assert codes(document) == ["fabric.lint.loopback", "fabric.lint.hca_foreign"]
    assert "SPARK_HOSTS holds 127.0.0.1" in message(document, "fabric.lint.loopback")
    assert "roceP2p1s0f1:1, rocep1s0f1:1, which does not lead to spark-b" in message(
        document, "fabric.lint.hca_foreign"
    )


def test_f12_all_that_is_up_includes_what_goes_to_a_desktop(run: Run, tree: Tree, config: Config) -> None:
    Spark(tree, addresses=RAILS_P0 | {"enp1s0f1np1": "192.168.77.1/24"}, cabled=["p0", "p1"]).build()
    document = lint(run, tree, "NCCL_IB_HCA=roce", "--config", config())
    assert codes(document) == ["fabric.lint.hca_foreign"]
    assert "NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0" in document["findings"][0]["fix"]


SHIFTED: Gids = {
    **v1_v2_pair(0, FE80),
    2: ("fe80:0000:0000:0000:a1b2:c3d4:e5f6:0718", "IB/RoCE v1"),
    3: None,
    4: ("fe80:0000:0000:0000:a1b2:c3d4:e5f6:0718", "RoCE v2"),
    **v1_v2_pair(5, ipv4_gid("10.0.0.1")),
}


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("3", ["GID index 3 is EMPTY on rocep1s0f0"]),
        ("6", ["GID index 6 is EMPTY on roceP2p1s0f0"]),
        ("5", ["is EMPTY on roceP2p1s0f0", "5 is 10.0.0.1 IB/RoCE v1, not RoCE v2 on rocep1s0f0"]),
        ("1", ["is the link-local", "is the link-local"]),
        ("999", ["is EMPTY on roceP2p1s0f0", "is EMPTY on rocep1s0f0"]),
        ("three", ["'three', which is no number"]),
        ("-1", []),
    ],
)
def test_f01_a_pinned_index(run: Run, tree: Tree, index: str, words: list[str]) -> None:
    Spark(tree, addresses=RAILS_P0, gids={"rocep1s0f0": SHIFTED}).build()
    document = lint(run, tree, f"NCCL_IB_GID_INDEX={index}")
    found = [item["message"] for item in document["findings"]]
    assert len(found) == len(words)
    assert all(part in text for part, text in zip(words, found, strict=True))


def test_a_pinned_index_of_another_address(run: Run, tree: Tree, config: Config) -> None:
    table = v1_v2_pair(0, ipv4_gid("10.0.0.99")) | v1_v2_pair(2, ipv4_gid("10.0.0.1"))
    Spark(tree, addresses=RAILS_P0, gids={"rocep1s0f0": table}).build()
    text = "NCCL_IB_HCA=rocep1s0f0\nNCCL_IB_GID_INDEX=1"
    document = lint(run, tree, text, "--config", config())
    assert "GID index 1 is 10.0.0.99 RoCE v2, not 10.0.0.1 on rocep1s0f0" in message(
        document, "fabric.lint.gid_index"
    )
    assert "fabric.lint.gid_index" not in codes(lint(run, tree, text))  # without rails nobody knows which


@pytest.mark.parametrize(
    "name", ["NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "UCX_NET_DEVICES"]
)
def test_f07_empty_is_not_unset(run: Run, spark: Tree, name: str) -> None:
    document = lint(run, spark, f"# compose\n{name}=\n")
    assert codes(document) == ["fabric.lint.empty"]
    assert f"{name} is empty (line 2)" in message(document, "fabric.lint.empty")


@pytest.mark.parametrize(
    ("value", "errors", "warnings"),
    [
        ("rocep1s0f0,roceP2p1s0f0", [], []),
        ("=rocep1s0f0,roceP2p1s0f0", [], []),
        ("rocep1s0f0:1,roceP2p1s0f0:1", [], []),
        ("roce", [], ["fabric.lint.hca_down"]),
        ("^mlx5_2", [], []),
        ("^rocep1s0f0", [], ["fabric.lint.hca_incomplete"]),
        ("^roce", ["fabric.lint.hca_unknown"], []),
        ("rocep1s0f0", [], ["fabric.lint.hca_incomplete"]),
        ("rocep1s0f0:2,roceP2p1s0f0", ["fabric.lint.hca_unknown"], ["fabric.lint.hca_incomplete"]),
        ("=roce", ["fabric.lint.hca_unknown"], []),
        ("mlx5_0", ["fabric.lint.hca_unknown"], []),
        ("rocep1s0f1,roceP2p1s0f1", ["fabric.lint.hca_down"],
         ["fabric.lint.hca_down", "fabric.lint.hca_down", "fabric.lint.hca_incomplete"]),
    ],
)  # fmt: skip
def test_f10_selectors_of_nccl(
    run: Run, spark: Tree, config: Config, value: str, errors: list[str], warnings: list[str]
) -> None:
    document = lint(run, spark, f"NCCL_IB_HCA={value}", "--config", config())
    assert (codes(document), codes(document, "warning")) == (errors, warnings)


FOUR = tuple(
    HcaPort(name, 1, state, "Ethernet", frozenset())
    for name, state in (
        ("rocep1s0f0", "DOWN"),
        ("rocep1s0f1", "ACTIVE"),
        ("roceP2p1s0f1", "ACTIVE"),
        ("mlx5_2", "ACTIVE"),
    )
)


@pytest.mark.parametrize(
    ("value", "chosen"),
    [
        ("=rocep1s0f1,roceP2p1s0f1", ["rocep1s0f1", "roceP2p1s0f1"]),
        ("roce", ["rocep1s0f0", "rocep1s0f1", "roceP2p1s0f1"]),
        ("^mlx5_2", ["rocep1s0f0", "rocep1s0f1", "roceP2p1s0f1"]),
        ("^=mlx5", ["rocep1s0f0", "rocep1s0f1", "roceP2p1s0f1", "mlx5_2"]),
        ("rocep1s0f1:1", ["rocep1s0f1"]),
        ("rocep1s0f1:2", []),
    ],
)
def test_f10_what_a_selector_chooses(value: str, chosen: list[str]) -> None:
    assert [port.hca for port in selectors.parse(value).chosen(FOUR)] == chosen


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("VLLM_HOST_IP=127.0.0.1", "fabric.lint.loopback"),
        ("MASTER_ADDR=localhost", "fabric.lint.loopback"),
        ("MASTER_ADDR=127.0.1.1:29500", "fabric.lint.loopback"),
        ("RAY_ADDRESS=ray://127.0.0.1:10001", "fabric.lint.loopback"),
        ("VLLM_HOST_IP=::1", "fabric.lint.loopback"),
        ("MASTER_ADDR=[::1]:29500", "fabric.lint.loopback"),
        ("VLLM_HOST_IP=0.0.0.0", "fabric.lint.loopback"),
        ("GLOO_SOCKET_IFNAME=lo", "fabric.lint.loopback"),
        ("WORKERS=me@10.0.0.2 root@127.0.0.1", "fabric.lint.loopback"),
        ("VLLM_HOST_IP=10.0.0.2", "fabric.lint.foreign_address"),
    ],
)
def test_addresses_that_no_other_host_can_use(run: Run, spark: Tree, line: str, code: str) -> None:
    assert codes(lint(run, spark, line)) == [code]


@pytest.mark.parametrize(
    "line",
    [
        "VLLM_HOST_IP=10.0.0.1",
        "MASTER_ADDR=spark-a",
        "MASTER_ADDR=10.0.0.2",
        "API_HOST=127.0.0.1",
        "NCCL_SOCKET_IFNAME=enp1s0f0",
        "NCCL_SOCKET_IFNAME==enp1s0f0np0",
        "NCCL_SOCKET_IFNAME=^docker0,lo",
        "UCX_NET_DEVICES=rocep1s0f0:1,roceP2p1s0f0:1",
        "UCX_NET_DEVICES=all",
        "HF_HOME=",
    ],
)
def test_what_is_fine(run: Run, spark: Tree, line: str) -> None:
    assert lint(run, spark, line)["findings"] == []


def test_what_turns_rdma_off_and_what_freezes(run: Run, spark: Tree) -> None:
    document = lint(run, spark, "NCCL_IB_DISABLE=1\nNCCL_IB_USE_INLINE=1\n")
    assert codes(document, "warning") == ["fabric.lint.freezing", "fabric.lint.sockets"]
    assert "roceP2p1s0f0, rocep1s0f0 is up" in message(document, "fabric.lint.sockets")


def test_the_ways_in_which_people_write_variables() -> None:
    text = """\
# a comment
export A=1
  -e B='two words' \\
--env C="3"
--env=D=4
- E=5
ENV F=6
Environment=G=7
export H=8 I=9   # both
J=10.0.0.1 10.0.0.2
docker run --rm -e SECRET=x image
A=last
"""
    found, odd = settings.parse(text)
    assert {item.name: item.value for item in found} == {
        "A": "last", "B": "two words", "C": "3", "D": "4", "E": "5", "F": "6", "G": "7", "H": "8", "I": "9",
        "J": "10.0.0.1 10.0.0.2",
    }  # fmt: skip
    assert [item.code for item in odd] == ["fabric.lint.line"]
    assert "Line 11" in odd[0].message
    assert "SECRET" not in odd[0].message


def test_an_open_quote_is_read_as_it_stands() -> None:
    (found,), _ = settings.parse("A='b")
    assert (found.name, found.value) == ("A", "'b")


def test_only_network_variables_are_shown(run: Run, spark: Tree) -> None:
    document = lint(run, spark, "HF_TOKEN=hf_secret\nNCCL_DEBUG=INFO")
    assert document["variables"] == {"NCCL_DEBUG": "INFO"}
    assert "hf_secret" not in str(document)


GOOD = "NET/IB : Using [0]rocep1s0f1:1/RoCE [1]roceP2p1s0f1:1/RoCE [RO]; OOB enp1s0f1np1:10.0.0.1<0>"
PREFIX = "spark-a:3121:3121 [0] NCCL INFO "


def test_f10_the_line_in_which_nccl_names_its_devices() -> None:
    used = nccl_log.parse(GOOD, "spark-a")
    assert used.as_json() == {
        "network": "IB",
        "devices": ["rocep1s0f1:1", "roceP2p1s0f1:1"],
        "oob_netdev": "enp1s0f1np1",
        "oob_address": "10.0.0.1",
    }


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (GOOD, []),
        (f"{PREFIX}{GOOD}\n{PREFIX}Using network IB", []),
        (f"{PREFIX}{GOOD}\n{PREFIX}Using network Socket", ["fabric.transport.socket"]),
        (f"{PREFIX}NET/IB : No device found.\n{PREFIX}NET/Socket : Using [0]enp1s0f1np1:10.0.0.1<0>",
         ["fabric.transport.socket"]),
        (f"{PREFIX}NET/IB : Using [0]rocep1s0f1:1/RoCE [RO]; OOB enP7s7:192.0.2.11<0>",
         ["fabric.transport.devices"]),
        (f"{PREFIX}{GOOD.replace('; OOB', ' [2]rocep1s0f0:1/RoCE; OOB')}", ["fabric.transport.devices"]),
        ("INFO 12-01 vLLM is using nccl==2.30.7", ["fabric.transport.unknown"]),
        # A container's name is no host's; the other rank's lines are not this host's.
        (f"4f1e2a:7:7 [0] NCCL INFO {GOOD}", []),
        (f"{PREFIX}{GOOD}\nspark-b:9:9 [0] NCCL INFO Using network Socket", []),
        (f"c1:7:7 [0] NCCL INFO {GOOD}\nc2:7:7 [0] NCCL INFO {GOOD}", ["fabric.transport.unknown"]),
    ],
)  # fmt: skip
def test_which_transport_nccl_took(
    run: Run, tree: Tree, config: Config, tmp_path: Path, log: str, found: list[str]
) -> None:
    Spark(tree, addresses=RAILS_P1, cabled=["p1"]).build()
    file = tmp_path / "nccl.log"
    file.write_text(log)
    status, document = run("fabric", "lint", "--root", tree.root, "--config", config(), "--nccl-log", file)
    assert (status, codes(document)) == (int(bool(found)), found)


def test_sockets_are_right_on_an_ethernet_fabric(
    run: Run, spark: Tree, config: Config, tmp_path: Path
) -> None:
    file = tmp_path / "nccl.log"
    file.write_text("NET/Socket : Using [0]enp1s0f0np0:10.0.0.1<0>")
    arguments = ("--config", config(kind="ethernet"), "--nccl-log", file)
    assert run("fabric", "lint", "--root", spark.root, *arguments)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "usage.arguments.invalid"),
        (("--nccl-log", "/dev/null"), "usage.arguments.invalid"),
        (("--env-file", "/nowhere"), "usage.file.unreadable"),
        (("--env-file", "/bin/true"), "usage.file.unreadable"),
    ],
)
def test_bad_usage(run: Run, spark: Tree, arguments: tuple[str, ...], code: str) -> None:
    status, document = run("fabric", "lint", "--root", spark.root, *arguments)
    assert (status, codes(document)) == (2, [code])
