"""Run the module ``tandem_gather`` and note when the control machine asked and heard back."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):  # type: ignore[misc]
    """Adds ``asked_at`` and ``answered_at`` (seconds since the epoch, control machine's clock).

    With the host's own reading between the two, the preflight bounds the difference of two hosts'
    clocks without being misled by a slow connection.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result with the two times inside the fact ``tandem_host``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        asked_at = time.time()
        result.update(self._execute_module(module_args=dict(self._task.args), task_vars=task_vars))
        answered_at = time.time()
        facts = result.get("ansible_facts", {}).get("tandem_host")
        if isinstance(facts, dict):
            facts.update(asked_at=asked_at, answered_at=answered_at)
        return result
