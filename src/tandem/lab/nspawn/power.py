"""Power of a container host: a systemd-nspawn process that boots it, and boots it again when it reboots."""

from __future__ import annotations

import os
import shlex
import signal
import time
from contextlib import suppress
from pathlib import Path

from tandem.lab import supply
from tandem.lab.nspawn import cgroup, network
from tandem.lab.shell import succeeds
from tandem.lab.spec import MANAGEMENT, RAILS, Host, LabError

#: systemd-nspawn's exit status for "boot it again" under --keep-unit.
REBOOT = 133


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
    return supply.is_alive(host) or bool(network.processes(host))


def on(host: Host) -> None:
    """Switch the host on; does not wait for its boot."""
    file = host.directory / "power.sh"
    groups = [] if supply.under_systemd() else cgroup.make(host.machine)
    file.write_text(script(host, groups), encoding="utf-8")
    supply.start(host, ["/bin/sh", str(file)])


def cut(host: Host) -> None:
    """Take the power away: every process of the host ends at once, its interfaces go down."""
    supply.kill(host)
    deadline = time.monotonic() + 20
    while left := network.processes(host):
        if time.monotonic() > deadline:
            raise LabError(f"{host.name} does not switch off; these processes stay: {left}")
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    if Path("/run/netns", host.namespace).exists():
        network.power_off(host)
    _sweep(host)


def _sweep(host: Host) -> None:
    """Remove what systemd-nspawn leaves when it is killed."""
    if not supply.under_systemd():
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
