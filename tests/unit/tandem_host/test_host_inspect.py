"""``rank inspect`` and ``port check``: processes and TCP sockets from /proc."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address, ip_interface

import pytest
from hosttree import TWINS, Config, Run, Tree, codes, message, state_file

from tandem_host import processes
from tandem_host.processes import LISTEN, Socket, parse_table, unit_of
from tandem_host.rank.traffic import classify_sockets

RAILS = (ip_interface("10.0.0.1/24"), ip_interface("10.0.1.1/24"))


def connection(local: str, remote: str, state: str = "ESTABLISHED", port: int = 40000) -> Socket:
    return Socket(state, ip_address(local), port, ip_address(remote), 29521, 1)


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (connection("10.0.0.1", "10.0.0.2"), "fabric"),
        (connection("10.0.1.1", "10.0.1.2"), "fabric"),
        (connection("10.0.0.1", "0.0.0.0", LISTEN), "fabric"),
        (connection("10.0.0.1", "10.0.1.2"), "management"),
        (connection("10.0.0.1", "192.0.2.12"), "management"),
        (connection("192.0.2.11", "192.0.2.12"), "management"),
        (connection("192.0.2.11", "0.0.0.0", LISTEN), "management"),
        (connection("127.0.0.1", "127.0.0.1"), "loopback"),
        (connection("::1", "::1"), "loopback"),
        (connection("192.0.2.11", "192.0.2.11"), "loopback"),
        (connection("0.0.0.0", "0.0.0.0", LISTEN), "any"),
        (connection("::", "::", LISTEN), "any"),
        (connection("0.0.0.0", "0.0.0.0", LISTEN, port=8888), "api"),
        (connection("192.0.2.11", "192.0.2.50", port=8888), "api"),
    ],
)
def test_every_socket_has_one_class(item: Socket, kind: str) -> None:
    classes = classify_sockets([item], RAILS, 8888)
    assert [name for name, members in classes.items() if members] == [kind]


def test_the_kernels_notation() -> None:
    zero = "0" * 32
    text = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100000A:7351 0200000A:9C40 01 00000000:00000000 00:00000000 00000000 998 0 77 1 0\n"
        f"   1: 0000000000000000FFFF00000100000A:22B8 {zero}:0000 0A 0:0 0:0 0 998 0 78 1\n"
        f"   2: 000080FE00000000000000FF01000000:22B8 {zero}:0000 0A 0:0 0:0 0 998 0 79 1\n"
        "   3: cut"
    )
    first, second, third = parse_table(text)
    assert (str(first.local), first.local_port, str(first.remote), first.remote_port) == (
        "10.0.0.1", 29521, "10.0.0.2", 40000,
    )  # fmt: skip
    assert (first.state, first.inode) == ("ESTABLISHED", 77)
    assert (str(second.local), second.state) == ("10.0.0.1", LISTEN)
    assert str(third.local) == "fe80::ff00:0:0:1"


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0::/system.slice/tandem-rank.service", "tandem-rank.service"),
        ("0::/system.slice/tandem-rank.service/payload", "tandem-rank.service"),
        ("12:pids:/user.slice\n1:name=systemd:/system.slice/ssh.service\n0::/", "ssh.service"),
        ("0::/user.slice/user-1000.slice/session-3.scope", "session-3.scope"),
        ("0::/", None),
        ("", None),
    ],
)
def test_unit_of_a_control_group(text: str, unit: str | None) -> None:
    assert unit_of(text) == unit


def running_rank(tree: Tree) -> None:
    tree.write("proc/sys/kernel/random/boot_id", "this-boot")
    for rail, netdev in enumerate(TWINS):
        tree.interface(netdev, f"10.0.{rail}.1/24")
        for name, value in (("rx_bytes", 1000), ("tx_bytes", 2000), ("rx_packets", 10), ("tx_packets", 20)):
            tree.write(f"sys/class/net/{netdev}/statistics/{name}", str(value + rail))
    tree.interface("enP7s7", "192.0.2.11/24", mtu=1500)
    tree.process(4242, unit="tandem-rank.service", sockets=[11])
    tree.process(4300, parent=4242, name="VLLM::Worker_TP0", unit="tandem-rank.service", sockets=[12, 13])
    tree.process(4400, parent=1, name="sshd", unit="ssh.service", sockets=[14])
    tree.tcp(
        "00000000:22B8 00000000:0000 0A 11",
        "0100000A:C000 0200000A:7351 01 12",
        "0B0200C0:C001 0C0200C0:C002 01 13",
        "0B0200C0:0016 320200C0:D000 01 14",
    )


def test_a_rank_that_talks_over_management_is_seen(run: Run, tree: Tree, config: Config) -> None:
    running_rank(tree)
    arguments = ("--state", state_file(tree), "--cluster", config(), "--root", tree.root)
    status, document = run("rank", "inspect", *arguments)
    assert status == 0
    assert document["counts"] == {"fabric": 1, "management": 1, "loopback": 0, "api": 1, "any": 0}
    assert [item["pid"] for item in document["processes"]] == [4242, 4300]
    (bad,) = [item for item in document["sockets"] if item["class"] == "management"]
    assert (bad["netdev"], bad["pid"], bad["remote"]["address"]) == ("enP7s7", 4300, "192.0.2.12")
    assert document["rails"] == ["enp1s0f0np0", "enP2p1s0f0np0"]
    assert document["interfaces"]["enP2p1s0f0np0"] == {
        "rx_bytes": 1001,
        "tx_bytes": 2001,
        "rx_packets": 11,
        "tx_packets": 21,
    }
    assert document["interfaces"]["enP7s7"]["rx_bytes"] is None


def test_a_worker_that_outlived_its_parent_is_seen(run: Run, tree: Tree, config: Config) -> None:
    tree.write("proc/sys/kernel/random/boot_id", "this-boot")
    tree.process(4300, parent=1, name="VLLM::Worker_TP0", unit="tandem-rank.service")
    arguments = ("--state", state_file(tree), "--cluster", config(), "--root", tree.root)
    status, document = run("rank", "inspect", *arguments)
    assert (status, codes(document)) == (1, ["rank.process.orphaned"])
    assert "VLLM::Worker_TP0 (4300)" in message(document, "rank.process.orphaned")


def test_no_rank_at_all(run: Run, tree: Tree, config: Config) -> None:
    status, document = run(
        "rank", "inspect", "--state", tree.root / "none.json", "--cluster", config(), "--root", tree.root
    )
    assert (status, codes(document)) == (1, ["rank.process.missing"])


def test_descendants_of_a_process(tree: Tree) -> None:
    for pid, parent in ((10, 1), (11, 10), (12, 11), (20, 1)):
        tree.process(pid, parent)
    from tandem_host.host import Host

    every = processes.processes(Host(tree.root))
    assert processes.tree(every, 10) == {10, 11, 12}
    assert processes.tree(every, 99) == set()


def port(run: Run, tree: Tree, address: str = "0.0.0.0", *more: str) -> tuple[int, dict[str, object]]:
    return run("port", "check", "--address", address, "--port", 8888, "--root", tree.root, *more)


def test_a_free_port(run: Run, tree: Tree) -> None:
    tree.tcp("0100000A:22B8 0200000A:7351 01 12", "00000000:22B9 00000000:0000 0A 13")
    status, document = port(run, tree)
    assert (status, document["free"], document["holders"]) == (0, True, [])


def test_a_busy_port_names_process_and_unit(run: Run, tree: Tree) -> None:
    tree.process(700, name="ollama", unit="ollama.service", sockets=[11])
    tree.tcp("0100007F:22B8 00000000:0000 0A 11")
    status, document = port(run, tree)
    assert (status, codes(document)) == (1, ["port.address.busy"])
    assert document["holders"] == [{"pid": 700, "comm": "ollama", "unit": "ollama.service"}]
    assert "ollama (pid 700, ollama.service)" in message(document, "port.address.busy")


def test_tandems_own_server_may_hold_it(run: Run, tree: Tree) -> None:
    tree.process(4242, unit="tandem-rank.service", sockets=[11])
    tree.tcp(
        "00000000000000000000000000000000:22B8 00000000000000000000000000000000:0000 0A 11", table="tcp6"
    )
    status, document = port(run, tree, "0.0.0.0", "--accept-unit", "tandem-rank.service")
    assert (status, document["free"], codes(document, "info")) == (0, False, ["port.address.own"])
    assert port(run, tree)[0] == 1


def test_a_holder_that_cannot_be_seen(run: Run, tree: Tree) -> None:
    tree.tcp("00000000:22B8 00000000:0000 0A 11")
    status, document = port(run, tree, "10.0.0.1", "--accept-unit", "tandem-rank.service")
    assert (status, codes(document)) == (1, ["port.address.busy"])


def test_another_address_is_not_in_the_way(run: Run, tree: Tree) -> None:
    tree.tcp("0100007F:22B8 00000000:0000 0A 11")
    assert port(run, tree, "10.0.0.1")[0] == 0
    assert port(run, tree, "127.0.0.1")[0] == 1


def test_bad_port_and_address(run: Run) -> None:
    assert run("port", "check", "--address", "spark-a", "--port", 1)[0] == 2
    assert run("port", "check", "--address", "::", "--port", 70000)[0] == 2


def test_this_machine(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        status, document = run("port", "check", "--address", "127.0.0.1", "--port", number)
        assert (status, [item["pid"] for item in document["holders"]]) == (1, [os.getpid()])
    assert run("port", "check", "--address", "127.0.0.1", "--port", number)[0] == 0
