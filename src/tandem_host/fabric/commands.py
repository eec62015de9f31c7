"""A look at the rails, and ``resolve``.

A rank waits for it at every start, so what it does not need is imported elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem_host.cluster import Cluster, Node
from tandem_host.fabric import envfile, environment, local, rails
from tandem_host.fabric.rails import RailState
from tandem_host.findings import Finding, as_json, error, has_errors
from tandem_host.host import Host


@dataclass(frozen=True)
class Situation:
    """A host as it is: its rails, the environment that fits them (empty on errors), and what is wrong."""

    described: Cluster
    node: Node
    rails: list[RailState]
    env: dict[str, str]
    findings: list[Finding]

    def as_json(self) -> dict[str, Any]:
        """The document of ``resolve``."""
        return {
            "host": self.node.name,
            "rank": self.node.rank,
            "rails": [rail.as_json() for rail in self.rails],
            "env": self.env,
            "findings": as_json(self.findings),
        }


def look(host: Host, config: Path, rank: int | None) -> Situation:
    """What the host is now; the environment is empty when anything is wrong."""
    here = rails.look(host, config, rank)
    described, node, seen, states = here.cluster, here.node, here.seen, here.rails
    findings = [*here.findings, *local.findings(seen, described, node, states)]
    if described.fabric.rdma and described.fabric.gid_policy == "pin":
        findings += environment.pin_findings(node, states)
    env: dict[str, str] = {}
    if not has_errors(findings):
        env = environment.build(described, node, states, seen.ports, [item.name for item in seen.interfaces])
        findings += _unfit(node, env)
        if has_errors(findings):
            env = {}
    return Situation(described, node, states, env, findings)


def _unfit(node: Node, env: dict[str, str]) -> list[Finding]:
    """An error when a value, which holds names of interfaces, cannot stand in an environment file."""
    try:
        envfile.render(env)
    except ValueError as problem:
        text = f"{node.name}: {problem}."
        fix = "Rename the interface to letters, digits and . _ - (a systemd .link file with Name=)."
        return [error("fabric.interface.name", text, fix)]
    return []


def keep(env_file: Path | None, env: dict[str, str]) -> None:
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
        document = look(host, config, rank).as_json()
    finally:
        keep(env_file, document["env"])
    return document
