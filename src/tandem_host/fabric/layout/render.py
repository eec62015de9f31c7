"""The one netplan file that configures the rails."""

from __future__ import annotations

import json
import re

from tandem_host.cluster import Cluster, Node, Rail

HEADER = """\
# Managed by Tandem (tandem-host fabric apply): what is changed here by hand, the next run replaces.
# The rails between the Sparks. To change them, change tandem_rails or tandem_fabric_mtu in the inventory.
"""
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def text(cluster: Cluster, node: Node, renderer: str) -> str:
    """The file's text; every rail has its interface. An empty ``renderer`` keeps the host's own."""
    rails = "".join(_rail(rail, cluster.fabric.mtu, renderer) for rail in node.rails)
    return f"{HEADER}network:\n  version: 2\n  ethernets:\n{rails}"


def _rail(rail: Rail, mtu: int, renderer: str) -> str:
    lines = [f"renderer: {renderer}"] if renderer else []
    lines += ["dhcp4: false", "dhcp6: false", "accept-ra: false"]
    if rail.address.version == 4:  # noqa: PLR2004
        # A link-local IPv6 address takes GID entries; a stable-privacy one moves the others when it comes.
        lines += ["link-local: []"]
    else:
        lines += ["link-local: [ipv6]", "ipv6-address-generation: eui64"]
    address = json.dumps(str(rail.address)) if rail.address.version == 6 else str(rail.address)  # noqa: PLR2004
    # A cable that is out for a moment must not take the address: its GID would come back at another index.
    lines += ["optional: true", "ignore-carrier: true", f"mtu: {mtu}", f"addresses: [{address}]"]
    return f"    {_key(str(rail.netdev))}:\n" + "".join(f"      {line}\n" for line in lines)


def _key(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else json.dumps(name)
