"""The filters, as the roles use them."""

from __future__ import annotations

import json

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
