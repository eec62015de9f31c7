"""Check the whole inventory on the control machine, before any host is asked anything."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from tandem.checks.findings import report
from tandem.checks.inventory import Cluster, Node, inventory_findings
from tandem.checks.plain import plain

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
                    rails=plain(hostvars[name].get("tandem_rails")),
                )
                for name in dict.fromkeys([*head, *workers])
            ],
            play_hosts=list(variables.get("ansible_play_hosts_all", [])),
            fabric_kind=arguments["fabric_kind"],
            mtu=arguments["mtu"],
            ports=dict(arguments["ports"]),
            absolute_paths=dict(arguments.get("absolute_paths", {})),
        )
        result.update(report(inventory_findings(cluster)))
        return result
