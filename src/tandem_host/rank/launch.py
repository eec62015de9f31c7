"""Starting a rank, and saying what would be started."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from tandem_host import addresses, cluster, files
from tandem_host.cluster import Cluster, Node
from tandem_host.fabric import envfile
from tandem_host.findings import BadInputError, Finding, UnusableError, as_json, error
from tandem_host.host import Host
from tandem_host.rank import command, key, serve, state
from tandem_host.rank.serve import Serve


@dataclass(frozen=True)
class Plan:
    """One rank, ready to start; ``environment`` may hold the key."""

    node: Node
    wanted: Serve
    argv: list[str]
    environment: dict[str, str]
    findings: list[Finding]


def _node(host: Host, described: Cluster, rank: int | None) -> Node:
    held = addresses.held(addresses.read(host)) if rank is None else []
    return cluster.own_node(described, rank, held, host.name)


def _missing(host: Host, node: Node, wanted: Serve) -> list[Finding]:
    """What the rank needs on this host and is not there."""
    found = []
    program = host.path(command.executable(wanted))
    if not host.path(wanted.release.path).is_dir():
        text = f"{node.name}: the release {wanted.release.name} is not in {wanted.release.path}."
        found.append(error("rank.release.missing", text, "ansible-playbook site.yml builds it"))
    elif not os.access(program, os.X_OK):
        text = f"{node.name}: {command.executable(wanted)} is missing or cannot be executed."
        fix = f"Remove {wanted.release.path} and run ansible-playbook site.yml: it builds the release again."
        found.append(error("rank.release.broken", text, fix))
    if not host.path(wanted.model.path).is_dir():
        text = f"{node.name}: the model {wanted.model.served_name} is not in {wanted.model.path}."
        found.append(error("rank.model.missing", text, "ansible-playbook site.yml copies it"))
    elif not host.path(f"{wanted.model.path}/config.json").is_file():
        text = f"{node.name}: {wanted.model.path} has no config.json."
        verify = f"/opt/tandem/libexec/tandem-host weights verify {wanted.model.path} --manifest FILE"
        fix = f"{verify} lists what is missing"
        found.append(error("rank.model.incomplete", text, fix))
    return found


def show(
    host: Host, cluster_file: Path, serve_file: Path, fabric_env: Path | None, rank: int | None
) -> dict[str, Any]:
    """What ``exec`` would start on this host, with secrets as ``(set)``; only the two files must exist."""
    described, wanted = cluster.read(cluster_file), serve.read(serve_file)
    node = _node(host, described, rank)
    fabric: dict[str, str] = {}
    findings: list[Finding] = []
    if fabric_env is not None:
        fabric = envfile.read(fabric_env)
        findings += command.contradictions(wanted, described, node, fabric)
    secret = "(set)" if wanted.api_key_file else None
    env = command.environment(wanted, node, fabric, {}, secret)
    return {
        "rank": node.rank,
        "host": node.name,
        "argv": command.argv(wanted, described, node),
        "env": command.without_secrets(env),
        "release": {"name": wanted.release.name, "digest": wanted.release.digest},
        "config_digest": wanted.config_digest,
        "findings": as_json(findings),
    }


def plan(
    host: Host,
    *,
    cluster_file: Path,
    serve_file: Path,
    fabric_env: Path,
    rank: int | None,
    inherited: Mapping[str, str],
) -> Plan:
    """Everything that ``exec`` needs; raises UnusableError for unusable files and an unsafe key."""
    described, wanted = cluster.read(cluster_file), serve.read(serve_file)
    node = _node(host, described, rank)
    fabric = envfile.read(fabric_env)
    findings = command.contradictions(wanted, described, node, fabric) + _missing(host, node, wanted)
    secret = None
    if node.rank == 0 and wanted.api_key_file:
        secret = key.read(host.path(wanted.api_key_file), node.name)
    env = command.environment(wanted, node, fabric, inherited, secret)
    return Plan(node, wanted, command.argv(wanted, described, node), env, findings)


def start(host: Host, ready: Plan, state_file: Path) -> NoReturn:
    """Record what starts in ``state_file`` and become the engine; returns only by raising.

    Raises UnusableError when the state cannot be written or the engine cannot be executed.
    """
    pid = os.getpid()
    started = state.State(
        rank=ready.node.rank,
        argv=ready.argv,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        release={"name": ready.wanted.release.name, "digest": ready.wanted.release.digest},
        config_digest=ready.wanted.config_digest,
        boot_id=state.boot_id(host),
        pid=pid,
        start_ticks=state.start_ticks(host, pid) or 0,
    )
    try:
        state.write(state_file, started)
    except OSError as problem:
        why = f"cannot be written ({problem.strerror}), so the rank was not started"
        text = f"{ready.node.name}: {state_file} {why}."
        fix = f"ls -ld {state_file.parent}; df -h {state_file.parent}; then systemctl restart tandem.target"
        raise UnusableError([error("rank.state.unwritable", text, fix)]) from problem
    _say({"rank": ready.node.rank, "argv": ready.argv, "findings": []})
    # Python ignores these two, and a program inherits what is ignored. SIGTERM was never caught: one that
    # comes before the engine is there ends this process, none is lost.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(ready.argv[0], ready.argv, ready.environment)  # this process becomes the engine
    except OSError as problem:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # the answer is still to be printed
        files.remove(state_file)
        raise UnusableError([_not_executed(ready, problem)]) from problem


def _say(document: dict[str, Any]) -> None:
    """One line in the journal before the engine's own; a rank also starts when nobody reads them."""
    with suppress(OSError, AttributeError):  # AttributeError: there is no standard output at all
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()


def _not_executed(ready: Plan, problem: OSError) -> Finding:
    program = ready.argv[0]
    if problem.errno == errno.E2BIG:
        text = f"{ready.node.name}: the command line and the environment of {program} are too long."
        return error("rank.argument.long", text, "Shorten vllm_server_engine_args and _environment.")
    reason = problem.strerror
    if problem.errno == errno.ENOENT:
        reason = "the interpreter in its first line does not exist"
    text = f"{ready.node.name}: {program} cannot be executed: {reason}."
    fix = f"Remove {ready.wanted.release.path} and run ansible-playbook site.yml: it is built again."
    return error("rank.release.broken", text, fix)


def refuse_root(root: Path) -> None:
    """``exec`` starts a real process, so a copy of a host cannot be meant."""
    if root != Path("/"):
        text = f"rank exec starts a process on this host; --root {root} is a copy."
        raise BadInputError([error("usage.root.refused", text, "tandem-host rank show --root DIR")])
