"""The action plugin ``tandem_host_tool`` in a real play on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tandem_host

PROJECT = Path(tandem_host.__file__).resolve().parents[2]


def play(directory: Path, arguments: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    """Run the one task; the answer has Ansible's output."""
    file = directory / "play.json"
    task = {"name": "The tool is installed", "tandem_host_tool": arguments}
    file.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]))
    settings = directory / "ansible.cfg"
    settings.write_text(f"[defaults]\naction_plugins = {PROJECT / 'plugins/action'}\n")
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(settings),
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_HOME": str(directory / "home"),
        "ANSIBLE_NOCOLOR": "1",
    }
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    interpreter = f"ansible_python_interpreter={sys.executable}"
    command = [program, "-i", "localhost,", "-c", "local", "-e", interpreter, str(file), *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_check_install_and_a_second_run(tmp_path: Path) -> None:
    destination = tmp_path / "tandem-host"
    owner = {"owner": os.getuid(), "group": os.getgid()}
    arguments = {"dest": str(destination), **owner}
    answer = play(tmp_path, arguments, "--check", "--diff")
    assert "changed=1" in answer.stdout, answer.stdout + answer.stderr
    assert not destination.exists()
    answer = play(tmp_path, arguments, "--diff")
    assert "changed=1" in answer.stdout
    assert "PK" not in answer.stdout
    assert "+++" not in answer.stdout
    assert destination.stat().st_mode & 0o777 == 0o755
    for options in ((), ("--check",)):
        assert "changed=0" in play(tmp_path, arguments, *options).stdout
    destination.write_bytes(destination.read_bytes() + b"x")
    assert "changed=1" in play(tmp_path, arguments).stdout


@pytest.mark.parametrize("arguments", [{"dest": "relative"}, {}, {"dest": "/x", "force": True}])
def test_wrong_arguments(tmp_path: Path, arguments: dict[str, Any]) -> None:
    answer = play(tmp_path, arguments)
    assert answer.returncode == 2
    assert "tandem_host_tool takes dest" in answer.stdout + answer.stderr
