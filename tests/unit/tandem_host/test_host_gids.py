"""The GID resolver alone."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest

from tandem_host.fabric.gids import ROCE_V2, GidEntry, common, describe, mapped, matching, rivals

V4 = IPv4Address("10.0.0.1")


def entry(
    index: int, address: str, kind: str | None = ROCE_V2, netdev: str | None = "enp1s0f0np0"
) -> GidEntry:
    return GidEntry(index, mapped(ip_address(address)), kind, netdev)


def test_f04_public_address_and_hexadecimal() -> None:
    assert mapped(IPv4Address("200.0.209.6")) == IPv6Address("0000:0000:0000:0000:0000:ffff:c800:d106")


def test_f05_only_high_indexes_are_filled() -> None:
    table = [entry(4, "fe80::1", "IB/RoCE v1"), entry(5, "fe80::1"), entry(6, "10.152.0.12", "IB/RoCE v1")]
    assert matching([*table, entry(7, "10.152.0.12")], IPv4Address("10.152.0.12")) == (7,)


@pytest.mark.parametrize(
    "wrong",
    [
        entry(3, "10.0.0.1", "IB/RoCE v1"),
        entry(3, "10.0.0.1", None),
        entry(3, "10.0.0.2"),
        entry(3, "fe80::1"),
        entry(3, "10.0.0.1", netdev="enp1s0f1np1"),
        GidEntry(3, IPv6Address("::10.0.0.1"), ROCE_V2, "enp1s0f0np0"),
    ],
)
def test_what_is_not_the_entry(wrong: GidEntry) -> None:
    assert matching([wrong], V4, "enp1s0f0np0") == ()


def test_all_usable_indexes_lowest_first() -> None:
    assert matching([entry(7, "10.0.0.1"), entry(3, "10.0.0.1")], V4) == (3, 7)


def test_an_interface_that_the_kernel_does_not_name_is_accepted() -> None:
    assert matching([entry(3, "10.0.0.1", netdev=None)], V4, "enp1s0f0np0") == (3,)


def test_rivals_are_other_addresses_of_the_family() -> None:
    table = [entry(1, "fe80::1"), entry(3, "10.0.0.1"), entry(5, "10.0.0.9"), entry(7, "fd00::1")]
    assert [item.index for item in rivals(table, V4)] == [5]


def test_common_index() -> None:
    assert common([(3, 7), (7,)]) == 7
    assert common([(3,), (6,)]) is None
    assert common([]) is None


def test_description() -> None:
    assert describe([entry(3, "10.0.0.1")], 3) == "10.0.0.1 RoCE v2"
    assert describe([], 3) == "EMPTY"
