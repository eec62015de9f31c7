"""``fabric discover``: cages, adapters and peers, from trees of real reports."""

from __future__ import annotations

from typing import Any

import pytest
from hosttree import FE80, Config, Run, Tree, cluster_document, codes, v1_v2_pair
from sparktree import FUNCTIONS, IMAGE_GUID, Spark, pci_device, recorded

RAILS_P0 = {"enp1s0f0np0": "10.0.0.1/24", "enP2p1s0f0np0": "10.0.1.1/24"}
RAILS_P1 = {"enp1s0f1np1": "10.0.0.1/24", "enP2p1s0f1np1": "10.0.1.1/24"}


def discovered(run: Run, tree: Tree, *more: object) -> dict[str, Any]:
    status, document = run("fabric", "discover", "--root", tree.root, *more)
    assert status == 0
    return document


def netdev(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in document["netdevs"] if item["netdev"] == name)
    return found


def cages(document: dict[str, Any]) -> dict[str, tuple[list[str], bool | None]]:
    return {cage["cage"]: (cage["netdevs"], cage["cabled"]) for cage in document["cages"]}


BOTH = {"p0": ["enp1s0f0np0", "enP2p1s0f0np0"], "p1": ["enp1s0f1np1", "enP2p1s0f1np1"]}


def test_a_whole_spark(run: Run, tree: Tree, config: Config) -> None:
    Spark(tree, addresses=RAILS_P0).build()
    document = discovered(run, tree, "--config", config())
    assert (document["host"], document["rank"], document["hotplug_marker"]) == ("spark-a", 0, False)
    assert netdev(document, "enP2p1s0f0np0") == {
        "netdev": "enP2p1s0f0np0",
        "driver": "mlx5_core",
        "pci": "0002:01:00.0",
        "pci_id": "15b3:1021",
        "pcie": {"speed": 32.0, "width": 4, "max_speed": 32.0, "max_width": 16},
        "iommu": "identity",
        "wireless": False,
        "master": None,
        "carrier": True,
        "operstate": "up",
        "speed_mbps": 200000,
        "mtu": 9000,
        "addresses": ["10.0.1.1/24"],
        "cage": "p0",
        "card": IMAGE_GUID,
        "default_route": False,
        "hcas": [
            {
                "hca": "roceP2p1s0f0",
                "port": 1,
                "state": "ACTIVE",
                "link_layer": "Ethernet",
                "rate_gbps": 200.0,
                "firmware": "28.45.4028",
                "board": "NVD0000000087",
                "node_guid": "0200:5e03:0010:0034",
                "image_guid": IMAGE_GUID,
            }
        ],
        "rail": 1,
        "reaches": [
            {
                "peer": "spark-b",
                "rank": 1,
                "address": "10.0.1.2",
                "route": None,
                "neighbour": None,
                "reached": False,
            }
        ],
    }


def test_virtual_interfaces_are_left_out_and_the_rest_is_in_pci_order(run: Run, tree: Tree) -> None:
    Spark(tree).build()
    (tree.root / "sys/class/net/enP7s7v0/device/physfn").mkdir(parents=True)
    tree.write("sys/class/net/bonding_masters", "bond0")
    names = [item["netdev"] for item in discovered(run, tree)["netdevs"]]
    assert names == ["enp1s0f0np0", "enp1s0f1np1", "enP2p1s0f0np0", "enP2p1s0f1np1", "enP7s7"]


def test_a_virtual_interface_that_carries_a_rail_is_shown(run: Run, tree: Tree, config: Config) -> None:
    tree.interface("enp1s0f0np0", "10.0.0.1/24")
    tree.interface("veth7", "172.16.0.1/24")
    document = discovered(run, tree, "--config", config(kind="ethernet"))
    assert [(item["netdev"], item["pci"], item["rail"]) for item in document["netdevs"]] == [
        ("enp1s0f0np0", None, 0)
    ]


@pytest.mark.parametrize(("cable", "rails"), [("p0", RAILS_P0), ("p1", RAILS_P1)])
def test_f11_f21_one_cable_is_a_pair_of_functions_in_one_cage(
    run: Run, tree: Tree, cable: str, rails: dict[str, str]
) -> None:
    Spark(tree, cabled=[cable], addresses=rails).build()
    document = discovered(run, tree)
    assert cages(document) == {name: (pair, name == cable) for name, pair in BOTH.items()}
    up = [item["hcas"][0]["hca"] for item in document["netdevs"] if item["carrier"] and item["hcas"]]
    assert up == {"p0": ["rocep1s0f0", "roceP2p1s0f0"], "p1": ["rocep1s0f1", "roceP2p1s0f1"]}[cable]
    rates = {hca["hca"]: hca["rate_gbps"] for item in document["netdevs"] for hca in item["hcas"]}
    assert sorted(rates.values()) == [40, 40, 200, 200]


