"""What a run shows of the host tool's findings, and when they end it."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from action import tandem_findings

HELD = {"level": "error", "code": "fabric.link.down", "message": "e1 has no carrier.", "fix": "Plug it in."}
NOTE = {"level": "warning", "code": "fabric.mtu.active", "message": "spark-b: r1 is slow.", "fix": "Look."}

Judged = Callable[..., dict[str, Any]]


@pytest.fixture(name="judged")
def judged_by_the_action(monkeypatch: pytest.MonkeyPatch) -> Judged:
    """What the action answers on spark-b to these arguments."""
    monkeypatch.setattr(tandem_findings.ActionBase, "run", lambda *_: {})

    def run(**arguments: Any) -> dict[str, Any]:
        action = tandem_findings.ActionModule.__new__(tandem_findings.ActionModule)
        action._task = SimpleNamespace(args=arguments)
        result: dict[str, Any] = action.run(None, {"inventory_hostname": "spark-b"})
        return result

    return run


def answer(rc: int, *findings: dict[str, str]) -> dict[str, Any]:
    return {"rc": rc, "stdout": json.dumps({"findings": findings}), "stderr": ""}


def test_an_error_ends_the_run_with_its_consequence(judged: Judged) -> None:
    result = judged(answer=answer(1, HELD, NOTE), consequence=" The hosts go back.")
    assert result["failed"]
    assert result["msg"] == (
        "fabric.link.down: spark-b: e1 has no carrier. Fix: Plug it in. The hosts go back."
    )
    assert result["warnings"] == ["fabric.mtu.active: spark-b: r1 is slow. Fix: Look."]


def test_a_warning_alone_is_shown_by_a_run_that_goes_on(judged: Judged) -> None:
    result = judged(answer=answer(0, NOTE))
    assert "failed" not in result
    assert result["warnings"] == ["fabric.mtu.active: spark-b: r1 is slow. Fix: Look."]


def test_what_was_found_on_the_control_machine_counts_as_well(judged: Judged) -> None:
    differs = {
        "level": "error",
        "code": "pair.mtu.differs",
        "message": "a has 1500, b 9000.",
        "fix": "Run it.",
    }
    result = judged(answer=answer(0), findings=[differs])
    assert result["failed"]
    assert result["msg"] == "pair.mtu.differs: a has 1500, b 9000. Fix: Run it."


@pytest.mark.parametrize(
    ("printed", "shown"),
    [("Traceback\nboom", "spark-b: Traceback; boom; killed"), (json.dumps({"findings": [NOTE]}), "killed")],
)
def test_a_command_that_failed_without_an_error_is_shown(judged: Judged, printed: str, shown: str) -> None:
    result = judged(answer={"rc": 137, "stdout": printed, "stderr": "killed"})
    assert result["failed"]
    assert shown in result["msg"]
