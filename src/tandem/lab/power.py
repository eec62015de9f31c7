"""Power of a virtual Spark: a systemd-nspawn process that boots it, and boots it again when it reboots.

Where systemd is this machine's PID 1, the process is a transient unit of it; elsewhere a session of its own.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

from tandem.lab import cgroup, network
from tandem.lab.shell import run, succeeds
from tandem.lab.spec import MANAGEMENT, RAILS, Host, LabError

#: systemd-nspawn's exit status for "boot it again" under --keep-unit.
REBOOT = 133


def under_systemd() -> bool:
    """Whether systemd is this machine's PID 1."""
    return Path("/run/systemd/system").is_dir() and Path("/proc/1/comm").read_text().strip() == "systemd"


def script(host: Host, groups: list[Path]) -> str:
    """The shell script that is a host's power supply; it moves itself to the control groups ``groups``."""
    join = "".join(f"echo $$ >{group}/cgroup.procs\n" for group in groups)
    ip = f"ip -n {host.namespace}"
    reset = "\n".join(
        f"  {ip} link set {device} down mtu 1500\n  {ip} address flush dev {device}"
        for device in (MANAGEMENT, *RAILS)
    )
    boot = shlex.join(
        [
            "systemd-nspawn",
            "--quiet",
            "--boot",
            "--register=no",
            "--keep-unit",
            "--link-journal=no",
            "--resolv-conf=off",
            "--timezone=off",
            "--capability=CAP_NET_ADMIN",
            f"--machine={host.machine}",
            f"--hostname={host.name}",
            f"--network-namespace-path=/run/netns/{host.namespace}",
            f"--directory={host.root}",
        ]
    )
    return f"""#!/bin/sh
# Power of {host.name}: boots it, and boots it again when it reboots. Made by `tandem lab up`.
export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 SYSTEMD_NSPAWN_API_VFS_WRITABLE=network
{join}while :; do
{reset}
  {boot}
  status=$?
  [ "$status" -eq {REBOOT} ] || exit "$status"
done
"""


def is_on(host: Host) -> bool:
    """Whether anything runs on the host."""
    return _supply(host) is not None or bool(network.processes(host))


def on(host: Host) -> None:
    """Switch the host on; does not wait for its boot."""
    file = host.directory / "power.sh"
    groups = [] if under_systemd() else cgroup.make(host.machine)
    file.write_text(script(host, groups), encoding="utf-8")
    if under_systemd():
        unit = ["--quiet", "--collect", f"--unit={_unit(host)}", "--property=Delegate=yes"]
        output = f"--property=StandardOutput=append:{host.console}"
        run("systemd-run", *unit, "--property=TasksMax=infinity", output, "/bin/sh", str(file))
        return
    with host.console.open("ab") as console:
        process = subprocess.Popen(
            ["/bin/sh", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )
    _pid_file(host).write_text(f"{process.pid} {_birth(process.pid)}\n", encoding="utf-8")


def cut(host: Host) -> None:
    """Take the power away: every process of the host ends at once, its interfaces go down."""
    supply = _supply(host)
    if supply is not None:
        _kill_group(supply)
    if under_systemd():
        succeeds(["systemctl", "kill", "--kill-whom=all", "--signal=KILL", _unit(host)])
        succeeds(["systemctl", "reset-failed", _unit(host)])
    deadline = time.monotonic() + 20
    while left := network.processes(host):
        if time.monotonic() > deadline:
            raise LabError(f"{host.name} does not switch off; these processes stay: {left}")
        for pid in left:
            _kill(pid)
        time.sleep(0.05)
    _pid_file(host).unlink(missing_ok=True)
    if Path("/run/netns", host.namespace).exists():
        network.power_off(host)
    _sweep(host)


def _sweep(host: Host) -> None:
    """Remove what systemd-nspawn leaves when it is killed."""
    if not under_systemd():
        cgroup.remove(host.machine)
    for directory in (
        Path("/run/systemd/nspawn/propagate", host.machine),
        Path("/run/systemd/nspawn/unix-export", host.machine),
    ):
        succeeds(["umount", str(directory)])
        succeeds(["rmdir", str(directory)])
    if host.root.is_dir():
        # systemd-nspawn names a folder's lock after its device and inode.
        place = host.root.stat()
        Path("/run/systemd/nspawn/locks", f"inode-{place.st_dev}:{place.st_ino}").unlink(missing_ok=True)
    (host.directory / f".#{host.root.name}.lck").unlink(missing_ok=True)


def _unit(host: Host) -> str:
    return f"{host.machine}.service"


def _pid_file(host: Host) -> Path:
    return host.directory / "power.pid"


def _supply(host: Host) -> int | None:
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


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
