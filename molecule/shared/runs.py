"""What the scenarios' tests share: a run of a playbook as a person starts it, and commands on the hosts."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
LAB = os.environ.get("TANDEM_LAB_NAME", "molecule")
NETWORK = os.environ.get("TANDEM_LAB_NETWORK", "10.231.8")
ENVIRONMENT = {
    **os.environ,
    "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
    "ANSIBLE_FORCE_COLOR": "0",
    "ANSIBLE_NOCOLOR": "1",
    "TANDEM_LAB_NAME": LAB,
    "TANDEM_LAB_NETWORK": NETWORK,
}


@dataclass(frozen=True)
class Run:
    """How a playbook ended: its exit status, its output as one line without folding, changes by host."""

    status: int
    text: str
    changed: dict[str, int]

    def says(self, *words: str) -> None:
        """Fail with the whole output unless every one of ``words`` is in it."""
        for word in words:
            assert word in self.text, f"{word!r} is not in the output:\n{self.text}"


def command(
    playbook: str,
    variables: dict[str, Any] | None = None,
    hosts: dict[str, dict[str, Any]] | None = None,
    *options: str,
    scratch: Path,
) -> list[str]:
    """The command line of a run with other variables for all hosts, or for some of them."""
    extra = scratch / "overlay.json"
    extra.write_text(json.dumps(variables or {}), encoding="utf-8")
    inventory = scratch / "overlay.yml"
    inventory.write_text(json.dumps({"all": {"hosts": hosts or {}}}), encoding="utf-8")
    return [
        "ansible-playbook",
        "-i",
        str(PROJECT / "inventory" / "lab"),
        "-i",
        str(inventory),
        str(PROJECT / playbook),
        "--extra-vars",
        f"@{extra}",
        *options,
    ]


def play(
    playbook: str,
    scratch: Path,
    variables: dict[str, Any] | None = None,
    hosts: dict[str, dict[str, Any]] | None = None,
    *options: str,
) -> Run:
    """Run a playbook to its end."""
    outcome = subprocess.run(
        command(playbook, variables, hosts, *options, scratch=scratch),
        cwd=PROJECT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    text = outcome.stdout + outcome.stderr
    changed = {
        name: int(count)
        for name, count in re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", text, re.MULTILINE)
    }
    return Run(outcome.returncode, re.sub(r"\s+", " ", text), changed)


def on(host: str, script: str, check: bool = True) -> str:
    """Run a script as root on a host and return what it printed."""
    config = Path.home() / ".tandem" / "lab" / LAB / "ssh_config"
    outcome = subprocess.run(
        ["ssh", "-F", str(config), host, "sudo sh -eu"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert not check or outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout.strip()


def lab(*arguments: str) -> None:
    """Run ``tandem lab`` on this scenario's lab."""
    subprocess.run(
        ["tandem", "lab", arguments[0], "--name", LAB, *arguments[1:]], env=ENVIRONMENT, check=True
    )
