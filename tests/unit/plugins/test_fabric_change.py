"""The actions of the fabric: what a run says when a host is silent, refuses, or answers late."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

from action import tandem_fabric_change as change
from action import tandem_fabric_plan as plan
from filter import tandem as filters

DONE = {"applied": True, "deadline": 1000.0, "findings": []}


class Host:
    """Answers one after the other, the last one again and again; an exception is a connection that fails."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, command: str, **_: Any) -> dict[str, Any]:
        self.asked.append(command)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"rc": 0, "stdout": "", "stderr": "", **answer}


class Connection:
    """One of ssh; ``resets`` are the arguments that were in force at each."""

    transport = "ssh"

    def __init__(self) -> None:
        self.options: dict[str, Any] = {"ssh_args": "shared", "timeout": 15}
        self.resets: list[str] = []

    def get_option(self, name: str) -> Any:
        return self.options[name]

    def set_option(self, name: str, value: Any) -> None:
        self.options[name] = value

    def reset(self) -> None:
        self.resets.append(self.options["ssh_args"])


def run(
    module: Any,
    monkeypatch: pytest.MonkeyPatch,
    host: Callable[..., dict[str, Any]],
    connection: Connection | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    monkeypatch.setattr(change, "_PAUSE", 0.01)
    action = module.ActionModule.__new__(module.ActionModule)
    action._task = SimpleNamespace(args=arguments, check_mode=False)
    action._connection = connection or Connection()
    action._low_level_execute_command = host
    monkeypatch.setattr(module.ActionBase, "run", lambda *_: {})
    answer: dict[str, Any] = action.run(None, {"inventory_hostname": "spark-a"})
    return answer


def changed(monkeypatch: pytest.MonkeyPatch, host: Host) -> dict[str, Any]:
    return run(
        change, monkeypatch, host, tool="/t", arguments=["apply"], reconnect_seconds=10, confirm_seconds=60
    )


def test_a_connection_that_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = AnsibleConnectionFailure("gone")
    host = Host(lost, lost, lost, {"stdout": "working"}, {"stdout": ""}, {"stdout": json.dumps(DONE)})
    answer = changed(monkeypatch, host)
    assert (answer["changed"], answer["deadline"]) == (True, 1000.0)
    assert answer["reverts_at"].count(":") == 2
    assert "systemd-run" in host.asked[0]
    assert "/t fabric apply" in host.asked[0]


@pytest.mark.parametrize(("window", "connect"), [(10, 5), (30, 7), (240, 60)])
def test_the_connection_of_the_other_tasks_is_neither_asked_nor_kept(
    monkeypatch: pytest.MonkeyPatch, window: int, connect: int
) -> None:
    """It may be dead without knowing it, as when the management address was away while something was sent."""
    connection = Connection()
    asked = []

    def host(_command: str, **_: Any) -> dict[str, Any]:
        asked.append((connection.options["ssh_args"] == "shared", connection.options["timeout"]))
        return {"rc": 0, "stdout": json.dumps(DONE), "stderr": ""}

    answer = run(change, monkeypatch, host, connection, tool="/t", arguments=[], reconnect_seconds=window)
    assert answer["changed"]
    assert asked == [(True, 15), (False, connect)]
    assert connection.resets == ["shared"]


def test_a_host_that_stays_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change, "_LEAST_WINDOW", 0)
    host = Host({}, AnsibleConnectionFailure("gone"))
    answer = run(change, monkeypatch, host, tool="/t", arguments=[], reconnect_seconds=0, confirm_seconds=60)
    assert answer["failed"]
    assert answer["msg"].startswith("fabric.connection.lost: spark-a: no answer within 0 s")
    assert "go back to their former configuration by themselves, spark-a at " in answer["msg"]


def test_a_unit_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = changed(monkeypatch, Host({"rc": 1, "stderr": "no bus"}))
    assert answer["msg"].startswith("fabric.change.failed: spark-a: the change could not be started (no bus)")


def test_findings_fail_and_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = {"level": "error", "code": "fabric.netplan.failed", "message": "spark-a: no.", "fix": "mend"}
    document = {"applied": False, "deadline": None, "findings": [finding]}
    answer = changed(monkeypatch, Host({}, {"stdout": json.dumps(document)}))
    assert (answer["failed"], answer["changed"], answer["reverts_at"]) == (True, False, "")
    assert answer["msg"] == "fabric.netplan.failed: spark-a: no. Fix: mend"


PLAN = {
    "changed": True,
    "layout": "bond",
    "live": [],
    "pending": False,
    "replaces": [],
    "rails": [],
    "diff": "--- a\n",
    "findings": [],
}


def planned(monkeypatch: pytest.MonkeyPatch, host: Host) -> dict[str, Any]:
    arguments = {"cluster": {"name": "it's"}, "rank": 1, "netplan_file": "/n.yaml", "state_dir": "/s"}
    return run(plan, monkeypatch, host, **arguments)


def test_a_plan_is_a_diff(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host({"stdout": json.dumps(PLAN)})
    answer = planned(monkeypatch, host)
    assert (answer["changed"], answer["diff"], answer["layout"]) == (True, {"prepared": "--- a\n"}, "bond")
    assert "--rank 1 --netplan-file /n.yaml --state-dir /s" in host.asked[0]


def test_a_plan_that_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = {"level": "error", "code": "fabric.cable.none", "message": "spark-a: none.", "fix": "push"}
    answer = planned(monkeypatch, Host({"stdout": json.dumps({"findings": [finding]})}))
    assert (answer["failed"], answer["msg"]) == (True, "fabric.cable.none: spark-a: none. Fix: push")


def test_no_plan_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnsibleActionFail, match="spark-a: tandem-host gave no plan: sh: no python3"):
        planned(monkeypatch, Host({"stderr": "sh: no python3"}))


def test_when_hosts_go_back() -> None:
    hostvars = {"spark-a": {"__rdma_fabric_change": {"reverts_at": "10:00:00"}}, "spark-b": {}}
    assert filters.tandem_fabric_reverts(["spark-a", "spark-b"], hostvars) == (
        " The hosts go back to their former configuration by themselves: spark-a at 10:00:00."
    )
    assert filters.tandem_fabric_reverts(["spark-b"], hostvars) == ""
