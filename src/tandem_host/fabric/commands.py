"""The commands: resolve, check, and both in one for the unit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem_host import addresses, cluster
from tandem_host.cluster import Cluster, Node
from tandem_host.fabric import envfile, environment, local, rails, record
from tandem_host.fabric.rails import RailState
from tandem_host.findings import Finding, UnusableError, as_json, error, has_errors, info
from tandem_host.host import Host

# A cable carries only when both ends are up, and drivers take a moment at boot: worth waiting for.
_MAY_COME = frozenset(
    {
        "fabric.address.missing",
        "fabric.gid.missing",
        "fabric.hca.down",
        "fabric.hca.missing",
        "fabric.link.down",
        "fabric.mtu.mismatch",
    }
)


@dataclass(frozen=True)
class _Situation:
    described: Cluster
    node: Node
    rails: list[RailState]
    env: dict[str, str]
    findings: list[Finding]

    def as_json(self) -> dict[str, Any]:
        return {
            "host": self.node.name,
            "rank": self.node.rank,
            "rails": [rail.as_json() for rail in self.rails],
            "env": self.env,
            "findings": as_json(self.findings),
        }


@dataclass(frozen=True)
class Asked:
    """What ``check`` and ``up`` were asked for: the peers may take ``peer_wait`` seconds in all to answer.

    ``user`` is the account that ranks run as.
    """

    config: Path
    rank: int | None
    peer_wait: float
    user: str


def _look(host: Host, config: Path, rank: int | None) -> _Situation:
    """What the host is now; the environment is empty when anything is wrong."""
    described = cluster.read(config)
    interfaces = addresses.read(host)
    held = [own.ip for interface in interfaces for own in interface.addresses]
    node = cluster.own_node(described, rank, held, host.name)
    seen = rails.view(host, described, interfaces)
    states, findings = rails.find(seen, described, node)
    findings += local.findings(seen, described, node, states)
    if described.fabric.rdma and described.fabric.gid_policy == "pin":
        findings += environment.pin_findings(node, states)
    env: dict[str, str] = {}
    if not has_errors(findings):
        env = environment.build(described, node, states, seen.ports, [item.name for item in interfaces])
        findings += _unfit(node, env)
        if has_errors(findings):
            env = {}
    return _Situation(described, node, states, env, findings)


def _unfit(node: Node, env: dict[str, str]) -> list[Finding]:
    """An error when a value, which holds names of interfaces, cannot stand in an environment file."""
    try:
        envfile.render(env)
    except ValueError as problem:
        text = f"{node.name}: {problem}."
        fix = "Rename the interface to letters, digits and . _ - (a systemd .link file with Name=)."
        return [error("fabric.interface.name", text, fix)]
    return []


def _look_until(host: Host, config: Path, rank: int | None, deadline: float) -> _Situation:
    """Look again until nothing is wrong, nothing that is wrong can come by itself, or time is up."""
    while True:
        last_look = time.monotonic() >= deadline or not host.live
        try:
            situation = _look(host, config, rank)
        except UnusableError as problem:
            # At boot the addresses by which a host knows itself may come later than this program.
            if last_look or any(item.code != "cluster.rank.undecided" for item in problem.findings):
                raise
        else:
            wrong = {item.code for item in situation.findings if item.level == "error"}
            if last_look or not wrong or not wrong <= _MAY_COME:
                return situation
        time.sleep(0.5)


def _ask_peers(
    host: Host, situation: _Situation, deadline: float
) -> tuple[list[dict[str, Any]], list[Finding]]:
    from tandem_host.fabric import peers  # threads cost import time that resolve does not need

    ping = peers.pinger(host)
    if ping is None:
        text = f"{situation.node.name}: the peers were not asked, since this is a copy of a host (--root)."
        return [], [info("fabric.peer.unasked", text, "Run this on the host itself.")]
    wanted = peers.routes(situation.described, situation.node, situation.rails)
    wait = max(0.0, deadline - time.monotonic()) if host.live else 0.0
    answers = peers.ask(wanted, ping, wait)
    found = peers.findings(situation.node, answers, situation.described.fabric.mtu)
    return [answer.as_json() for answer in answers], found


def _look_and_ask(
    host: Host, asked: Asked, before: tuple[record.Indexes, list[Finding]]
) -> tuple[_Situation, dict[str, Any]]:
    from tandem_host.fabric.checks import every  # resolve does not need them

    deadline = time.monotonic() + asked.peer_wait
    situation = _look_until(host, asked.config, asked.rank, deadline)
    answers, found = _ask_peers(host, situation, deadline)
    moved = record.drift(before[0], situation.node, situation.rails)
    around = every.findings(host, situation.described, situation.node, situation.rails, asked.user)
    findings = situation.findings + found + around + before[1] + moved
    document = situation.as_json() | {"peers": answers, "findings": as_json(findings)}
    if has_errors(findings):
        document["env"] = {}
    return situation, document


def _keep(env_file: Path | None, env: dict[str, str]) -> None:
    """Write the environment, or remove the old one when there is none to write."""
    if env_file is None:
        return
    if env:
        envfile.write(env_file, env)
    else:
        envfile.remove(env_file)


def resolve(host: Host, config: Path, rank: int | None, env_file: Path | None) -> dict[str, Any]:
    """What this host's rank must use now; writes ``env_file`` only when nothing is wrong, else removes it."""
    document: dict[str, Any] = {"env": {}}
    try:
        document = _look(host, config, rank).as_json()
    finally:
        _keep(env_file, document["env"])
    return document


def check(host: Host, asked: Asked, record_file: Path) -> dict[str, Any]:
    """``resolve``, a look at all that a rail needs, and a question to every peer on every rail."""
    return _look_and_ask(host, asked, record.read(record_file))[1]


def up(host: Host, asked: Asked, env_file: Path, record_file: Path) -> dict[str, Any]:
    """``check``, then write the environment, or remove the old one when anything is wrong.

    What was resolved is kept in ``record_file``, with which the next ``check`` compares.
    """
    before = record.read(record_file)
    # Whatever was true before this start is not true any more.
    envfile.remove(env_file)
    situation, document = _look_and_ask(host, asked, before)
    if document["env"]:
        record.write(record_file, situation.node, situation.rails)
    _keep(env_file, document["env"])
    return document
