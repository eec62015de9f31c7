"""What is a host's own on its disk: its name, its keys, its management address. Pure."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from tandem.lab.client import Keys
from tandem.lab.spec import HOST_NAMES, MANAGEMENT, USER, Host, Lab

#: The numeric owner of ``USER``'s files.
USER_ID = 1000


@dataclass(frozen=True)
class OwnFile:
    """A file of a host. ``path`` is below its root; ``owner`` is a numeric user and group."""

    path: str
    text: str
    mode: int = 0o644
    owner: int = 0


def own_files(lab: Lab, host: Host, keys: Keys) -> list[OwnFile]:
    """The files that make the image's copy this host; the machine id is new each time."""
    names = "".join(f"{lab.host(name).address} {name}\n" for name in HOST_NAMES)
    return [
        OwnFile("etc/hostname", f"{host.name}\n"),
        OwnFile("etc/machine-id", f"{uuid.uuid4().hex}\n"),
        OwnFile("etc/hosts", f"127.0.0.1 localhost\n::1 localhost\n{names}"),
        OwnFile(
            "etc/netplan/10-management.yaml",
            "network:\n  version: 2\n  renderer: networkd\n  ethernets:\n"
            f"    {MANAGEMENT}:\n      addresses: [{host.address}/24]\n      link-local: []\n",
            0o600,
        ),
        OwnFile("etc/ssh/ssh_host_ed25519_key", keys.host_private[host.name], 0o600),
        OwnFile("etc/ssh/ssh_host_ed25519_key.pub", keys.host_public[host.name]),
        OwnFile(f"home/{USER}/.ssh/authorized_keys", keys.client_public, 0o600, USER_ID),
    ]
