"""Tell what the host tool found: warnings are shown, errors end the run; runs on the control machine."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from tandem.checks.answers import answered_findings, findings_text, of_host
from tandem.checks.findings import errors, report

DOCUMENTATION = r"""
module: tandem_findings
short_description: Show the warnings among findings, fail on the errors
description:
  - Connects to nothing, changes nothing.
options:
  answer:
    type: dict
    description: Registered result of a C(tandem-host) command. Another exit status than 0 is a failure.
  findings:
    type: list
    elements: dict
    description: Findings that were made on the control machine.
  consequence: {type: str, description: What follows from an error; ends the message.}
"""


class ActionModule(ActionBase):  # type: ignore[misc]
    """``tandem_findings``: fails with all errors, or passes with all warnings."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return ``findings``, and ``warnings`` or ``failed`` with ``msg``; never ``changed``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        host = str((task_vars or {}).get("inventory_hostname", "localhost"))
        arguments = self._task.args
        answer = arguments.get("answer") or {"rc": 0}
        answered = answered_findings(str(answer.get("stdout", "")))
        found = [*of_host(answered, host), *(arguments.get("findings") or [])]
        result.update(report(found))
        failures = [result["msg"]] if "msg" in result else []
        if answer["rc"] != 0 and not errors(answered):
            failures.insert(0, findings_text(str(answer["stdout"]), host, str(answer.get("stderr", ""))))
        if failures:
            result.update(failed=True, msg="\n".join(failures) + str(arguments.get("consequence") or ""))
        return result
