from __future__ import annotations

from pathlib import Path

import pytest

from tandem.lab.spec import Lab, LabError, overlapping


def test_names_and_addresses_follow_from_the_labs_name() -> None:
    lab = Lab("demo", "10.231.7")
    head, worker = lab.hosts
    assert (head.name, head.address, head.namespace) == ("spark-a", "10.231.7.11", "tandem-demo-spark-a")
    assert (worker.name, worker.address) == ("spark-b", "10.231.7.12")
    assert lab.gateway == "10.231.7.1"
    assert head.root == Path("/var/lib/tandem-lab/demo/spark-a/root")


def test_two_labs_share_no_name() -> None:
    one, two = Lab("demo", "10.231.7"), Lab("molecule", "10.231.8")
    assert one.bridge != two.bridge
    assert one.cables != two.cables
    assert {host.machine for host in one.hosts}.isdisjoint(host.machine for host in two.hosts)


def test_interface_names_fit_the_kernels_fifteen_characters() -> None:
    lab = Lab("sixteen-letters-", "10.231.7")
    assert len(lab.bridge) <= 15
    assert len(f"tl{lab.tag}m0") <= 15


@pytest.mark.parametrize("name", ["", "Demo", "../demo", "a b", "-x", "9", "a" * 17, "demo\n"])
def test_a_name_that_is_no_folders_or_namespaces_is_refused(name: str) -> None:
    with pytest.raises(LabError, match="cannot be named"):
        Lab(name, "10.231.7")


@pytest.mark.parametrize(
    "network", ["10.231", "10.231.7.0", "10.231.256", "8.8.8", "10.231.x", "", "10.231.7\n"]
)
def test_a_network_that_is_not_private_or_no_network_is_refused(network: str) -> None:
    with pytest.raises(LabError, match="management network"):
        Lab("demo", network)


def test_a_host_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(LabError, match="no host 'spark-c'; it has spark-a, spark-b"):
        Lab("demo", "10.231.7").host("spark-c")


def test_a_rail_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(LabError, match="'eth0' is not a rail; the rails are enp1s0f0np0"):
        Lab("demo", "10.231.7").rail_number("eth0")
    assert Lab("demo", "10.231.7").rail_number("enP2p1s0f0np0") == 1


@pytest.mark.parametrize(
    ("route", "device"),
    [
        ({"dst": "default", "dev": "eth0"}, None),
        ({"dst": "192.168.0.0/16", "dev": "eth0"}, None),
        ({"dst": "10.231.7.0/24", "dev": "tlbr"}, None),
        ({"dst": "10.0.0.0/8", "dev": "wg0"}, "wg0"),
        ({"dst": "10.231.7.128/25", "dev": "eth1"}, "eth1"),
        ({"type": "local", "dst": "10.231.7.5", "dev": "eth1", "table": "local"}, "eth1"),
    ],
    ids=["default", "elsewhere", "the lab's own", "a larger one", "a part of it", "an address"],
)
def test_a_network_in_use_is_found(route: dict[str, object], device: str | None) -> None:
    assert overlapping([route], "10.231.7", own_device="tlbr") == device
