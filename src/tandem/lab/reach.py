"""Reaching the hosts over ssh: ask one something, wait for a boot, bring files."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tandem.lab.client import Owner
from tandem.lab.spec import Host, Lab, LabError


def ssh(owner: Owner, host: Host) -> list[str]:
    """The command line that reaches a host; a script follows as one word."""
    options = ("ConnectTimeout=2", "BatchMode=yes", "ServerAliveInterval=5", "ServerAliveCountMax=4")
    return [
        "ssh",
        "-F",
        str(owner.directory / "ssh_config"),
        *(word for option in options for word in ("-o", option)),
        host.name,
    ]


def ask(owner: Owner, host: Host, script: str, timeout: float = 30) -> str:
    """What ``script`` prints on the host, or what ssh says; empty where it does not answer in time."""
    try:
        outcome = subprocess.run(
            [*ssh(owner, host), script],
            stdin=subprocess.DEVNULL,  # ssh makes it non-blocking, and leaves it so when it is killed
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return ""
    return outcome.stdout.strip() or outcome.stderr.strip()


def boot_id(owner: Owner, host: Host) -> str:
    """What tells this boot of the host from another; empty where it does not answer at once."""
    answer = ask(owner, host, "cat /proc/sys/kernel/random/boot_id", timeout=10)
    return answer if answer.count("-") == 4 and " " not in answer else ""  # noqa: PLR2004 (a UUID)


def reboot(owner: Owner, host: Host) -> None:
    """Have the host reboot in good order, after ssh hung up: else ssh waits for a peer that is gone."""
    ask(owner, host, "sudo sh -c '(sleep 0.2; exec systemctl reboot) </dev/null >/dev/null 2>&1 &'")


def await_boot(
    lab: Lab, hosts: Sequence[Host], owner: Owner, seconds: int, is_on: Callable[[Host], bool]
) -> None:
    """Wait until systemd says `running` on each host. Raises LabError with the console's last lines."""
    with ThreadPoolExecutor(len(hosts)) as pool:
        list(pool.map(lambda host: _await_one(lab, host, owner, seconds, is_on), hosts))


def await_another_boot(hosts: Sequence[Host], before: dict[str, str], owner: Owner, seconds: int) -> None:
    """Wait until each host answers from another boot than the one in ``before``. Raises LabError."""
    deadline = time.monotonic() + seconds
    for host in hosts:
        while boot_id(owner, host) in {"", before[host.name]}:
            if time.monotonic() > deadline:
                raise LabError(f"{host.name} did not come back within {seconds} s; see {host.console}")
            time.sleep(0.2)


def _await_one(lab: Lab, host: Host, owner: Owner, seconds: int, is_on: Callable[[Host], bool]) -> None:
    deadline = time.monotonic() + seconds
    said = ""
    while time.monotonic() < deadline:
        said = ask(owner, host, "systemctl is-system-running --wait", timeout=seconds)
        if said == "running":
            return
        if said in {"degraded", "maintenance"}:
            failed = ask(owner, host, "systemctl --failed --plain --no-legend | cut -d' ' -f1")
            said = f"{said}: {' '.join(failed.split())}"
            break
        if not is_on(host):
            said = "its power supply ended"
            break
        time.sleep(0.15)
    console = host.console.read_text(encoding="utf-8", errors="replace").splitlines()[-10:]
    raise LabError(
        f"{host.name} of lab {lab.name} does not come up ({said}); the end of {host.console}:\n  "
        + "\n  ".join(console)
        + f"\nFix: `tandem lab down --name {lab.name}`, then up again"
    )


def put(host: Host, source: Path, target: str, owner: Owner) -> None:
    """Copy a file, or what a folder holds, to the path ``target`` on the host, owned by root."""
    if not source.exists():
        raise LabError(f"{source} is not there")
    if not target.startswith("/"):
        raise LabError(f"{target!r} is not an absolute path on {host.name}")
    place = shlex.quote(target)
    if source.is_dir():
        pack = ["tar", "-C", str(source), "--owner=0", "--group=0", "-c", "."]
        unpack = f"sudo mkdir -p {place} && sudo tar -C {place} -x"
    else:
        pack = ["cat", str(source)]
        unpack = f"sudo install -D -m 0644 /dev/stdin {place}"
    with subprocess.Popen(pack, stdout=subprocess.PIPE) as sender:
        receiver = subprocess.run(
            [*ssh(owner, host), unpack], stdin=sender.stdout, capture_output=True, text=True, check=False
        )
    if sender.returncode != 0 or receiver.returncode != 0:
        raise LabError(f"{source} did not arrive on {host.name}: {receiver.stderr.strip()}")


def set_clocks(hosts: Sequence[Host], owner: Owner) -> None:
    """Set the hosts' clocks to this machine's. Raises LabError where a host does not take it."""
    for host in hosts:
        said = ask(owner, host, f"sudo date --utc --set=@{time.time():.3f} >/dev/null && echo set")
        if said != "set":
            raise LabError(f"{host.name} does not take the time: {said or 'no answer'}")
