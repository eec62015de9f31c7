"""The GID resolver on every table that a kernel could show, and on many that it should not."""

from __future__ import annotations

import json
import tempfile
from ipaddress import IPv4Address, IPv6Address, ip_interface
from pathlib import Path

from hosttree import Tree, cluster_document
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_host.addresses import Address
from tandem_host.fabric import commands, gids
from tandem_host.host import Host

# Few values, so that tables often hold the address wanted, twice, or on another interface.
V4 = [IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2"), IPv4Address("10.0.1.1"), IPv4Address("200.0.209.6")]
V6 = [IPv6Address("fd00::1"), IPv6Address("2001:db8::a"), IPv6Address("fe80::5eff:fe10:1")]
GIDS = [*map(gids.mapped, V4), *V6, IPv6Address("::10.0.0.1"), IPv6Address("fe80::1"), IPv6Address("::1")]
NETDEVS = ["enp1s0f0np0", "enP2p1s0f0np0"]

addresses = st.sampled_from([*V4, *V6])
kinds = st.sampled_from([gids.ROCE_V2, "IB/RoCE v1", "RoCE v3", None])
netdevs = st.sampled_from([*NETDEVS, "enp1s0f0np0.7", None])
slots = st.sets(st.integers(0, 255), max_size=10)


@st.composite
def tables(draw: st.DrawFn) -> tuple[gids.GidEntry, ...]:
    """Any table: gaps, duplicates, all kinds of addresses, several interfaces."""
    entries = [
        gids.GidEntry(index, draw(st.sampled_from(GIDS)), draw(kinds), draw(netdevs))
        for index in sorted(draw(slots))
    ]
    return tuple(draw(st.permutations(entries)))


@given(tables(), addresses, st.sampled_from(NETDEVS))
def test_only_entries_that_are_exactly_the_address_are_chosen(
    table: tuple[gids.GidEntry, ...], address: IPv4Address | IPv6Address, netdev: str
) -> None:
    by_index = {entry.index: entry for entry in table}
    chosen = gids.matching(table, address, netdev)
    for index in chosen:
        entry = by_index[index]  # never an index outside of the table
        assert entry.kind == "RoCE v2"
        assert entry.netdev in (netdev, None)
        mapped = entry.gid.ipv4_mapped
        assert (mapped if isinstance(address, IPv4Address) else entry.gid) == address
    # And none is overlooked: an entry that was not chosen is wrong in one of the three.
    for entry in set(table) - {by_index[index] for index in chosen}:
        wrong_gid = str(entry.gid.ipv4_mapped or entry.gid) != str(address)
        assert wrong_gid or entry.kind != "RoCE v2" or entry.netdev not in (netdev, None)
    assert list(chosen) == sorted(set(chosen))


@given(tables(), addresses)
def test_a_rival_is_never_the_address_itself(
    table: tuple[gids.GidEntry, ...], address: IPv4Address | IPv6Address
) -> None:
    for entry in gids.rivals(table, address):
        assert entry.index not in gids.matching(table, address)
        assert (entry.gid.ipv4_mapped is None) == isinstance(address, IPv6Address)


@given(st.lists(st.lists(st.integers(0, 8)), max_size=4))
def test_a_common_index_is_in_every_list(indexes: list[list[int]]) -> None:
    shared = gids.common(indexes)
    if shared is None:
        assert not indexes or not set(indexes[0]).intersection(*indexes[1:])
    else:
        assert all(shared in item for item in indexes)


gid_texts = st.one_of(
    st.sampled_from([gid.exploded for gid in GIDS]),
    st.just("0000:0000:0000:0000:0000:0000:0000:0000"),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
)
slot_names = st.one_of(st.integers(0, 300).map(str), st.sampled_from(["x", "-1", "²", "0x3", "007"]))


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(slot_names, st.tuples(gid_texts, kinds), max_size=6))
def test_a_table_with_garbage_in_it_is_read_without_the_garbage(
    files: dict[str, tuple[str, str | None]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        tree = Tree(Path(directory))
        base = "sys/class/infiniband/rocep1s0f0/ports/1"
        for name, (text, kind) in files.items():
            tree.write(f"{base}/gids/{name}", text)
            if kind:
                tree.write(f"{base}/gid_attrs/types/{name}", kind)
        table = gids.read_table(Host(tree.root), "rocep1s0f0", 1)
    for entry in table:
        assert int(entry.gid) != 0
        assert any(name.isdecimal() and int(name) == entry.index for name in files)


def written(tree: Tree, hca: str, table: tuple[gids.GidEntry, ...]) -> None:
    base = f"sys/class/infiniband/{hca}/ports/1"
    tree.write(f"{base}/state", "4: ACTIVE")
    for entry in table:
        tree.write(f"{base}/gids/{entry.index}", entry.gid.exploded)
        if entry.kind:
            tree.write(f"{base}/gid_attrs/types/{entry.index}", entry.kind)
        if entry.netdev:
            tree.write(f"{base}/gid_attrs/ndevs/{entry.index}", entry.netdev)


RAILS = [("10.0.0.1/24", "10.0.1.1/24"), ("10.0.0.1/24",), ("fd00::1/64", "2001:db8::a/64")]


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(RAILS), st.sampled_from(["auto", "pin"]))
def test_a_rank_gets_proven_indexes_and_no_empty_value_or_nothing_at_all(
    data: st.DataObject, own: tuple[str, ...], policy: str
) -> None:
    seen = {}
    with tempfile.TemporaryDirectory() as directory:
        tree = Tree(Path(directory) / "root")
        for text, netdev in zip(own, NETDEVS, strict=False):
            hca = f"roce{netdev}"
            tree.interface(netdev, text)
            (tree.root / f"sys/class/infiniband/{hca}/device/net/{netdev}").mkdir(parents=True)
            seen[hca] = (
                data.draw(likely_tables(ip_interface(text).ip, netdev)),
                ip_interface(text).ip,
                netdev,
            )
            written(tree, hca, seen[hca][0])
        document = cluster_document(fabric={"kind": "roce", "mtu": 9000, "gid_policy": policy})
        document["nodes"] = document["nodes"][:1]
        document["nodes"][0]["rails"] = [{"address": text, "netdev": None, "hca": None} for text in own]
        config = Path(directory) / "cluster.json"
        config.write_text(json.dumps(document))
        answer = commands.resolve(Host(tree.root), config, 0, None)
    failed = any(item["level"] == "error" for item in answer["findings"])
    assert failed == (answer["env"] == {})
    assert all(answer["env"].values())
    for rail in answer["rails"]:
        if rail["gid_index"] is None:
            assert failed
        else:
            assert right(seen[rail["hca"]], rail["gid_index"])
    pinned = answer["env"].get("NCCL_IB_GID_INDEX")
    assert (pinned is not None) == (policy == "pin" and not failed)
    if pinned is not None:
        assert all(right(found, int(pinned)) for found in seen.values())


@st.composite
def likely_tables(draw: st.DrawFn, address: Address, netdev: str) -> tuple[gids.GidEntry, ...]:
    """Any table; mostly one that also holds the entry wanted, at one of a few places."""
    table = draw(tables())
    if draw(st.integers(0, 4)):
        index = draw(st.sampled_from([3, 4, 5]))
        good = gids.GidEntry(index, gids.mapped(address), gids.ROCE_V2, netdev)
        table = (*(entry for entry in table if entry.index != index), good)
    return table


def right(found: tuple[tuple[gids.GidEntry, ...], Address, str], index: int) -> bool:
    """Whether the entry at an index is what a rail needs, said in other words than the resolver's."""
    table, address, netdev = found
    entries = [entry for entry in table if entry.index == index]
    return len(entries) == 1 and (
        entries[0].kind == "RoCE v2"
        and str(entries[0].gid.ipv4_mapped or entries[0].gid) == str(address)
        and entries[0].netdev in (netdev, None)
    )
