"""What changes a live host besides its files: netplan, NetworkManager, and a timer that puts things back."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tandem_host.host import Host

#: The timer, and the service of the same name that it starts.
DEADMAN = "tandem-fabric-deadman"
_GENERATE_SECONDS = 30
_APPLY_SECONDS = 120


class Machine(Protocol):
    """Each answers None, or what went wrong in the words of the program that was asked."""

    def generate(self) -> str | None:
        """Have netplan read its files."""

    def apply(self, gone: Sequence[str]) -> str | None:
        """Bring the interfaces to what the files say; ``gone``: bonds and bridges that nothing makes now."""

    def arm(self, seconds: int, state_dir: Path) -> str | None:
        """In so many seconds, put back what is pending."""

    def disarm(self) -> None:
        """Do not."""


@dataclass(frozen=True)
class Copied:
    """A copy of a host (--root), where files are all there is."""

    def generate(self) -> str | None:
        """Nothing reads them."""
        return None

    def apply(self, gone: Sequence[str]) -> str | None:  # noqa: ARG002 - as on a live host
        """Nothing to bring anywhere."""
        return None

    def arm(self, seconds: int, state_dir: Path) -> str | None:  # noqa: ARG002 - as on a live host
        """Nobody would be cut off."""
        return None

    def disarm(self) -> None:
        """Nothing was armed."""


@dataclass(frozen=True)
class Live:
    """This machine."""

    def generate(self) -> str | None:
        """``netplan generate``."""
        return _run(["netplan", "generate"], _GENERATE_SECONDS)

    def apply(self, gone: Sequence[str]) -> str | None:
        """``netplan apply``, after NetworkManager has seen which of its profiles are left."""
        if _run(["systemctl", "--quiet", "is-active", "NetworkManager.service"], 10) is None:
            problem = _run(["nmcli", "connection", "reload"], 20)
            if problem:
                return problem
        problem = _run(["netplan", "apply"], _APPLY_SECONDS)
        for link in gone:
            if Path("/sys/class/net", link).exists():
                problem = problem or _run(["ip", "link", "delete", link], 10)
        return problem

    def arm(self, seconds: int, state_dir: Path) -> str | None:
        """A transient timer of systemd; one from before is replaced."""
        self.disarm()
        unit = [f"--unit={DEADMAN}", "--description=Tandem: put back a fabric that nobody confirmed"]
        timer = [f"--on-active={seconds}", "--timer-property=AccuracySec=250ms"]
        program = [
            os.path.realpath(sys.argv[0]),
            "fabric",
            "restore",
            "--pending",
            "--state-dir",
            str(state_dir),
        ]
        return _run(["systemd-run", "--quiet", "--collect", *unit, *timer, *program], 20)

    def disarm(self) -> None:
        """The timer stops; what it has started already waits for its turn and finds nothing to do."""
        _run(["systemctl", "stop", f"{DEADMAN}.timer"], 20)


def of(host: Host) -> Machine:
    """The machine that a host is."""
    return Live() if host.live else Copied()


def _run(command: Sequence[str], seconds: int) -> str | None:
    import subprocess

    words = " ".join(command[:2])
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=seconds,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        return f"{words} did not end within {seconds} s"
    except OSError as problem:
        return f"{words}: {problem.strerror}"
    if answer.returncode == 0:
        return None
    lines = answer.stdout.decode("utf-8", errors="replace").strip().splitlines()
    return f"{words}: {'; '.join(lines[-4:]) or f'exit status {answer.returncode}'}"
