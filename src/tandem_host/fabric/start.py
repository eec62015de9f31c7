"""``check``, and ``up`` for the unit: the whole host is looked at and the peers are asked."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tandem_host.arguments import FABRIC_STATE_DIR
from tandem_host.fabric import envfile, peers, record
from tandem_host.fabric.checks import devices, every
from tandem_host.fabric.commands import Situation, keep, look
from tandem_host.findings import Finding, UnusableError, as_json, error, has_errors, info
from tandem_host.host import Host

# A cable carries only when both ends are up, and drivers take a moment at boot: worth waiting for.
_MAY_COME = frozenset(
    {
        "fabric.address.missing",
        "fabric.device.missing",
        "fabric.gid.missing",
        "fabric.hca.down",
        "fabric.hca.missing",
        "fabric.link.down",
        "fabric.mtu.mismatch",
    }
)


# What this host lacks comes within a minute of its boot or not at all; a peer may take much longer to boot.
_OWN_SECONDS = 60.0
# There while a change of the rails waits to be proved (``fabric apply``).
_ON_TRIAL = FABRIC_STATE_DIR / "pending.json"


@dataclass(frozen=True)
class Asked:
    """What ``check`` and ``up`` were asked for: the peers may take ``peer_wait`` seconds in all to answer.

    ``user`` is the account that ranks run as.
    """

    config: Path
    rank: int | None
    peer_wait: float
    user: str


def _look_until(host: Host, config: Path, rank: int | None, deadline: float) -> Situation:
    """Look again until nothing is wrong, nothing that is wrong can come by itself, or time is up."""
    while True:
        last_look = time.monotonic() >= deadline or not host.live
        try:
            situation = look(host, config, rank)
            found = devices.device_files(host, situation.node, situation.rails)
            situation = replace(situation, findings=situation.findings + found)
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
    host: Host, situation: Situation, deadline: float
) -> tuple[list[dict[str, Any]], list[Finding]]:
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
) -> tuple[Situation, dict[str, Any]]:
    deadline = time.monotonic() + asked.peer_wait
    own = min(deadline, time.monotonic() + _OWN_SECONDS)
    situation = _look_until(host, asked.config, asked.rank, own)
    answers, found = _ask_peers(host, situation, deadline)
    moved = record.drift(before[0], situation.node, situation.rails)
    around = every.findings(host, situation.described, situation.node, situation.rails, asked.user)
    findings = situation.findings + found + around + before[1] + moved
    document = situation.as_json() | {"peers": answers, "findings": as_json(findings)}
    if has_errors(findings):
        document["env"] = {}
    return situation, document


def _on_trial(host: Host, wait: float) -> list[Finding]:
    """An error while the rails may go back to what they were under a rank's feet; it is waited for."""
    deadline = time.monotonic() + wait
    while host.exists(_ON_TRIAL):
        if time.monotonic() >= deadline or not host.live:
            text = f"{host.name}: a change of the rails is on trial ({_ON_TRIAL})."
            fix = "run site.yml, which proves it; or wait until it has gone back by itself."
            return [error("fabric.change.pending", text, fix)]
        time.sleep(0.5)
    return []


def check(host: Host, asked: Asked, record_file: Path) -> dict[str, Any]:
    """``resolve``, a look at all that a rail needs, and a question to every peer on every rail."""
    return _look_and_ask(host, asked, record.read(record_file))[1]


def up(host: Host, asked: Asked, env_file: Path, record_file: Path) -> dict[str, Any]:
    """``check``, then write the environment, or remove the old one when anything is wrong.

    What was resolved is kept in ``record_file``, with which the next ``check`` compares.
    """
    # Whatever was true before this start is not true any more.
    envfile.remove(env_file)
    trial = _on_trial(host, asked.peer_wait)
    indexes, damaged = record.read(record_file)
    situation, document = _look_and_ask(host, asked, (indexes, damaged + trial))
    if document["env"]:
        record.write(record_file, situation.node, situation.rails)
    keep(env_file, document["env"])
    return document
