"""What two hosts' fabrics must have in common."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.checks.fabric import compare


def netdev(rail: int | None, **changes: Any) -> dict[str, Any]:
    hca = {"hca": f"rocep{rail}", "firmware": changes.pop("firmware", "28.45.4028")}
    return {
        "netdev": f"enp{rail}",
        "rail": rail,
        "mtu": 9000,
        "iommu": "identity",
        "pcie": {"speed": 32.0, "width": 4, "max_speed": 32.0, "max_width": 16},
        "hcas": [hca],
        **changes,
    }


def document(*netdevs: dict[str, Any], marker: bool = False) -> dict[str, Any]:
    management = netdev(None, netdev="enP7s7", hcas=[], iommu="DMA-FQ", mtu=1500, pcie=None)
    return {"hotplug_marker": marker, "netdevs": [management, *(netdevs or (netdev(0), netdev(1)))]}


def told(other: dict[str, Any], mine: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    found = compare({"spark-a": mine or document(), "spark-b": other})
    return [(item["level"], item["code"]) for item in found]


def test_two_equal_hosts_have_no_findings() -> None:
    assert told(document()) == []


X2 = {"speed": 32.0, "width": 2, "max_speed": 32.0, "max_width": 16}


@pytest.mark.parametrize(
    ("changes", "level", "code", "words"),
    [
        ({"mtu": 1500}, "error", "pair.mtu.differs", "rail 1 have different MTUs: spark-a has 9000 on enp1"),
        ({"iommu": "DMA-FQ"}, "warning", "pair.iommu.differs", "spark-b has DMA-FQ and identity"),
        ({"firmware": "28.43.1014"}, "warning", "pair.firmware.differs", "spark-a has 28.45.4028, "),
        ({"pcie": X2}, "warning", "pair.pcie.differs", "spark-b has x2 at 32 GT/s and x4"),
    ],
)  # fmt: skip
def test_one_rail_of_one_host_is_different(
    changes: dict[str, Any], level: str, code: str, words: str
) -> None:
    (found,) = compare({"spark-a": document(), "spark-b": document(netdev(0), netdev(1, **changes))})
    assert (found["level"], found["code"]) == (level, code)
    assert words in found["message"]


def test_the_hotplug_marker_on_one_host() -> None:
    assert told(document(marker=True)) == [("warning", "pair.hotplug.differs")]
    assert told(document(marker=True), document(marker=True)) == []


@pytest.mark.parametrize("field", ["iommu", "mtu", "pcie", "firmware"])
def test_what_one_host_does_not_know_is_no_difference(field: str) -> None:
    unknown = [netdev(rail, **{field: None}) for rail in (0, 1)]
    assert told(document(*unknown)) == []


def test_without_rails_the_adapters_are_compared() -> None:
    bare = document(netdev(None, netdev="enp1s0f0np0", firmware="1.0"))
    assert told(bare, document(netdev(None, netdev="enp1s0f1np1"))) == [("warning", "pair.firmware.differs")]


def test_other_interfaces_do_not_matter() -> None:
    spare = netdev(None, netdev="enp1s0f1np1", mtu=1500, iommu="DMA", pcie=X2, firmware="1.0")
    assert told(document(netdev(0), netdev(1), spare)) == []


def test_the_order_of_interfaces_does_not_matter() -> None:
    assert (
        told(document(netdev(1, mtu=9000), netdev(0, mtu=1500)), document(netdev(0, mtu=1500), netdev(1)))
        == []
    )


def test_hosts_without_a_fabric_have_nothing_in_common_to_differ_in() -> None:
    nothing = {"hotplug_marker": False, "netdevs": []}
    assert told(nothing, nothing) == []
    assert told(nothing) == []
