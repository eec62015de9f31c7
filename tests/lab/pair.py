"""A lab as a test sees it: the command, a shell on a host, and what there is of it on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem.lab.spec import Lab


@dataclass(frozen=True)
class Pair:
    """Two virtual Sparks of this name and network. A script on a host has ``seconds`` to end."""

    name: str
    network: str
    seconds: int = 60

    def tandem(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        outcome = subprocess.run(
            [sys.executable, "-m", "tandem", "lab", *words, "--name", self.name],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert not check or outcome.returncode == 0, outcome.stdout + outcome.stderr
        return outcome

    def status(self) -> dict[str, Any]:
        [document] = json.loads(self.tandem("status", "--json").stdout)
        return document

    def shell(self, host: str) -> list[str]:
        config = Path.home() / ".tandem" / "lab" / self.name / "ssh_config"
        return ["ssh", "-F", str(config), host, "sudo sh -u"]

    def on(self, host: str, script: str) -> str:
        outcome = subprocess.run(
            self.shell(host),
            input=script,
            capture_output=True,
            text=True,
            check=False,
            timeout=self.seconds,
        )
        return outcome.stdout.strip()

    def traces(self) -> list[str]:
        """What there is of the lab on this machine, in every place that it could be."""
        interfaces = f"tl{Lab(self.name, self.network).tag}"
        words = [f"tandem-{self.name}", f"/{self.name}", interfaces]
        found = subprocess.run(
            ["ip", "netns", "list"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        found += Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        found += Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()
        found += [str(path) for path in Path("/sys/fs/cgroup").glob("*/tandem-*")]
        found += [str(path) for path in Path("/sys/fs/cgroup").glob("tandem-*")]
        found += [str(path) for path in Path("/run/systemd/nspawn").rglob("*")]
        found += [str(path) for path in Path("/var/lib/tandem-lab").glob("*")]
        found += [str(path) for path in (Path.home() / ".tandem" / "lab").glob("*")]
        found += [
            path.read_bytes().decode(errors="replace")
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if path.exists()
        ]
        found += [link.name for link in Path("/sys/class/net").iterdir()]
        return [line for line in found if any(word in line for word in words)]
