"""A lab's life: up, down, power and cables, each under the lab's lock."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from tandem.lab import client, disk, image, network, power
from tandem.lab.client import Owner
from tandem.lab.shell import run
from tandem.lab.spec import CACHE, RAILS, STATE, Host, Lab, LabError

BOOT_SECONDS = 90


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lab's lock: its folder. A second command waits; a folder that went away is made again."""
    directory = STATE / name
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if directory.exists() and os.fstat(descriptor).st_ino == directory.stat().st_ino:
                yield
                return
        finally:
            for empty in (directory, STATE):
                with suppress(OSError):
                    empty.rmdir()
            os.close(descriptor)


def existing(name: str) -> Lab | None:
    """The lab called ``name``, or None. Raises LabError where its record cannot be read."""
    record = STATE / name / "lab.json"
    try:
        document = json.loads(record.read_text(encoding="utf-8"))
        return Lab(name=name, network=document["network"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as problem:
        raise LabError(f"{record} is damaged; `tandem lab down --name {name}` removes the lab") from problem


def labs() -> list[str]:
    """The names of the labs on this machine."""
    return sorted(path.parent.name for path in STATE.glob("*/lab.json"))


def up(lab: Lab, owner: Owner) -> bool:
    """Make the lab, or what is missing of it; returns whether anything had to be done.

    Raises LabError; what was made by then stays for the next ``up`` or for ``down``.
    """
    with locked(lab.name):
        there = existing(lab.name)
        if there and there.network != lab.network:
            raise LabError(
                f"lab {lab.name} is up on {there.network}.0/24; `tandem lab down --name {lab.name}` first, "
                "or give the new one another --name"
            )
        network.refuse_overlap(lab)
        root = image.ensure()
        record = lab.directory / "lab.json"
        if there:
            root = Path(json.loads(record.read_text(encoding="utf-8"))["image"])
            if not root.is_dir():
                raise LabError(
                    f"the image {root} of lab {lab.name} is gone; `tandem lab down --name {lab.name}` first"
                )
        changed = _make(lab, root, record, owner)
        await_boot(lab, lab.hosts, owner)
    return changed


def _make(lab: Lab, root: Path, record: Path, owner: Owner) -> bool:
    if not record.exists():
        keys = client.make_keys(lab)
        for host in lab.hosts:
            disk.remove(host)
            disk.ensure(lab, host, root, keys)
        client.write(lab, keys, owner)
        # Written last: a record says that disks and keys belong together.
        record.write_text(
            json.dumps({"network": lab.network, "image": str(root), "client": str(owner.directory)})
        )
    changed = False
    if not network.is_complete(lab):
        for host in lab.hosts:
            power.cut(host)
        network.remove(lab)
        network.create(lab)
        changed = True
    for host in lab.hosts:
        if power.is_on(host):
            continue
        if not host.root.is_mount():
            disk.ensure(lab, host, root, client.Keys("", "", {}, {}))
        power.on(host)
        changed = True
    return changed


def down(name: str, owner: Owner) -> bool:
    """Remove the lab and everything of it; returns whether there was one. Works on half a lab as well."""
    if not (STATE / name).exists():
        return False
    with locked(name):
        try:
            lab = existing(name)
        except LabError:
            lab = None
        # The names of namespaces, interfaces and folders follow from the lab's name alone.
        lab = lab or Lab(name=name, network="10.0.0")
        recorded = _recorded_client(lab) or owner.directory
        for host in lab.hosts:
            power.cut(host)
        network.remove(lab)
        for host in lab.hosts:
            disk.remove(host)
        client.remove(Owner(owner.uid, owner.gid, recorded))
        shutil.rmtree(lab.directory)
    return True


def _recorded_client(lab: Lab) -> Path | None:
    try:
        return Path(json.loads((lab.directory / "lab.json").read_text(encoding="utf-8"))["client"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def purge() -> None:
    """Remove the cached images. Raises LabError while a lab uses them."""
    if labs():
        raise LabError(
            f"these labs still stand on the cached image: {', '.join(labs())}; take them down first"
        )
    shutil.rmtree(CACHE, ignore_errors=True)


def kill(lab: Lab, host: Host) -> None:
    """Cut the host's power: what its disk does not hold by then is lost."""
    with locked(lab.name):
        power.cut(host)


def start(lab: Lab, host: Host, owner: Owner) -> None:
    """Switch the host on and wait until it is up."""
    with locked(lab.name):
        if not power.is_on(host):
            power.on(host)
        await_boot(lab, [host], owner)


def reboot(lab: Lab, hosts: list[Host], owner: Owner) -> None:
    """Reboot hosts as `systemctl reboot` does, all at once, and wait until they are up again."""
    with locked(lab.name):
        before = {host.name: _boot_id(owner, host) for host in hosts}
        for host in hosts:
            subprocess.run(
                [*ssh(owner, host), "sudo systemctl reboot"], capture_output=True, check=False, timeout=30
            )
        deadline = time.monotonic() + BOOT_SECONDS
        for host in hosts:
            while _boot_id(owner, host) in {"", before[host.name]}:
                if time.monotonic() > deadline:
                    raise LabError(
                        f"{host.name} did not come back within {BOOT_SECONDS} s; see {host.console}"
                    )
                time.sleep(0.2)
        await_boot(lab, hosts, owner)


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


def await_boot(lab: Lab, hosts: tuple[Host, ...] | list[Host], owner: Owner) -> None:
    """Wait until systemd says `running` on each host. Raises LabError with the console's last lines."""
    with ThreadPoolExecutor(len(hosts)) as pool:
        list(pool.map(lambda host: _await_one(lab, host, owner), hosts))


def _await_one(lab: Lab, host: Host, owner: Owner) -> None:
    deadline = time.monotonic() + BOOT_SECONDS
    said = ""
    while time.monotonic() < deadline:
        outcome = subprocess.run(
            [*ssh(owner, host), "systemctl is-system-running --wait"],
            capture_output=True,
            text=True,
            check=False,
            timeout=BOOT_SECONDS,
        )
        said = outcome.stdout.strip() or outcome.stderr.strip()
        if said == "running":
            return
        if said in {"degraded", "maintenance"}:
            break
        if not power.is_on(host):
            said = "its power supply ended"
            break
        time.sleep(0.15)
    console = host.console.read_text(encoding="utf-8", errors="replace").splitlines()[-10:]
    raise LabError(
        f"{host.name} of lab {lab.name} does not come up ({said}); the end of {host.console}:\n  "
        + "\n  ".join(console)
        + f"\nFix: `tandem lab down --name {lab.name}`, then up again"
    )


def _boot_id(owner: Owner, host: Host) -> str:
    outcome = subprocess.run(
        [*ssh(owner, host), "cat /proc/sys/kernel/random/boot_id"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return outcome.stdout.strip()


def ssh(owner: Owner, host: Host) -> list[str]:
    """The command line that reaches a host; a script follows as one word."""
    return [
        "ssh",
        "-F",
        str(owner.directory / "ssh_config"),
        "-o",
        "ConnectTimeout=2",
        "-o",
        "BatchMode=yes",
        host.name,
    ]


def status(lab: Lab) -> dict[str, object]:
    """What there is of a lab, as one JSON-like document."""
    complete = network.is_complete(lab)
    return {
        "lab": lab.name,
        "network": f"{lab.network}.0/24",
        "hosts": [
            {
                "name": host.name,
                "address": host.address,
                "power": "on" if power.is_on(host) else "off",
                "disk_mib": _mib(host.directory / "upper"),
            }
            for host in lab.hosts
        ],
        "cables": {
            netdev: "missing" if not complete else "plugged" if network.is_plugged(lab, netdev) else "pulled"
            for netdev in RAILS
        },
    }


def _mib(directory: Path) -> int:
    if not directory.is_dir():
        return 0
    return int(run("du", "--summarize", "--one-file-system", "--block-size=1M", str(directory)).split()[0])
