"""Say what must change in the rails' configuration of a host, also on one that has no host tool yet."""

from __future__ import annotations

import json
import shlex
import socket
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from tandem.checks.findings import errors, render
from tandem.checks.plain import plain
from tandem.host_tool import build

DOCUMENTATION = r"""
module: tandem_fabric_plan
short_description: Compare the configuration of a host's rails with what is wanted
description:
  - Sends C(tandem-host), built here, with its input to the host, runs C(fabric plan) and removes it again.
  - Changes nothing, the same in check mode. C(changed) and C(diff) are what the change would be.
options:
  cluster: {type: dict, required: true, description: The content of cluster.json.}
  rank: {type: int, required: true, description: The host's rank.}
  netplan_file: {type: path, required: true, description: The netplan file that Tandem writes.}
  state_dir: {type: path, required: true, description: Where copies and a change on trial are kept.}
  management: {type: str, default: "", description: Name or address by which the host is reached.}
  renderer: {type: str, default: "", description: Who carries it out; empty keeps the host's own.}
"""
# One round trip: the program arrives on standard input, its input (nothing secret) on the command line.
_SCRIPT = (
    'umask 077; d="$(mktemp -d)" || exit 3; trap \'rm -rf "$d"\' EXIT; cat >"$d/tandem-host" && '
    'printf %s {cluster} >"$d/cluster.json" && '
    '/usr/bin/python3 -IS "$d/tandem-host" fabric plan --config "$d/cluster.json" {options}'
)


class ActionModule(ActionBase):  # type: ignore[misc]
    """``tandem_fabric_plan``: ``changed``, ``diff``, ``live``, ``layout`` and ``replaces`` of the plan."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the plan; fails with its findings of level error."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = self._task.args
        options = ["--rank", str(arguments["rank"]), "--netplan-file", str(arguments["netplan_file"])]
        options += ["--state-dir", str(arguments["state_dir"])]
        for address in _addresses(str(arguments.get("management") or "")):
            options += ["--management", address]
        if arguments.get("renderer"):
            options += ["--renderer", str(arguments["renderer"])]
        script = _SCRIPT.format(
            cluster=shlex.quote(json.dumps(plain(arguments["cluster"]))), options=shlex.join(options)
        )
        answer = self._low_level_execute_command(script, in_data=build(), sudoable=True)
        host = (task_vars or {}).get("inventory_hostname", "")
        try:
            plan = json.loads(answer["stdout"])
            findings = plan["findings"]
        except (ValueError, KeyError, TypeError) as problem:
            words = " ".join(str(answer.get(name, "")).strip() for name in ("stdout", "stderr")).strip()
            raise AnsibleActionFail(f"{host}: tandem-host gave no plan: {words[-500:]}") from problem
        if errors(findings):
            result.update(failed=True, msg=render(errors(findings)), findings=findings)
            return result
        result.update(
            {name: plan[name] for name in ("changed", "layout", "live", "pending", "replaces", "rails")},
            findings=findings,
        )
        if plan["diff"]:
            result["diff"] = {"prepared": plan["diff"]}
        return result


def _addresses(name: str) -> list[str]:
    """The addresses of a host as this machine knows them; none where only ssh knows the name."""
    try:
        return sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, None)}) if name else []
    except OSError:
        return []
