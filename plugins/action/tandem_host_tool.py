"""Install ``tandem-host`` on a host as one file, built on the control machine."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

DOCUMENTATION = r"""
module: tandem_host_tool
short_description: Install the program that runs on a Spark
description:
  - Builds C(tandem-host) from C(src/tandem_host) of this project, the same bytes each time, and hands it to
    M(ansible.builtin.copy), which answers for check mode and idempotence. No diff: the file is binary.
options:
  dest: {type: path, required: true, description: Where the program is installed, an absolute path.}
  owner: {type: str, default: root, description: Owner of the file.}
  group: {type: str, default: root, description: Group of the file.}
  mode: {type: str, default: "0755", description: Mode of the file.}
"""
_PLUGINS = Path(__file__).resolve().parents[1]
_SOURCE = _PLUGINS.parent / "src" / "tandem_host"
_DEFAULTS = {"owner": "root", "group": "root", "mode": "0755"}


def _program() -> bytes:
    """The program, by ``plugins/module_utils/tandem_zipapp.py``.

    Loaded by its path: ansible-core puts the project's module_utils into modules, but does not make them
    importable on the control machine.
    """
    spec = importlib.util.spec_from_file_location(
        "tandem_zipapp", _PLUGINS / "module_utils" / "tandem_zipapp.py"
    )
    if spec is None or spec.loader is None:
        raise FileNotFoundError("plugins/module_utils/tandem_zipapp.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return bytes(module.build(_SOURCE))


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
            program = _program()
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
