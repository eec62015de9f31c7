"""The filters, as the roles use them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from filter import tandem as filters


def test_nodes_are_ranked_by_position() -> None:
    hostvars = {
        "b": {"tandem_rails": [{"address": "10.0.0.2/24", "netdev": "e1"}]},
        "a": {"tandem_rails": [{"address": "10.0.0.1/24", "netdev": "e1", "hca": "roce0"}]},
    }
    assert filters.tandem_nodes(["b", "a"], hostvars) == [
        {"rank": 0, "name": "b", "rails": [{"address": "10.0.0.2/24", "netdev": "e1", "hca": None}]},
        {"rank": 1, "name": "a", "rails": [{"address": "10.0.0.1/24", "netdev": "e1", "hca": "roce0"}]},
    ]


def test_a_platform_is_found_by_machine_python_and_accelerator() -> None:
    platforms = [
        {"name": "x", "machine": "x86_64", "python": "3.11", "accelerator": "cpu"},
        {"name": "y", "machine": "aarch64", "python": "3.12", "accelerator": "cuda"},
    ]
    host = {"machine": "aarch64", "python": "3.12"}
    assert filters.tandem_platform(platforms, host, "cuda")["name"] == "y"
    with pytest.raises(
        AnsibleFilterError, match=r"host\.platform\.unsupported: .* aarch64 with Python 3\.12"
    ):
        filters.tandem_platform(platforms, host, "cpu")


def test_findings_are_told_with_the_host() -> None:
    answer = {
        "findings": [
            {"level": "warning", "code": "w", "message": "odd", "fix": "-"},
            {
                "level": "error",
                "code": "fabric.link.down",
                "message": "e1 has no carrier.",
                "fix": "Plug it in.",
            },
        ]
    }
    text = filters.tandem_findings_text(json.dumps(answer), "spark-b")
    assert text == "fabric.link.down: spark-b: e1 has no carrier. Fix: Plug it in."


@pytest.mark.parametrize("answer", ["", "Traceback\nboom", "[]", "{}"])
def test_an_answer_without_findings_is_shown_as_it_is(answer: str) -> None:
    text = filters.tandem_findings_text(answer, "spark-b", "killed")
    assert text.startswith("spark-b: ")
    assert "killed" in text


def test_a_rank_matches_only_while_it_runs_the_wanted_digest() -> None:
    def status(active: bool, digest: str) -> str:
        return json.dumps({"active": active, "running_digest": digest})

    assert filters.tandem_rank_matches(status(True, "abc"), "abc")
    assert not filters.tandem_rank_matches(status(False, "abc"), "abc")
    assert not filters.tandem_rank_matches(status(True, "old"), "abc")
    assert not filters.tandem_rank_matches("", "abc")


def test_lacking_hosts_are_those_that_did_not_say_yes() -> None:
    hostvars = {
        "a": {"probe": {"rc": 0}},
        "b": {"probe": {"rc": 1}},
        "c": {"probe": {"skipped": True}},
        "d": {},
    }
    assert filters.tandem_lacking(["a", "b", "c", "d"], hostvars, "probe") == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"stdout": '{"findings": [{"code": "c", "message": "m.", "fix": "f."}]}'}, "c: m. Fix: f."),
        (
            {"stderr": "\nerror: No space left on device\n", "msg": "non-zero return code"},
            "error: No space left on device",
        ),
        ({"msg": "no route"}, "no route"),
        ({}, "it gave no reason"),
    ],
)
def test_why_a_task_failed(result: dict[str, str], text: str) -> None:
    assert filters.tandem_failure_text(result) == text


def test_two_fabrics_that_differ() -> None:
    def printed(mtu: int, marker: bool) -> dict[str, dict[str, str]]:
        netdev = {"netdev": "e1", "rail": 0, "mtu": mtu, "iommu": None, "pcie": None, "hcas": []}
        return {"looked": {"stdout": json.dumps({"hotplug_marker": marker, "netdevs": [netdev]})}}

    hostvars = {"a": printed(9000, True), "b": printed(1500, False), "c": {"looked": {"stdout": "Traceback"}}}
    found = filters.tandem_fabric_differences(["a", "b", "c"], hostvars, "looked")
    assert [(item["level"], item["code"]) for item in found] == [
        ("error", "pair.mtu.differs"),
        ("warning", "pair.hotplug.differs"),
    ]
    assert filters.tandem_fabric_differences(["c"], hostvars, "looked") == []


def test_whether_the_rails_are_measured_follows_from_what_the_hosts_said() -> None:
    def plan(head: dict[str, Any], worker: dict[str, Any], gate: bool = True) -> dict[str, Any]:
        hostvars = {"a": head, "b": worker}
        return dict(filters.tandem_bench_plan(["a", "b"], hostvars, "a", gate, False, False))

    idle = {"__rdma_fabric_rank_state": {"stdout": "inactive"}}
    measured = {**idle, "__rdma_fabric_measured": {"stdout": '{"measured": true, "reason": null}'}}
    assert plan(measured, idle) == {"run": False, "text": ""}
    assert "they were changed" in plan(measured, {**idle, "__rdma_fabric_change": {"changed": True}})["text"]
    booted = {"stdout": '{"measured": false, "reason": "a host was booted"}'}
    assert "a host was booted" in plan({**idle, "__rdma_fabric_measured": booted}, idle)["text"]
    for nothing in ({"skipped": True}, {"stdout": "x"}):
        assert plan({**idle, "__rdma_fabric_measured": nothing}, idle)["run"]
    busy = plan(idle, {"__rdma_fabric_rank_state": {"stdout": "activating"}})
    assert (busy["run"], "a rank runs on b" in busy["text"]) == (False, True)
    assert not plan(idle, idle, gate=False)["run"]


def test_what_was_measured_is_shown_as_lines() -> None:
    assert filters.tandem_bench_table('{"class": "good"}')[-1] == "class of the pair: good"
    assert filters.tandem_bench_table("Killed")[-1] == "class of the pair: unknown"
