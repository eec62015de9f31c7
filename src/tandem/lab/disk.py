"""A host's file system: an overlay over the image, or a copy where the kernel refuses overlays."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from tandem.lab.client import Keys
from tandem.lab.shell import run, succeeds
from tandem.lab.spec import HOST_NAMES, MANAGEMENT, USER, Host, Lab


def ensure(lab: Lab, host: Host, image: Path, keys: Keys) -> None:
    """Make the host's root, or mount it again after this machine was restarted."""
    upper, work = host.directory / "upper", host.directory / "work"
    if (host.directory / "copied").exists() or host.root.is_mount():
        return
    for directory in (upper, work, host.root):
        directory.mkdir(parents=True, exist_ok=True)
    new = not (host.directory / "furnished").exists()
    options = f"lowerdir={image},upperdir={upper},workdir={work}"
    if not succeeds(["mount", "-t", "overlay", "overlay", "-o", options, str(host.root)]):
        run("cp", "-a", "--reflink=auto", f"{image}/.", str(host.root), timeout=600)
        (host.directory / "copied").touch()
    if new:
        _furnish(lab, host, keys)
        (host.directory / "furnished").touch()


def unmount(host: Host) -> None:
    """Let go of the host's root; it must be off."""
    if host.root.is_mount():
        run("umount", str(host.root))


def remove(host: Host) -> None:
    """Remove the host's disk; it must be off."""
    unmount(host)
    if host.directory.exists():
        shutil.rmtree(host.directory)


def _furnish(lab: Lab, host: Host, keys: Keys) -> None:
    """What is the host's own: its name, its keys, its management address."""
    root = host.root
    _write(root / "etc/hostname", f"{host.name}\n")
    _write(root / "etc/machine-id", f"{uuid.uuid4().hex}\n")
    names = "".join(f"{lab.host(name).address} {name}\n" for name in HOST_NAMES)
    _write(root / "etc/hosts", f"127.0.0.1 localhost\n::1 localhost\n{names}")
    _write(
        root / "etc/netplan/10-management.yaml",
        "network:\n  version: 2\n  renderer: networkd\n  ethernets:\n"
        f"    {MANAGEMENT}:\n      addresses: [{host.address}/24]\n      link-local: []\n",
        0o600,
    )
    # Read from the image, written here: a copy may not follow a link out of the host's root.
    _write(root / "etc/ssh/ssh_host_ed25519_key", keys.host_private[host.name], 0o600)
    _write(root / "etc/ssh/ssh_host_ed25519_key.pub", keys.host_public[host.name])
    home = root / "home" / USER
    _write(home / ".ssh" / "authorized_keys", keys.client_public, 0o600)
    for path in (home / ".ssh", home / ".ssh" / "authorized_keys"):
        run("chown", "--no-dereference", "1000:1000", str(path))
    (home / ".ssh").chmod(0o700)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=mode)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
