"""What the person at the keyboard needs, below ``~/.tandem/lab``: keys, known hosts, an ssh configuration."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tandem.lab.shell import run
from tandem.lab.spec import HOST_NAMES, USER, Lab


@dataclass(frozen=True)
class Owner:
    """For whom a lab is: root itself, or the person who used sudo."""

    uid: int
    gid: int
    directory: Path


@dataclass(frozen=True)
class Keys:
    """The lab's ssh keys, as text. ``host_*`` by host name."""

    client_private: str
    client_public: str
    host_private: dict[str, str]
    host_public: dict[str, str]


def make_keys(lab: Lab) -> Keys:
    """New ed25519 keys of two hosts and one client; nothing is left on disk."""
    private, public = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in (USER, *HOST_NAMES):
            file = Path(scratch) / name
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@{lab.name}", "-f", str(file))
            private[name] = file.read_text(encoding="utf-8")
            public[name] = file.with_suffix(".pub").read_text(encoding="utf-8")
    return Keys(private.pop(USER), public.pop(USER), private, public)


def ssh_config(lab: Lab, directory: Path) -> str:
    """An ssh configuration that knows the hosts by name and by address."""
    hosts = "\n".join(
        f"Host {host.name} {host.address}\n"
        f"  HostName {host.address}\n"
        f"  HostKeyAlias {host.name}\n"
        f"  User {USER}\n"
        f"  IdentityFile {directory}/id_ed25519\n"
        "  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {directory}/known_hosts\n"
        "  StrictHostKeyChecking yes\n"
        "  LogLevel ERROR\n"
        for host in lab.hosts
    )
    return f"# Two virtual Sparks, made by `tandem lab up --name {lab.name}`.\n{hosts}"


def write(lab: Lab, keys: Keys, owner: Owner) -> None:
    """Write the person's files; the private key is theirs alone."""
    known = "".join(f"{name} {keys.host_public[name]}" for name in HOST_NAMES)
    missing = [parent for parent in (owner.directory, *owner.directory.parents) if not parent.exists()]
    owner.directory.mkdir(parents=True, exist_ok=True)
    for directory in missing:
        os.chown(directory, owner.uid, owner.gid)
        directory.chmod(0o700)
    for name, text, mode in (
        ("id_ed25519", keys.client_private, 0o600),
        ("known_hosts", known, 0o644),
        ("ssh_config", ssh_config(lab, owner.directory), 0o644),
    ):
        file = owner.directory / name
        file.unlink(missing_ok=True)
        file.touch(mode=mode)
        file.write_text(text, encoding="utf-8")
        os.chown(file, owner.uid, owner.gid)


def remove(owner: Owner) -> None:
    """Remove the person's files, and the folders above them that are empty then."""
    shutil.rmtree(owner.directory, ignore_errors=True)
    for parent in (owner.directory.parent, owner.directory.parent.parent):
        if parent.name in {"lab", ".tandem"} and parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()
