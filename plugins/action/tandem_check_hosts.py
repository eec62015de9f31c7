"""Compare what both hosts are with what the release needs; runs on the control machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from tandem.checks.findings import report
from tandem.checks.preflight import Needs, host_findings, platform_for
from tandem.release.digest import release_digest

DOCUMENTATION = r"""
module: tandem_check_hosts
short_description: Check the gathered facts of all hosts of the play together
description:
  - Needs the fact C(tandem_host) of every host in the play; connects to nothing, changes nothing.
options:
  release: {type: str, required: true, description: Name of the release.}
  platforms: {type: list, elements: dict, required: true, description: The release's platforms.}
  accelerator: {type: str, required: true, description: What computes, C(cuda) or C(cpu).}
  disk_gib: {type: dict, required: true, description: Free GiB wanted by directory.}
  release_dir: {type: str, required: true, description: The release's folder on the control machine.}
  memory_gib: {type: float, required: true, description: Memory of each host in GiB.}
  ports: {type: dict, required: true, description: Ports that must be free, by variable name.}
"""


class ActionModule(ActionBase):  # type: ignore[misc]
    """``tandem_check_hosts``: fails with all findings of all hosts, or passes."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return ``failed``, ``msg`` and ``findings``; never ``changed``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        hostvars = variables["hostvars"]
        names = [str(name) for name in variables["ansible_play_hosts_all"]]
        arguments = self._task.args
        facts = {name: hostvars[name]["ansible_facts"]["tandem_host"] for name in names}
        platforms = [dict(item) for item in arguments["platforms"]]
        accelerator = str(arguments["accelerator"])
        release_ids = {}
        for name, host in facts.items():
            platform = platform_for(host, platforms, accelerator)
            if platform is not None:
                digest = release_digest(Path(arguments["release_dir"]), str(platform["name"]))
                release_ids[name] = f"{arguments['release']}-{digest}"
        needs = Needs(
            release=str(arguments["release"]),
            platforms=platforms,
            accelerator=accelerator,
            disk_gib={str(path): float(gib) for path, gib in arguments["disk_gib"].items()},
            memory_gib=float(arguments["memory_gib"]),
            release_ids=release_ids,
            ports={str(name): int(port) for name, port in arguments["ports"].items()},
            rails={
                name: [str(rail["netdev"]) for rail in hostvars[name]["tandem_rails"] if rail.get("netdev")]
                for name in names
            },
        )
        result.update(report(host_findings(facts, needs)))
        return result
