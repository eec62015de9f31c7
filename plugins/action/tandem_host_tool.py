"""Install ``tandem-host`` on a host as one file, built on the control machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from tandem.host_tool import build

DOCUMENTATION = r"""
module: tandem_host_tool
short_description: Install the program that runs on a Spark
description:
  - Builds C(tandem-host) from C(src/tandem_host) of this project, the same bytes each time, and hands it to
    M(ansible.builtin.copy), which answers for check mode and idempotence. It has no diff, because the
    file is binary.
options:
  dest: {type: path, required: true, description: Where the program is installed, an absolute path.}
  owner: {type: str, default: root, description: Owner of the file.}
  group: {type: str, default: root, description: Group of the file.}
  mode: {type: str, default: "0755", description: Mode of the file.}
"""
_DEFAULTS = {"owner": "root", "group": "root", "mode": "0755"}


class ActionModule(ActionBase):  # type: ignore[misc]
    """``tandem_host_tool``: what ``copy`` answers, for a program that is built here."""

    TRANSFERS_FILES = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Build the program, copy it, and return the result of the copy."""
        super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        unknown = sorted(set(arguments) - {"dest", *_DEFAULTS})
        if unknown or not str(arguments.get("dest", "")).startswith("/"):
            wrong = f"unknown: {', '.join(unknown)}" if unknown else f"dest: {arguments.get('dest')!r}"
            raise AnsibleActionFail(
                f"tandem_host_tool takes dest (absolute), owner, group and mode ({wrong})"
            )
        try:
            program = build()
        except OSError as problem:
            raise AnsibleActionFail(f"tandem-host cannot be built: {problem}") from problem
        with tempfile.TemporaryDirectory(prefix="tandem-host-") as directory:
            built = Path(directory) / "tandem-host"
            built.write_bytes(program)
            return self._copy({**_DEFAULTS, **arguments, "src": str(built)}, task_vars)

    def _copy(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        task = self._task.copy()
        task.args = arguments
        task.diff = False
        action = self._shared_loader_obj.action_loader.get(
            "ansible.builtin.copy",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        result: dict[str, Any] = action.run(task_vars=task_vars)
        return result
