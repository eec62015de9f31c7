"""The proof of a pair: what two looks at each host and one answer must show."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tandem.checks.verdict import judge

ANSWER = {"ok": True, "deterministic": True, "text": "Two Sparks.", "attempts": 3, "findings": []}


def refused(code: str) -> dict[str, Any]:
    """A probe that ended with one finding."""
    finding = {"level": "error", "code": code, "message": "what happened", "fix": "what to do"}
    return {**ANSWER, "ok": False, "findings": [finding]}


def socket(kind: str, state: str = "ESTABLISHED", netdev: str = "enp1s0f0np0") -> dict[str, Any]:
    return {
        "class": kind,
        "state": state,
        "netdev": netdev,
        "local": {"address": "10.0.0.11", "port": 4000},
        "remote": {"address": "10.0.0.12", "port": 5000},
    }


def look(rank: int, moved: int = 0) -> dict[str, Any]:
    return {
        "rank": rank,
        "pid": 100 + rank,
        "processes": [{}, {}],
        "sockets": [socket("fabric"), socket("loopback")],
        "counts": {"fabric": 1, "management": 0},
        "rails": ["enp1s0f0np0"],
        "interfaces": {"enp1s0f0np0": {"rx_bytes": 1000 + moved, "tx_bytes": 1000 + moved}},
    }


def pair(moved: int = 0) -> dict[str, dict[str, Any]]:
    return {"spark-a": look(0, moved), "spark-b": look(1, moved)}


def codes(after: dict[str, Any], answer: dict[str, Any] | None = ANSWER) -> list[str]:
    return [item["code"] for item in judge(pair(), after, answer).findings]


def test_a_proved_pair() -> None:
    verdict = judge(pair(), pair(500_000), ANSWER)
    assert verdict.findings == []
    assert "spark-b: rank 1, pid 101" in verdict.summary[1]
    assert "'Two Sparks.'" in verdict.summary[-1]


def changed(host: str, **values: Any) -> dict[str, dict[str, Any]]:
    after = copy.deepcopy(pair(500_000))
    after[host].update(values)
    return after


@pytest.mark.parametrize(
    ("after", "code"),
    [
        (changed("spark-b", pid=None), "verify.rank.missing"),
        (changed("spark-b", rank=0), "verify.rank.wrong"),
        (changed("spark-b", sockets=[socket("fabric"), socket("management")]), "verify.traffic.management"),
        (changed("spark-b", sockets=[socket("loopback")]), "verify.traffic.none"),
        (changed("spark-b", sockets=[socket("fabric", "LISTEN")]), "verify.traffic.none"),
        (pair(100), "verify.traffic.silent"),
    ],
)
def test_a_pair_that_is_not_proved(after: dict[str, Any], code: str) -> None:
    assert code in codes(after)


def test_one_rank_alone_serves_nobody_for_two() -> None:
    """A head that answers by itself moves nothing over the rails: that is no pair."""
    assert codes(pair(0)) == ["verify.traffic.silent", "verify.traffic.silent"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (None, "verify.completion.failed"),
        ({"ok": False, "findings": []}, "verify.completion.failed"),
        (refused("serve.completion.failed"), "verify.completion.failed"),
        (refused("serve.completion.unstable"), "verify.completion.varies"),
    ],
)
def test_an_answer_that_proves_nothing(answer: dict[str, Any] | None, code: str) -> None:
    assert codes(pair(500_000), answer) == [code]
