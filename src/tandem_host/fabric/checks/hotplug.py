"""The marker by which DGX OS powers the network card down when its link is lost."""

from __future__ import annotations

from tandem_host.cluster import Node
from tandem_host.findings import Finding, warning
from tandem_host.host import Host

MARKER = "/etc/nvidia/cx7-hotplug-enabled"


def armed(host: Host) -> bool:
    """Whether the host may take its ConnectX-7 off the bus when the other end of the cable goes away."""
    return host.exists(MARKER)


def findings(host: Host, node: Node) -> list[Finding]:
    """A warning when the marker is there."""
    if not armed(host):
        return []
    text = (
        f"{node.name}: {MARKER} is there: when the other host reboots, this host removes its ConnectX-7, "
        "and it may not come back."
    )
    off = MARKER.replace("enabled", "disabled")
    fix = f"On both hosts: sudo mv {MARKER} {off}; then reboot both together."
    return [warning("fabric.hotplug.armed", text, fix)]