@pytest.mark.parametrize("guids", [True, False])
def test_f19_the_port_says_the_cage_and_the_slot_does_not(run: Run, tree: Tree, guids: bool) -> None:
    """Grouping by slot would join 0000:01:00.0 with 0000:01:00.1, grouping by place the first two."""
    Spark(tree, guids=guids).build()
    document = discovered(run, tree)
    assert {name: pair for name, (pair, _) in cages(document).items()} == BOTH
    assert [cage["pci"] for cage in document["cages"]] == [
        ["0000:01:00.0", "0002:01:00.0"],
        ["0000:01:00.1", "0002:01:00.1"],
    ]
    assert netdev(document, "enP7s7")["cage"] is None


def test_the_function_says_the_cage_where_the_driver_names_no_port(run: Run, tree: Tree) -> None:
    Spark(tree, named_ports=False).build()
    document = discovered(run, tree)
    assert {name: pair for name, (pair, _) in cages(document).items()} == BOTH
    assert {cage["source"] for cage in document["cages"]} == {"pci_function"}


def test_the_switch_says_the_card_as_well(run: Run, tree: Tree) -> None:
    Spark(tree, named_ports=False, guids=False).build()
    for function in FUNCTIONS:
        tree.write(f"sys/class/net/{function.netdev}/phys_switch_id", "000010005e0302")
    assert {name: pair for name, (pair, _) in cages(discovered(run, tree)).items()} == BOTH


def test_without_port_and_card_the_cage_is_unknown(run: Run, tree: Tree) -> None:
    Spark(tree, named_ports=False, guids=False).build()
    document = discovered(run, tree)
    assert document["cages"] == []
    assert {item["cage"] for item in document["netdevs"]} == {None}


def test_two_cards_with_ports_of_one_name_are_two_cards(run: Run, tree: Tree) -> None:
    Spark(tree).build()
    tree.interface("enP9p1s0f0np0", port="p0")
    pci_device(tree, "enP9p1s0f0np0", "0009:01:00.0", "ice", "8086:1592")
    document = discovered(run, tree)
    assert [(cage["cage"], cage["card"], cage["netdevs"]) for cage in document["cages"]] == [
        ("p0", IMAGE_GUID, BOTH["p0"]),
        ("p1", IMAGE_GUID, BOTH["p1"]),
        ("p0", "0009:01:00.0", ["enP9p1s0f0np0"]),
    ]


def test_interfaces_that_are_set_down_do_not_know_of_a_cable(run: Run, tree: Tree) -> None:
    Spark(tree, cabled=["p0"]).build()
    for function in FUNCTIONS:
        if function.netdev != "enp1s0f0np0":
            (tree.root / f"sys/class/net/{function.netdev}/carrier").unlink()
    assert cages(discovered(run, tree)) == {"p0": (BOTH["p0"], True), "p1": (BOTH["p1"], None)}


def test_a_device_of_virtio_has_the_address_of_the_function_above_it(run: Run, tree: Tree) -> None:
    tree.interface("enp0s3", "192.0.2.11/24")
    tree.write("sys/devices/pci0000:00/0000:00:03.0/virtio0/uevent", "DRIVER=virtio_net")
    (tree.root / "sys/class/net/enp0s3/device").symlink_to("../../../devices/pci0000:00/0000:00:03.0/virtio0")
    item = netdev(discovered(run, tree), "enp0s3")
    assert (item["driver"], item["pci"], item["pcie"]) == ("virtio_net", "0000:00:03.0", None)


@pytest.mark.parametrize("state", ["REACHABLE", "DELAY", "STALE"])
def test_f20_a_neighbour_without_its_interface(run: Run, tree: Tree, config: Config, state: str) -> None:
    Spark(tree, addresses=RAILS_P0).build()
    recorded(
        tree,
        "ip-route-get.json",
        [
            {
                "dst": "10.0.0.2",
                "from": "10.0.0.1",
                "dev": "enp1s0f0np0",
                "flags": [],
                "uid": 1000,
                "cache": [],
            }
        ],
    )
    recorded(tree, "ip-neigh.json", [{"dst": "10.0.0.2", "lladdr": "02:00:5e:10:00:02", "state": [state]}])
    document = discovered(run, tree, "--config", config())
    (first,) = netdev(document, "enp1s0f0np0")["reaches"]
    assert (first["route"], first["neighbour"], first["reached"]) == ("enp1s0f0np0", state, True)
    assert netdev(document, "enP2p1s0f0np0")["reaches"][0]["reached"] is False


