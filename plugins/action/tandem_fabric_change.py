"""Run ``tandem-host fabric apply`` or ``restore`` on a host although the change may cut the connection."""

from __future__ import annotations

import json
import shlex
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from tandem.checks.answers import findings_text
from tandem.checks.findings import errors, render

DOCUMENTATION = r"""
module: tandem_fabric_change
short_description: Change the rails of a host as a unit of its own, and wait for the outcome
description:
  - Starts C(tandem-host fabric) as a transient unit, which goes on when the connection is lost, and asks for
    its answer until it is there. Only after a window of time without an answer has the host been lost.
  - Every question has a connection of its own that is given up after a part of that window. One that was
    open while the management address was away can stay silent much longer, and is closed at the end.
options:
  tool: {type: path, required: true, description: Where tandem-host is on the host.}
  arguments: {type: list, elements: str, required: true, description: What follows C(tandem-host fabric).}
  reconnect_seconds: {type: int, default: 30, description: How long the host may be silent; at least 10.}
  confirm_seconds: {type: int, default: 0, description: When the host goes back by itself; 0 for never.}
"""
_UNIT = "tandem-fabric-change"
_ANSWER = f"/run/{_UNIT}.json"
_LEAST_WINDOW = 10
_PAUSE = 0.5
# The host waits a little before it says that it is at work: each connection costs a slow one seconds.
_BUSY = f"systemctl --quiet is-active {_UNIT}.service"
_LOOK = (
    f"for i in 1 2 3 4 5 6; do {_BUSY} || break; sleep 0.5; done; {_BUSY} && echo working || cat {_ANSWER}"
)
# The shortest times, in seconds: for a connection to be made, and between 3 unanswered questions of ssh.
_LEAST_CONNECT = 5
_LEAST_ALIVE = 2


class ActionModule(ActionBase):  # type: ignore[misc]
    """``tandem_fabric_change``: the ``document`` of the program, and ``reverts_at`` while it is on trial."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return ``changed``, ``document``, ``deadline`` and ``reverts_at`` (this machine's clock)."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = self._task.args
        host = str((task_vars or {}).get("inventory_hostname", ""))
        window = max(_LEAST_WINDOW, int(arguments.get("reconnect_seconds", 30)))
        confirm = int(arguments.get("confirm_seconds", 0))
        program = [str(arguments["tool"]), "fabric", *(str(item) for item in arguments["arguments"])]
        reverts_at = time.strftime("%H:%M:%S", time.localtime(time.time() + confirm))
        if self._task.check_mode:
            return self._would(program, host, result)
        problem = self._start(program)
        document = None if problem else self._asked_anew(window)
        if document is None:
            result.update(failed=True, msg=_lost(host, problem, window, reverts_at if confirm else ""))
            return result
        findings = document.get("findings", [])
        on_trial = document.get("deadline") is not None
        result.update(
            changed=bool(document.get("applied") or document.get("restored")),
            deadline=document.get("deadline"),
            reverts_at=reverts_at if on_trial else "",
        )
        if errors(findings):
            result.update(failed=True, msg=render(errors(findings)))
        else:
            result["document"] = document
        return result

    def _would(self, program: list[str], host: str, result: dict[str, Any]) -> dict[str, Any]:
        """What a restore would put back."""
        answer = self._low_level_execute_command(shlex.join([*program, "--check"]), sudoable=True)
        try:
            document = json.loads(answer["stdout"])
        except ValueError:
            document = {}
        if answer["rc"] != 0 or errors(document.get("findings", [])):
            result.update(failed=True, msg=findings_text(str(answer["stdout"]), host, str(answer["stderr"])))
            return result
        result.update(changed=document["changed"], document=document)
        if document["diff"]:
            result["diff"] = {"prepared": document["diff"]}
        return result

    def _start(self, program: list[str]) -> str:
        """Start the unit; returns why not. A connection that is cut meanwhile says nothing about it."""
        unit = ["--quiet", "--collect", f"--unit={_UNIT}", "--service-type=exec"]
        answer = ["--property=UMask=0077", f"--property=StandardOutput=truncate:{_ANSWER}"]
        start = shlex.join(["systemd-run", *unit, *answer, *program])
        # Another run's may be under way still; nobody else's answer may be taken for this one's.
        wait = f"for i in $(seq 60); do {_BUSY} || break; sleep 1; done"
        try:
            outcome = self._low_level_execute_command(f"{wait}; rm -f {_ANSWER}; {start}", sudoable=True)
        except AnsibleConnectionFailure:
            self._forget()
            return ""
        return "" if outcome["rc"] == 0 else str(outcome["stderr"] or outcome["stdout"]).strip()

    def _asked_anew(self, window: int) -> dict[str, Any] | None:
        """The program's document, over connections that nothing before or after this task uses."""
        if self._connection.transport != "ssh":
            return self._answer(window)
        own = _own_connection(window)
        usual = {name: self._connection.get_option(name) for name in own}
        self._use(own)
        try:
            return self._answer(window)
        finally:
            self._use(usual)
            self._forget()

    def _use(self, options: dict[str, Any]) -> None:
        for name, value in options.items():
            self._connection.set_option(name, value)

    def _answer(self, window: int) -> dict[str, Any] | None:
        """The program's document, once it is whole; None when the host stays silent for the window.

        A host that answers and works on has all its time: what runs on it is bounded there.
        """
        silent_since = time.monotonic()
        while time.monotonic() - silent_since < window:
            try:
                outcome = self._low_level_execute_command(_LOOK, sudoable=True)
            except AnsibleConnectionFailure:
                time.sleep(_PAUSE)
                continue
            text = str(outcome["stdout"]).strip()
            if text == "working":
                silent_since = time.monotonic()
            else:
                try:
                    document = json.loads(text)
                except ValueError:
                    document = None
                if isinstance(document, dict):
                    return document
            time.sleep(_PAUSE)
        return None

    def _forget(self) -> None:
        """Nothing is kept of a connection that the change may have cut."""
        try:
            self._connection.reset()
        except (AnsibleConnectionFailure, AttributeError, OSError):
            return


def _own_connection(window: int) -> dict[str, Any]:
    """Options of ssh for several attempts within the window: a slow host has a long one."""
    alive = max(_LEAST_ALIVE, window // 20)
    fixed = "-o ControlMaster=no -o ControlPath=none -o ServerAliveCountMax=3"
    return {
        "ssh_args": f"{fixed} -o ServerAliveInterval={alive}",
        "timeout": max(_LEAST_CONNECT, window // 4),
    }


def _lost(host: str, problem: str, window: int, reverts_at: str) -> str:
    """The message of a change that gave no answer."""
    if problem:
        return (
            f"fabric.change.failed: {host}: the change could not be started ({problem}); nothing was "
            f"changed. Fix: `systemctl status {_UNIT}` on {host}, then site.yml."
        )
    back = (
        f" Both hosts go back to their former configuration by themselves, {host} at {reverts_at}."
        if reverts_at
        else ""
    )
    return (
        f"fabric.connection.lost: {host}: no answer within {window} s of changing the rails.{back} "
        f"Fix: wait until then, look at `tandem-host fabric plan` on {host} for what has to do with "
        "the management interface, then site.yml."
    )
