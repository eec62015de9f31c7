"""When a run measures the rails, what it says when not, and how it shows what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.checks import bench

USUAL: dict[str, Any] = {
    "gate": True,
    "asked": False,
    "check_mode": False,
    "serving": [],
    "reason": "nothing was measured since this boot",
}


def test_a_boot_that_was_not_measured_is_measured() -> None:
    plan = bench.plan(**USUAL)
    assert plan == {"run": True, "text": "the rails are measured: nothing was measured since this boot."}


def test_a_boot_that_was_measured_needs_no_word() -> None:
    assert bench.plan(**USUAL | {"reason": ""}) == {"run": False, "text": ""}
    assert bench.plan(**USUAL | {"reason": "", "asked": True})["run"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gate": False}, "rdma_fabric_bandwidth_gate is false"),
        ({"gate": False, "reason": ""}, "rdma_fabric_bandwidth_gate is false"),
        ({"serving": ["spark-a", "spark-b"]}, "a rank runs on spark-a and spark-b"),
        ({"serving": ["spark-b"], "asked": True}, "although it was asked for"),
        ({"serving": ["spark-b"], "check_mode": True}, "a rank runs on spark-b"),
        ({"check_mode": True}, "would be measured (nothing was measured since this boot)"),
        ({"check_mode": True, "asked": True}, "would be measured (it was asked for)"),
    ],
    ids=str,
)
def test_what_is_not_measured_is_said(change: dict[str, Any], said: str) -> None:
    plan = bench.plan(**USUAL | change)
    assert not plan["run"]
    assert said in plan["text"]


def test_who_asks_gets_a_measurement_although_the_gate_is_off() -> None:
    assert bench.plan(**USUAL | {"gate": False, "asked": True})["run"]


def test_a_table() -> None:
    way = {"from": "spark-a", "to": "spark-b"}
    document = {
        "class": "good",
        "figures": [
            {"test": "write", "rails": [0, 1], "gbps": 191.5, "class": "good", "of_baseline": 0.97, **way},
            {"test": "latency", "rails": [1], "microseconds": 1.5, "class": "good", **way},
        ],
        "baseline": {"file": "/b.json", "saved": True},
        "findings": [
            {"level": "warning", "code": "fabric.bench.slower", "message": "spark-a: slow.", "fix": "look"},
            {"level": "info", "code": "fabric.bench.unrated", "message": "no", "fix": "no"},
        ],
    }
    assert bench.table(document) == [
        "test     rail  from     to       figure       of baseline  class",
        "write    0+1   spark-a  spark-b  191.50 Gb/s  97%          good",
        "latency  1     spark-a  spark-b  1.50 us      -            good",
        "These are the baseline now: /b.json",
        "fabric.bench.slower: spark-a: slow. Fix: look",
        "class of the pair: good",
    ]


def test_no_answer_is_a_table_of_nothing() -> None:
    assert bench.table({})[-1] == "class of the pair: unknown"
