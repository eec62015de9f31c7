"""Check the whole inventory on the control machine, before any host is asked anything."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from tandem.checks.findings import render
from tandem.checks.inventory import Cluster, Node, inventory_findings

DOCUMENTATION = r"""
module: tandem_check_inventory
short_description: Check the inventory of a pair
description:
  - Reads the groups and host variables of the run and reports every problem at once.
  - Runs on the control machine, connects to nothing and changes nothing.
options:
  head_group: {type: str, default: head, description: The group that holds rank 0.}
  workers_group: {type: str, default: workers, description: The group that holds the other ranks.}
  fabric_kind: {type: str, required: true, description: How the hosts are joined.}
  mtu: {type: int, required: true, description: Bytes of a frame on the rails.}
  ports: {type: dict, required: true, description: Port numbers by variable name.}
  absolute_paths: {type: dict, default: {}, description: Paths on the hosts by variable name.}
"""


class ActionModule(ActionBase):  # type: ignore[misc]
    """``tandem_check_inventory``: fails with all findings, or passes."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return ``failed``, ``msg`` and ``findings``; never ``changed``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        groups, hostvars = variables["groups"], variables["hostvars"]
        arguments = self._task.args
        head = list(groups.get(arguments.get("head_group", "head"), []))
        workers = list(groups.get(arguments.get("workers_group", "workers"), []))
        cluster = Cluster(
            head=head,
            workers=workers,
            nodes=[
                Node(
                    name=str(name),
                    management=str(hostvars[name].get("ansible_host", name)),
                    rails=_plain(hostvars[name].get("tandem_rails")),
                )
                for name in dict.fromkeys([*head, *workers])
            ],
            play_hosts=list(variables.get("ansible_play_hosts_all", [])),
            fabric_kind=arguments["fabric_kind"],
            mtu=arguments["mtu"],
            ports=dict(arguments["ports"]),
            absolute_paths=dict(arguments.get("absolute_paths", {})),
        )
        findings = inventory_findings(cluster)
        result.update(changed=False, findings=findings)
        if findings:
            result.update(failed=True, msg=render(findings))
        return result


def _plain(value: Any) -> Any:
    """Containers and scalars without Ansible's lazy wrappers, so that messages show plain values."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value
