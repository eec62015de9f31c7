"""The plan: who configures the rails now, what will, and what changes on the way. It changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tandem_host import addresses, cluster
from tandem_host.addresses import Interface
from tandem_host.cluster import Cluster, Node
from tandem_host.fabric import local, rails
from tandem_host.fabric.layout import cages, changes, claims, known, netplan, profiles, render
from tandem_host.fabric.layout.changes import Change
from tandem_host.fabric.layout.claims import Claim
from tandem_host.findings import Finding, as_json, error, has_errors, info
from tandem_host.host import Host

MODE = 0o600
#: What netplan mends by being applied again: the files are right and the interface is not.
_MENDED = frozenset(
    {
        "fabric.address.misplaced",
        "fabric.address.missing",
        "fabric.address.prefix",
        "fabric.mtu.mismatch",
    }
)


@dataclass(frozen=True)
class Wish:
    """What is asked for: the cluster's description, which host this is, where the file is, who renders it.

    ``management``: addresses by which the host is reached while it is changed.
    """

    config: Path
    rank: int | None
    netplan_file: str
    renderer: str
    management: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs to know; ``live`` says in words where the host is not as its files say."""

    node: Node
    claims: tuple[Claim, ...]
    layout: str
    text: str
    changes: tuple[Change, ...]
    live: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def changed(self) -> bool:
        """Whether there is something to do."""
        return bool(self.changes or self.live)

    @property
    def links(self) -> tuple[str, ...]:
        """Bonds and bridges that go with the files that made them."""
        return tuple(link for claim in self.claims for link in claim.links)

    def as_json(self, wish: Wish) -> dict[str, Any]:
        """The plan as ``fabric plan`` prints it."""
        return {
            "host": self.node.name,
            "rank": self.node.rank,
            "rails": [{"netdev": rail.netdev, "address": str(rail.address)} for rail in self.node.rails],
            "layout": self.layout,
            "owners": [
                {"netdev": rail.netdev, "files": _owners(self.claims, rail.netdev)}
                for rail in self.node.rails
            ],
            "replaces": [change.as_json() for change in self.changes],
            "links": list(self.links),
            "file": {"path": wish.netplan_file, "mode": f"{MODE:04o}", "text": self.text},
            "diff": changes.diff(self.changes),
            "live": list(self.live),
            "changed": self.changed,
            "findings": as_json(self.findings),
        }


def make(host: Host, wish: Wish) -> Plan:
    """Look at the host and say what must change; raises UnusableError where that cannot be known."""
    described = cluster.read(wish.config)
    interfaces = addresses.read(host)
    own = cluster.own_node(described, wish.rank, addresses.held(interfaces), host.name)
    node, findings = cages.choose(host, own)
    if has_errors(findings):
        return Plan(node, (), "none", "", (), (), tuple(findings))
    netdevs = [str(rail.netdev) for rail in node.rails]
    findings += _fit(host, node, netdevs)
    findings += _reached_by(node, netdevs, interfaces, wish.management)
    found, problems = _read(host, netdevs, wish.netplan_file)
    findings += problems
    file = host.path(wish.netplan_file)
    layout = known.name(found, file.exists())
    text = render.text(described, node, wish.renderer)
    if has_errors(findings):
        return Plan(node, found, layout, text, (), (), tuple(findings))
    wanted = [*_taken_over(found), *_own_file(file, wish.netplan_file, text)]
    if found:
        findings.append(_told(node, found, layout))
    live = _live(host, described, node, interfaces) if not wanted else []
    return Plan(node, found, layout, text, tuple(wanted), tuple(live), tuple(findings))


def _read(host: Host, netdevs: Sequence[str], own: str) -> tuple[tuple[Claim, ...], list[Finding]]:
    ends = [claims.rail(host, netdev) for netdev in netdevs]
    readings = [
        netplan.read(host, ends, own),
        profiles.keyfiles(host, ends),
        profiles.networks(host, ends),
        profiles.interfaces(host, ends),
    ]
    found = tuple(claim for reading in readings for claim in reading.claims)
    return found, [finding for reading in readings for finding in reading.findings]


def _fit(host: Host, node: Node, netdevs: Sequence[str]) -> list[Finding]:
    """What must not become a rail, whatever the inventory says."""
    found = []
    management = local.default_route_netdevs(host)
    for netdev in netdevs:
        if not host.exists(f"/sys/class/net/{netdev}"):
            there = ", ".join(name for name in host.names("/sys/class/net") if name != "lo") or "none"
            text = f"{node.name}: there is no interface {netdev} (there are: {there})."
            found.append(
                error("fabric.interface.missing", text, "`ip -br link` shows the names on this host.")
            )
        elif netdev in management:
            text = f"{node.name}: {netdev} carries the default route, so it is not taken for a rail."
            fix = "name the ConnectX-7 interfaces in tandem_rails, or leave netdev out."
            found.append(error("fabric.link.management", text, fix))
    return found


def _reached_by(
    node: Node, netdevs: Sequence[str], interfaces: Sequence[Interface], management: Sequence[str]
) -> list[Finding]:
    """Rails of the inventory that would take away the way to this host."""
    found = []
    for interface in interfaces:
        held = [str(own.ip) for own in interface.addresses if str(own.ip) in management]
        if interface.name in netdevs and held:
            text = (
                f"{node.name}: {interface.name} holds {held[0]}, by which this host is reached, "
                "so it is not taken for a rail."
            )
            fix = "name the ConnectX-7 interfaces in tandem_rails, or leave netdev out."
            found.append(error("fabric.link.management", text, fix))
    return found


def _owners(found: Sequence[Claim], netdev: str | None) -> list[dict[str, str]]:
    return [{"kind": claim.kind, "path": claim.path} for claim in found if netdev in claim.netdevs]


def _told(node: Node, found: Sequence[Claim], layout: str) -> Finding:
    files = ", ".join(claim.path for claim in found)
    text = f"{node.name}: the rails are configured by {files} ({known.IN_WORDS[layout]})."
    fix = "Nothing to do: Tandem keeps a copy and takes over; `playbooks/fabric_restore.yml` puts it back."
    return info("fabric.layout.replaced", text, fix)


def _taken_over(found: Sequence[Claim]) -> list[Change]:
    wanted = []
    for claim in found:
        names = ", ".join(claim.netdevs or claim.links)
        content = None if claim.rest is None else claim.rest.encode()
        why = f"configured {names}" if content is None else f"{names} left out; the rest means what it did"
        wanted.append(Change(claim.path, content, claim.part, "", why))
    return wanted


def _own_file(file: Path, path: str, text: str) -> list[Change]:
    try:
        before = file.read_bytes()
        if before == text.encode() and file.stat().st_mode & 0o7777 == MODE:
            return []
    except FileNotFoundError:
        before = b""
    shown = before.decode("utf-8", errors="replace")
    return [Change(path, text.encode(), shown, text, "configures the rails", MODE)]


def _live(host: Host, described: Cluster, node: Node, interfaces: tuple[Interface, ...]) -> list[str]:
    """Where the host is not as the file says although the file is there."""
    # Without RDMA: what netplan can mend is the same for all kinds, and the ports need not be read.
    plain = replace(described, fabric=replace(described.fabric, kind="ethernet"))
    _, findings = rails.find(rails.View(host, interfaces, ()), plain, node)
    live = [item.message for item in findings if item.code in _MENDED]
    wanted = {rail.netdev for rail in node.rails}
    live += [
        f"{node.name}: {item.name} is set down."
        for item in interfaces
        if item.name in wanted and "UP" not in item.flags
    ]
    return live
