"""What a figure means: bands from what owners of two Sparks have measured."""

from __future__ import annotations

import pytest
from hosttree import Run, codes, message

from tandem_host.fabric.bench import ratings


@pytest.mark.parametrize(
    ("gbps", "name"),
    [
        (111.72, "good"),  # one function of a cage, 64 KiB
        (108.94, "good"),
        (97.28, "good"),
        (92.57, "good"),  # the least that was reported of a healthy one
        (89.9, "low"),
        (50.0, "low"),  # a 100G cable
        (25.0, "low"),
        (24.9, "degraded"),
        (15.0, "degraded"),  # reads from a host whose IOMMU translates: 13 to 15
        (13.0, "degraded"),  # NVIDIA/dgx-spark-playbooks pull request 108
        (8.0, "degraded"),
        (7.9, "wrong_hca"),
        (0.94, "wrong_hca"),
    ],
)
def test_a_rail(gbps: float, name: str) -> None:
    assert ratings.rail(gbps, None, rdma=True) == name


@pytest.mark.parametrize(
    ("gbps", "expected", "rdma", "name"),
    [
        (60.0, 50.0, True, "good"),  # a 100G cable on purpose
        (100.0, 105.0, True, "low"),
        (13.0, 105.0, True, "degraded"),  # a fault with a name keeps it
        (30.0, None, False, "unrated"),
        (30.0, 30.0, False, "good"),
        (29.9, 30.0, False, "low"),
    ],
)
def test_a_rail_of_which_something_is_expected(
    gbps: float, expected: float | None, rdma: bool, name: str
) -> None:
    assert ratings.rail(gbps, expected, rdma) == name


@pytest.mark.parametrize(
    ("gbps", "alone", "name"),
    [(190.0, 111.7, "good"), (161.0, 98.0, "good"), (112.0, 111.7, "one_rail"), (155.0, 111.7, "low")],
)
def test_both_rails_at_once(gbps: float, alone: float, name: str) -> None:
    assert ratings.together(gbps, alone) == name


@pytest.mark.parametrize(
    ("gbytes", "rails", "name"),
    [
        (23.74, 2, "good"),
        (20.95, 2, "good"),
        (18.94, 2, "good"),  # MTU 1500
        (18.5, 2, "good"),  # 32 MiB
        (16.0, 2, "low"),
        (13.9, 2, "one_rail"),
        (12.8, 2, "one_rail"),
        (9.78, 2, "one_rail"),
        (12.8, 1, "good"),
        (9.78, 1, "good"),
        (6.0, 2, "low"),
        (3.04, 2, "wrong_hca"),  # or a development build of NCCL: NVIDIA/dgx-spark-playbooks issue 102
        (3.0, 1, "wrong_hca"),
        (2.12, 2, "sockets"),
        (2.0, 2, "sockets"),
        (1.6, 2, "degraded"),  # throttled
        (0.5, 2, "sockets"),  # over the management network
    ],
)
def test_bus_bandwidth_of_nccl(gbytes: float, rails: int, name: str) -> None:
    assert ratings.bus(gbytes, rails, 2**30) == name


@pytest.mark.parametrize("gbytes", [0.29, 0.97])
def test_a_small_message_says_nothing_of_bandwidth(gbytes: float) -> None:
    assert ratings.bus(gbytes, 2, 64 * 1024) == "unrated"


def test_the_bands_begin_at_nothing_and_rise() -> None:
    for bands in (ratings.RAIL_GBPS, ratings.BUS_GBYTES, ratings.BUS_GBYTES_ONE):
        starts = [start for start, _ in bands]
        assert starts[0] == 0
        assert starts == sorted(set(starts))
        assert {name for _, name in bands} <= set(ratings.SEVERITY)


def test_the_worst_class_is_that_of_the_whole() -> None:
    assert ratings.worst(["good", "degraded", "one_rail"]) == "degraded"
    assert ratings.worst([]) == "unrated"


def test_a_figure_of_nccl_from_elsewhere(run: Run) -> None:
    status, document = run("fabric", "classify", "--busbw", "22.4")
    assert (status, document["class"], document["findings"]) == (0, "good", [])
    status, document = run("fabric", "classify", "--busbw", "2.1")
    assert (status, document["class"], codes(document)) == (1, "sockets", ["fabric.bench.sockets"])
    assert "2.1 GB/s bus bandwidth over 2 rails" in message(document, "fabric.bench.sockets")
    assert "NET/IB" in document["findings"][0]["fix"]


def test_a_rail_from_elsewhere(run: Run) -> None:
    status, document = run("fabric", "classify", "--rail", "13")
    assert (status, codes(document)) == (1, ["fabric.bench.degraded"])


def test_a_small_message_from_elsewhere(run: Run) -> None:
    status, document = run("fabric", "classify", "--busbw", "0.97", "--bytes", "65536")
    assert (status, document["class"], codes(document, "info")) == (0, "unrated", ["fabric.bench.unrated"])


@pytest.mark.parametrize(
    "arguments",
    [[], ["--busbw", "0"], ["--busbw", "nan"], ["--busbw", "-1"], ["--busbw", "1", "--rail", "1"]],
    ids=str,
)
def test_a_figure_that_cannot_be(run: Run, arguments: list[str]) -> None:
    assert run("fabric", "classify", *arguments)[0] == 2
