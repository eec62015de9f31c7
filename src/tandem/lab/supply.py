"""A process that is a host's power supply: as long as it lives, the host is on.

Where systemd is this machine's PID 1, it is a transient unit of it; elsewhere it heads a session of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tandem.lab.shell import run, succeeds
from tandem.lab.spec import Host, LabError


def under_systemd() -> bool:
    """Whether systemd is this machine's PID 1."""
    return Path("/run/systemd/system").is_dir() and Path("/proc/1/comm").read_text().strip() == "systemd"


def start(host: Host, argv: list[str]) -> None:
    """Start ``argv`` as the host's power supply; what it prints is appended to the host's console file."""
    if under_systemd():
        unit = ["--quiet", "--collect", f"--unit={_unit(host)}", "--property=Delegate=yes"]
        output = f"--property=StandardOutput=append:{host.console}"
        run("systemd-run", *unit, "--property=TasksMax=infinity", output, *argv)
        return
    with host.console.open("ab") as console:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )
    _pid_file(host).write_text(f"{process.pid} {_birth(process.pid)}\n", encoding="utf-8")


def is_alive(host: Host) -> bool:
    """Whether the host's power supply runs."""
    if under_systemd():
        return succeeds(["systemctl", "--quiet", "is-active", _unit(host)])
    return _process(host) is not None


def kill(host: Host) -> None:
    """End the power supply and its processes at once. Raises LabError where it stays."""
    process = _process(host)
    if process is not None:
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
    if under_systemd():
        succeeds(["systemctl", "kill", "--kill-whom=all", "--signal=KILL", _unit(host)])
        succeeds(["systemctl", "reset-failed", _unit(host)])
    deadline = time.monotonic() + 20
    while is_alive(host):
        if time.monotonic() > deadline:
            raise LabError(f"{host.name} does not switch off: its power supply stays")
        time.sleep(0.05)
    _pid_file(host).unlink(missing_ok=True)


def _unit(host: Host) -> str:
    return f"{host.machine}.service"


def _pid_file(host: Host) -> Path:
    return host.directory / "power.pid"


def _process(host: Host) -> int | None:
    """The process that is the host's power supply, or None. Its start time tells it from a later namesake."""
    try:
        pid, birth = _pid_file(host).read_text(encoding="utf-8").split()
    except (FileNotFoundError, ValueError):
        return None
    return int(pid) if _birth(int(pid)) == birth else None


def _birth(pid: int) -> str:
    """When a process was started, in clock ticks since boot; an empty text where there is none."""
    try:
        stat = Path("/proc", str(pid), "stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]
