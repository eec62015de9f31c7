"""Where a run's time went: one line a stage, printed at the end."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: tandem_stages
type: aggregate
short_description: Time, module runs and changes of each stage
description:
  - A stage is a play; plays of the same name are one stage.
  - Prints a table at the end of the run. Where the environment variable C(TANDEM_STAGES_FILE) names a
    file, the same figures are written there as JSON.
"""


@dataclass
class Stage:
    """One stage's figures: seconds of wall time, and counts over all hosts."""

    name: str
    seconds: float = 0.0
    ran: int = 0
    changed: int = 0
    failed: int = 0


def table(stages: list[Stage]) -> list[str]:
    """The table as lines of text; the last one is the sum."""
    total = Stage(
        "all",
        sum(stage.seconds for stage in stages),
        sum(stage.ran for stage in stages),
        sum(stage.changed for stage in stages),
        sum(stage.failed for stage in stages),
    )
    width = max(len(stage.name) for stage in [*stages, total])
    lines = [f"{'stage':<{width}}  {'seconds':>8}  {'ran':>5}  {'changed':>7}  {'failed':>6}"]
    lines += [
        f"{stage.name:<{width}}  {stage.seconds:>8.1f}  {stage.ran:>5}  {stage.changed:>7}  {stage.failed:>6}"
        for stage in [*stages, total]
    ]
    return lines


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Ansible calls the ``v2_`` methods in the order of the run."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "tandem_stages"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._stages: dict[str, Stage] = {}
        self._current: Stage | None = None
        self._since = time.monotonic()

    def _close(self) -> None:
        now = time.monotonic()
        if self._current is not None:
            self._current.seconds += now - self._since
        self._since = now

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """A stage begins, and the one before it ends."""
        self._close()
        name = play.get_name().strip()
        self._current = self._stages.setdefault(name, Stage(name))

    def v2_runner_on_ok(self, result: Any) -> None:
        """A task ran on one host."""
        if self._current is not None:
            self._current.ran += 1
            self._current.changed += int(bool(result._result.get("changed", False)))

    def v2_runner_on_failed(self, _result: Any, ignore_errors: bool = False) -> None:
        """A task failed on one host."""
        if self._current is not None:
            self._current.ran += 1
            self._current.failed += int(not ignore_errors)

    def v2_runner_on_unreachable(self, _result: Any) -> None:
        """A host did not answer."""
        if self._current is not None:
            self._current.failed += 1

    def v2_playbook_on_stats(self, _stats: Any) -> None:
        """The run is over."""
        self._close()
        stages = list(self._stages.values())
        if not stages:
            return
        self._display.banner("STAGES")
        for line in table(stages):
            self._display.display(line)
        target = os.environ.get("TANDEM_STAGES_FILE")
        if target:
            Path(target).write_text(
                json.dumps([asdict(stage) for stage in stages], indent=1), encoding="utf-8"
            )