def test_f12_a_cable_to_something_else_reaches_no_peer(run: Run, tree: Tree, config: Config) -> None:
    rails = {"enp1s0f0np0": "192.168.100.10/24", "enp1s0f1np1": "192.168.77.1/24"}
    Spark(tree, cabled=["p0", "p1"], addresses=rails).build()
    document = cluster_document()
    for rank, node in enumerate(document["nodes"]):
        node["rails"] = [{"address": f"192.168.100.1{rank}/24", "netdev": None, "hca": None}]
    recorded(
        tree,
        "ip-neigh.json",
        [
            {"dst": "192.168.100.11", "dev": "enp1s0f0np0", "state": ["REACHABLE"]},
            {"dst": "192.168.77.50", "dev": "enp1s0f1np1", "state": ["REACHABLE"]},
        ],
    )
    answer = discovered(run, tree, "--config", config(document))
    reached = {
        item["netdev"]: [peer["peer"] for peer in item["reaches"] if peer["reached"]]
        for item in answer["netdevs"]
    }
    assert {name: found for name, found in reached.items() if found} == {"enp1s0f0np0": ["spark-b"]}
    assert cages(answer)["p1"][1] is True


@pytest.mark.parametrize("state", ["FAILED", "INCOMPLETE"])
def test_a_neighbour_that_did_not_answer_is_not_reached(
    run: Run, tree: Tree, config: Config, state: str
) -> None:
    Spark(tree, addresses=RAILS_P0).build()
    recorded(tree, "ip-neigh.json", [{"dst": "10.0.0.2", "dev": "enp1s0f0np0", "state": [state]}])
    document = discovered(run, tree, "--config", config())
    assert netdev(document, "enp1s0f0np0")["reaches"][0]["reached"] is False


def test_a_fresh_host_has_no_rank_yet_and_that_stops_nothing(run: Run, tree: Tree, config: Config) -> None:
    Spark(tree).build()
    document = discovered(run, tree, "--config", config())
    assert (document["rank"], codes(document, "warning")) == (None, ["cluster.rank.undecided"])
    assert cages(document)["p0"][1] is True


def test_a_rank_that_does_not_exist_is_bad_usage(run: Run, tree: Tree, config: Config) -> None:
    Spark(tree).build()
    status, _ = run("fabric", "discover", "--root", tree.root, "--config", config(), "--rank", 7)
    assert status == 2


@pytest.mark.parametrize("text", ["{}", "[1]", "nonsense"])
def test_recorded_output_that_is_none(run: Run, tree: Tree, config: Config, text: str) -> None:
    Spark(tree, addresses=RAILS_P0).build()
    tree.write("tandem-fixture/ip-neigh.json", text)
    status, document = run("fabric", "discover", "--root", tree.root, "--config", config())
    assert (status, codes(document)) == (1, ["host.fixture.invalid"])


def test_this_machine(run: Run) -> None:
    status, document = run("fabric", "discover")
    assert status == 0
    assert "lo" not in [item["netdev"] for item in document["netdevs"]]


def test_soft_roce_devices_are_no_cards(run: Run, tree: Tree) -> None:
    """Each has a GUID of its own: that it is function 0 of something says nothing of a cage."""
    for number, name in enumerate(("enp1s0f0np0", "enP2p1s0f0np0")):
        tree.interface(name, f"10.0.{number}.1/24")
        tree.hca(f"rxe{number}", name, v1_v2_pair(0, FE80))
        tree.write(f"sys/class/infiniband/rxe{number}/parent", name)
        tree.write(f"sys/class/infiniband/rxe{number}/sys_image_guid", f"0200:5eff:fe00:000{number}")
        tree.write(f"sys/devices/pci0000:00/0000:00:0{number}.0/virtio0/uevent", "DRIVER=virtio_net")
        place = f"../../../devices/pci0000:00/0000:00:0{number}.0/virtio0"
        (tree.root / f"sys/class/net/{name}/device").symlink_to(place)
    assert discovered(run, tree)["cages"] == []
