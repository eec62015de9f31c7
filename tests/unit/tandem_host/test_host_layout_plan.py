"""``fabric plan``: who configures the rails, what becomes of it, and what is refused."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
import yaml
from hosttree import Config, Run, Tree, codes, message
from layouts import LAYOUTS, MANAGEMENT, NP0, NP1, OWN, furnish, named, put, spark

from tandem_host.fabric.layout import yamlnodes


@pytest.fixture
def plan(run: Run, tree: Tree, config: Config) -> Any:
    def call(document: dict[str, Any], *more: object) -> tuple[int, dict[str, Any]]:
        return run("fabric", "plan", "--root", tree.root, "--config", config(document), "--rank", 0, *more)

    return call


@pytest.mark.parametrize("letter", LAYOUTS)
def test_every_known_layout_is_named_and_taken_over(plan: Any, tree: Tree, letter: str) -> None:
    layout = LAYOUTS[letter]
    furnish(tree, layout)
    status, answer = plan(named(*layout.rails))
    assert (status, answer["layout"], answer["changed"]) == (0, layout.name, True)
    actions = {item["path"]: item["action"] for item in answer["replaces"]}
    assert actions == {
        **dict.fromkeys(layout.gone, "remove"),
        **dict.fromkeys(layout.rewritten, "rewrite"),
        OWN: "write",
    }
    owned = {item["netdev"]: [file["path"] for file in item["files"]] for item in answer["owners"]}
    assert sorted({path for paths in owned.values() for path in paths}) == sorted(
        (*layout.gone, *layout.rewritten)
    )
    assert codes(answer, "info") == ["fabric.layout.replaced"]
    assert f"+++ {OWN}" in answer["diff"]
    for path in (*layout.gone, *layout.rewritten):
        assert f"--- {path}" in answer["diff"]


def test_the_new_file(plan: Any, tree: Tree) -> None:
    spark(tree)
    _, answer = plan(named(*NP0))
    assert answer["layout"] == "none"
    assert answer["file"] | {"text": ""} == {"path": OWN, "mode": "0600", "text": ""}
    assert answer["file"]["text"].startswith("# Managed by Tandem")
    rail = {
        "dhcp4": False,
        "dhcp6": False,
        "accept-ra": False,
        "link-local": [],
        "optional": True,
        "ignore-carrier": True,
        "mtu": 9000,
    }
    assert yaml.safe_load(answer["file"]["text"])["network"] == {
        "version": 2,
        "ethernets": {
            NP0[0]: rail | {"addresses": ["10.0.0.1/24"]},
            NP0[1]: rail | {"addresses": ["10.0.1.1/24"]},
        },
    }


def test_ipv6_rails_keep_a_link_local_address_that_stays(plan: Any, tree: Tree) -> None:
    spark(tree)
    document = named(*NP0, second=("fd00:1::1/64", "fd00:2::1/64"))
    for rail, address in zip(document["nodes"][1]["rails"], ("fd00:1::2/64", "fd00:2::2/64"), strict=True):
        rail["address"] = address
    _, answer = plan(document, "--renderer", "networkd")
    rail = yaml.safe_load(answer["file"]["text"])["network"]["ethernets"][NP0[0]]
    assert (rail["link-local"], rail["ipv6-address-generation"]) == (["ipv6"], "eui64")
    assert (rail["addresses"], rail["renderer"]) == (["fd00:1::1/64"], "networkd")


@pytest.mark.parametrize(("cage", "functions"), [("p0", NP0), ("p1", NP1)])
def test_the_cage_with_the_cable_is_found(
    plan: Any, tree: Tree, cage: str, functions: tuple[str, str]
) -> None:
    spark(tree, cage)
    _, answer = plan(named(None, None))
    assert [rail["netdev"] for rail in answer["rails"]] == list(functions)


def test_domains_count_as_numbers_and_names_do_not_count(plan: Any, tree: Tree) -> None:
    """The first rail is the lower PCI domain, whatever the interfaces are called."""
    for netdev, pci in (("a", "0010:01:00.0"), ("b", "0002:01:00.0")):
        tree.interface(netdev, port="p0")
        (tree.root / f"sys/class/net/{netdev}/device").symlink_to(f"../../../devices/{pci}")
        (tree.root / f"sys/devices/{pci}").mkdir(parents=True)
    _, answer = plan(named(None, None))
    assert [rail["netdev"] for rail in answer["rails"]] == ["b", "a"]


def test_a_virtual_machines_ports_are_on_the_function_above_them(plan: Any, tree: Tree) -> None:
    for netdev, pci in (("a", "0000:00:04.0"), ("b", "0000:00:03.0")):
        tree.interface(netdev, port="p0")
        (tree.root / f"sys/class/net/{netdev}/device").symlink_to(f"../../../devices/{pci}/virtio1")
        (tree.root / f"sys/devices/{pci}/virtio1").mkdir(parents=True)
    _, answer = plan(named(None, None))
    assert [rail["netdev"] for rail in answer["rails"]] == ["b", "a"]


@pytest.mark.parametrize(
    ("cabled", "code", "words"),
    [
        ("", "fabric.cable.none", "enp1s0f0np0 (cage p0, PCI 0000:01:00.0): no carrier"),
        ("p0 p1", "fabric.cable.both", "cages p0 and p1 both have a carrier"),
    ],
)
def test_no_cable_or_two(plan: Any, tree: Tree, cabled: str, code: str, words: str) -> None:
    spark(tree, cabled)
    status, answer = plan(named(None, None))
    assert (status, codes(answer), answer["changed"]) == (1, [code], False)
    assert words in message(answer, code)
    [finding] = answer["findings"]
    assert "spark-a: tandem_rails: [{netdev: " in finding["fix"]


def test_ports_that_are_set_down_are_to_be_set_up(plan: Any, tree: Tree) -> None:
    spark(tree, "")
    for netdev in (*NP0, *NP1):
        (tree.root / f"sys/class/net/{netdev}/carrier").write_text("")
    _, answer = plan(named(None, None))
    [finding] = answer["findings"]
    assert "set down, so no carrier can be seen" in finding["message"]
    assert finding["fix"].startswith("sudo ip link set enp1s0f0np0 up; ")


def test_interfaces_without_a_cage(plan: Any, tree: Tree) -> None:
    tree.interface("eth1")
    _, answer = plan(named(None, None))
    assert codes(answer) == ["fabric.cable.unknown"]


def test_a_cage_with_too_few_functions(plan: Any, tree: Tree) -> None:
    spark(tree)
    _, answer = plan(named(NP0[1], None))
    assert codes(answer) == ["fabric.cable.functions"]


def test_a_file_with_more_keeps_it_with_its_comments(plan: Any, tree: Tree) -> None:
    spark(tree)
    put(
        tree,
        "/etc/netplan/50-all.yaml",
        """\
        network:
          version: 2
          ethernets:
            enp1s0f0np0:   # the cable
              mtu: 1500
            # management
            enP7s7:
              dhcp4: yes
          wifis:
            wlP9s9:
              access-points:
                home: {password: "not for logs"}
        """,
    )
    _, answer = plan(named(*NP0))
    assert "not for logs" not in json.dumps(answer)
    assert "enP7s7" not in answer["diff"]
    assert "-enp1s0f0np0:" in answer["diff"]
    assert answer["replaces"][0]["action"] == "rewrite"


def test_no_secret_of_a_rail_is_shown(plan: Any, tree: Tree) -> None:
    spark(tree)
    put(
        tree,
        "/etc/NetworkManager/system-connections/rail.nmconnection",
        "[connection]\ninterface-name=enp1s0f0np0\n[802-1x]\npassword=hunter2\nprivate-key-password=x9x9\n",
    )
    put(tree, OWN, ethernets_with_auth())
    _, answer = plan(named(*NP0))
    for secret in ("hunter2", "x9x9", "s3cr3t"):
        assert secret not in json.dumps(answer)
    assert "-password= (hidden)" in answer["diff"]


def ethernets_with_auth() -> str:
    return "network:\n  ethernets:\n    enp1s0f0np0:\n      auth:\n        password: s3cr3t\n"


def test_one_file_says_who_renders_what_others_define(plan: Any, tree: Tree) -> None:
    """Without it, management would change hands."""
    spark(tree)
    put(tree, "/etc/netplan/50-management.yaml", "network: {ethernets: {enP7s7: {dhcp4: true}}}\n")
    put(
        tree,
        "/etc/netplan/70-rails.yaml",
        "network:\n  renderer: NetworkManager\n  ethernets:\n    enp1s0f0np0: {mtu: 1500}\n",
    )
    _, answer = plan(named(*NP0))
    assert answer["replaces"][0] | {"why": ""} == {
        "path": "/etc/netplan/70-rails.yaml",
        "action": "rewrite",
        "why": "",
    }


UNCLEAR = {
    "a match by driver": ("    mlx:\n      match: {driver: mlx5*}\n", ":3 (mlx) matches driver mlx5*"),
    "a match by name": ("    mlx:\n      match: {name: 'en*'}\n", ":3 (mlx) matches name en*"),
    "a match by address": (
        "    mlx:\n      match: {macaddress: '02:00:5E:00:00:0b'}\n",
        ":3 (mlx) matches macaddress 02:00:5E:00:00:0b: enp1s0f0np0 included",
    ),
    "a match of all": ("    all:\n      match: {}\n", ":3 (all) matches every interface"),
    "a new name": (
        "    x:\n      match: {macaddress: '02:00:00:00:00:01'}\n      set-name: enp1s0f0np0\n",
        "names an interface enp1s0f0np0, which is a rail",
    ),
}


@pytest.mark.parametrize("case", UNCLEAR)
def test_what_may_mean_a_rail_stops_before_any_change(plan: Any, tree: Tree, case: str) -> None:
    text, words = UNCLEAR[case]
    spark(tree)
    put(tree, "/etc/netplan/50-x.yaml", f"network:\n  ethernets:\n{text}")
    status, answer = plan(named(*NP0))
    assert (status, codes(answer), answer["changed"]) == (1, ["fabric.layout.unclear"], False)
    assert "/etc/netplan/50-x.yaml" in message(answer, "fabric.layout.unclear")
    assert words in message(answer, "fabric.layout.unclear")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "  bonds:\n    b: {interfaces: [enp1s0f0np0, enp1s0f1np1]}\n",
            "(bond b) stands on enp1s0f0np0",
        ),
        ("  vlans:\n    v: {id: 5, link: enP2p1s0f0np0}\n", "(vlan v) stands on enP2p1s0f0np0"),
        (
            "  bonds:\n    b: {interfaces: [enp1s0f0np0]}\n  vlans:\n    v: {id: 5, link: b}\n",
            "(vlan v) stands on b",
        ),
    ],
    ids=["a bond with more", "a VLAN", "a VLAN on the bond"],
)
def test_what_stands_on_a_rail_is_for_a_person(plan: Any, tree: Tree, text: str, words: str) -> None:
    spark(tree)
    put(tree, "/etc/netplan/50-x.yaml", f"network:\n{text}")
    _, answer = plan(named(*NP0))
    assert words in message(answer, "fabric.layout.unclear")


def test_matches_that_mean_others_are_left_alone(plan: Any, tree: Tree) -> None:
    spark(tree)
    put(
        tree,
        "/etc/netplan/50-x.yaml",
        "network:\n  ethernets:\n    m: {match: {name: 'enP7*'}, dhcp4: true}\n    n: {match: {driver: r}}\n",
    )
    _, answer = plan(named(*NP0))
    assert [item["path"] for item in answer["replaces"]] == [OWN]


@pytest.mark.parametrize(
    ("path", "text", "code", "words"),
    [
        (
            "/etc/systemd/network/20-wired.network",
            "[Match]\nName=en*\n[Network]\nDHCP=yes\n",
            "fabric.layout.unclear",
            "20-wired.network:2 matches Name=en*: enp1s0f0np0, enP2p1s0f0np0 included",
        ),
        (
            "/etc/systemd/network/20-rail.network",
            "[Match]\nName=enp1s0f0np0\n[Network]\nBond=bond0\n",
            "fabric.layout.unclear",
            "20-rail.network:4 puts Bond=bond0 on enp1s0f0np0",
        ),
        (
            "/etc/NetworkManager/system-connections/any.nmconnection",
            "[connection]\nid=any\ntype=ethernet\n",
            "fabric.layout.unclear",
            "any.nmconnection:1 is for any interface that fits",
        ),
        (
            "/etc/network/interfaces.d/rails",
            "\nauto enp1s0f0np0\niface lo inet loopback\n",
            "fabric.layout.ifupdown",
            "/etc/network/interfaces.d/rails:2 configures enp1s0f0np0",
        ),
        (
            "/etc/netplan/50-x.yaml",
            "network:\n  ethernets: {\n",
            "fabric.layout.unclear",
            "50-x.yaml:3 is no YAML",
        ),
    ],
    ids=["a pattern of networkd", "a bond of networkd", "any profile", "ifupdown", "no YAML"],
)
def test_other_owners_that_stop(plan: Any, tree: Tree, path: str, text: str, code: str, words: str) -> None:
    spark(tree)
    put(tree, path, text)
    status, answer = plan(named(*NP0))
    assert status == 1
    assert words in message(answer, code)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "/etc/systemd/network/20-rail.network",
            "[Match]\nName=enp1s0f0np0\n[Network]\nAddress=10.9.0.1/24\n",
        ),
        (
            "/etc/NetworkManager/system-connections/r",
            "[connection]\ntype=ethernet\ninterface-name=enp1s0f0np0\n",
        ),
        (
            "/run/NetworkManager/system-connections/r.nmconnection",
            "[connection]\ntype=ethernet\n[ethernet]\nmac-address=02:00:5E:00:00:0B\n",
        ),
    ],
)
def test_other_owners_that_are_moved_away(plan: Any, tree: Tree, path: str, text: str) -> None:
    spark(tree)
    put(tree, path, text)
    _, answer = plan(named(*NP0))
    assert [(item["path"], item["action"]) for item in answer["replaces"]] == [
        (path, "remove"),
        (OWN, "write"),
    ]


def test_what_netplan_makes_of_its_own_is_not_an_owner(plan: Any, tree: Tree) -> None:
    spark(tree)
    put(tree, "/run/systemd/network/10-netplan-enp1s0f0np0.network", "[Match]\nName=enp1s0f0np0\n")
    put(
        tree,
        "/run/NetworkManager/system-connections/netplan-enp1s0f0np0.nmconnection",
        "[connection]\ninterface-name=enp1s0f0np0\n",
    )
    _, answer = plan(named(*NP0))
    assert [item["path"] for item in answer["replaces"]] == [OWN]


def test_a_bond_of_networkmanager_goes_with_its_members(plan: Any, tree: Tree) -> None:
    spark(tree)
    folder = "/etc/NetworkManager/system-connections"
    put(tree, f"{folder}/bond.nmconnection", "[connection]\nid=b\ntype=bond\ninterface-name=bond0\n")
    for netdev in NP0:
        put(
            tree,
            f"{folder}/{netdev}.nmconnection",
            f"[connection]\ntype=ethernet\ninterface-name={netdev}\nmaster=bond0\nslave-type=bond\n",
        )
    _, answer = plan(named(*NP0))
    assert (answer["layout"], answer["links"]) == ("bond", ["bond0"])
    assert len(answer["replaces"]) == 4
    put(tree, f"{folder}/x.nmconnection", "[connection]\ntype=ethernet\ninterface-name=eth9\nmaster=bond0\n")
    _, answer = plan(named(*NP0))
    assert "joins rails with what" in message(answer, "fabric.layout.unclear")


def test_the_default_route_is_no_rail(plan: Any, tree: Tree) -> None:
    spark(tree)
    tree.write("proc/net/route", "Iface\tDestination\nenP7s7\t00000000\t01\t0003\t0\t0\t0\t00000000\t0\t0\t0")
    _, answer = plan(named("enP7s7", NP0[1]))
    assert codes(answer) == ["fabric.link.management"]


def test_an_interface_that_is_not_there(plan: Any, tree: Tree) -> None:
    spark(tree)
    _, answer = plan(named("enp9s9", NP0[1]))
    assert codes(answer) == ["fabric.interface.missing"]


def test_files_that_are_right_and_a_host_that_is_not(plan: Any, tree: Tree, run: Run) -> None:
    """The address is gone from one rail: netplan has to be applied again."""
    spark(tree, enp1s0f0np0="10.0.0.1/24")
    _, answer = plan(named(*NP0))
    put(tree, OWN, answer["file"]["text"])
    _, answer = plan(named(*NP0))
    assert (answer["replaces"], answer["diff"], answer["changed"]) == ([], "", True)
    assert answer["live"] == [
        "spark-a: no address 10.0.1.1/24 on enP2p1s0f0np0 "
        "(interfaces: enp1s0f0np0, enp1s0f1np1, enP2p1s0f0np0, enP2p1s0f1np1, enP7s7)."
    ]


def test_nothing_to_do(plan: Any, tree: Tree) -> None:
    spark(tree, enp1s0f0np0="10.0.0.1/24", enP2p1s0f0np0="10.0.1.1/24")
    put(tree, "/etc/netplan/01-network-manager-all.yaml", MANAGEMENT)
    _, answer = plan(named(*NP0))
    put(tree, OWN, answer["file"]["text"])
    status, answer = plan(named(*NP0))
    assert (status, answer["changed"], answer["layout"], answer["findings"]) == (0, False, "tandem", [])
    (tree.root / OWN[1:]).chmod(0o644)
    assert plan(named(*NP0))[1]["changed"], "others may read it"


def test_a_host_without_a_yaml_reader(plan: Any, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    spark(tree)
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.setattr(yamlnodes, "DISTRIBUTION", "/nowhere")
    put(tree, "/etc/netplan/50-x.yaml", "network: {}\n")
    status, answer = plan(named(*NP0))
    assert (status, codes(answer)) == (1, ["fabric.tool.no_yaml"])


@pytest.mark.parametrize("file", ["relative.yaml", "/etc/netplan/x.conf", "/etc/netplan/../x.yaml"])
def test_only_files_that_netplan_reads(plan: Any, tree: Tree, file: str) -> None:
    assert plan(named(*NP0), "--netplan-file", file)[0] == 2


def test_the_way_to_the_host_is_no_rail(plan: Any, tree: Tree) -> None:
    spark(tree)
    tree.interface("enP7s7", "192.168.1.5/24")
    _, answer = plan(named("enP7s7", NP0[1]), "--management", "192.168.1.5", "--management", "::1")
    assert codes(answer) == ["fabric.link.management"]
    assert "enP7s7 holds 192.168.1.5, by which this host is reached" in message(
        answer, "fabric.link.management"
    )
    assert not answer["replaces"]
