"""The commands: measure, serve a measurement, tell whether one is needed, judge a figure from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tandem_host import files
from tandem_host.cluster import Node
from tandem_host.fabric import peers
from tandem_host.fabric.bench import advice, baseline, kept, outputs, ratings, recorded, server, verdict
from tandem_host.fabric.bench.client import Session
from tandem_host.fabric.bench.facts import Facts
from tandem_host.fabric.bench.figures import PACKAGES, TOOLS, Figure, Step, steps
from tandem_host.fabric.bench.jobs import Outcome
from tandem_host.fabric.bench.look import Here, look
from tandem_host.fabric.bench.verdict import Wanted
from tandem_host.findings import BadInputError, Finding, UnusableError, as_json, error, has_errors, info
from tandem_host.host import Host

_CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Options:
    """How to measure: ``share`` is the part of the baseline that is still fine; None means: not wanted."""

    port: int
    seconds: int
    tcp: bool
    gbps: float | None
    baseline: Path
    share: float
    save_baseline: bool
    result: Path | None


def bench(host: Host, config: Path, rank: int | None, options: Options) -> dict[str, Any]:
    """Measure the rails from this host to every peer, judge and compare; writes only what is asked for."""
    here = look(host, config, rank)
    if options.result:  # what is broken off must not leave an older and better answer
        files.remove(host.path(options.result))
    if has_errors(here.findings):
        return {"host": here.node.name, "rank": here.node.rank, "findings": as_json(here.findings)}
    others: list[Facts] = []
    measured: list[Figure] = []
    classes: list[str] = []
    findings = [*here.findings, *_awake(here)]
    if not has_errors(findings):
        for peer in here.cluster.peers(here.node.rank):
            facts, figures, found = _one_peer(here, peer, options)
            name, said = verdict.judge(_wanted(here, options), figures, (here.facts, facts))
            others.append(facts)
            measured += figures
            classes.append(name)
            findings += [*found, *said]
    document = _judged(here, others, measured, ratings.worst(classes), findings, options)
    if options.result:
        kept.write(host.path(options.result), here, others, document)
    return document


def _wanted(here: Here, options: Options) -> Wanted:
    return Wanted(here.cluster.fabric.kind, len(here.rails), options.gbps)


def _judged(  # noqa: PLR0917
    here: Here,
    others: Sequence[Facts],
    measured: Sequence[Figure],
    name: str,
    findings: list[Finding],
    options: Options,
) -> dict[str, Any]:
    each = verdict.classes(_wanted(here, options), measured)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    path = here.host.path(options.baseline)
    before, found = baseline.read(path)
    shares, slower = baseline.compare(measured, before, options.share, name == ratings.GOOD)
    saved = options.save_baseline and bool(measured) and not has_errors(findings)
    if saved:
        baseline.write(path, measured, now)
    else:
        findings = [*findings, *found, *slower]
    return {
        "host": here.node.name,
        "rank": here.node.rank,
        "kind": here.cluster.fabric.kind,
        "measured_at": now,
        "class": name,
        "expected_gbps": options.gbps,
        "figures": [
            item.as_json()
            | {"class": each[item], "of_baseline": round(shares[item], 3) if item in shares else None}
            for item in measured
        ],
        "facts": [item.as_json() for item in (here.facts, *others)],
        "baseline": {"file": str(options.baseline), "saved": saved, "compared": bool(shares)},
        "findings": as_json(findings),
    }


def _awake(here: Here) -> list[Finding]:
    """Every rail answers a ping, which also fills the neighbour tables: RDMA gives up on an empty one."""
    ping = peers.pinger(here.host)
    if ping is None:
        return []
    answers = peers.ask(peers.routes(here.cluster, here.node, here.rails), ping, 0.0)
    return peers.findings(here.node, answers, here.cluster.fabric.mtu)


def _one_peer(here: Here, peer: Node, options: Options) -> tuple[Facts, list[Figure], list[Finding]]:
    wanted = steps(here.cluster.fabric.rdma, len(here.rails), options.tcp)
    if not here.host.live:
        recording = recorded.Recording(here.host, peer.name, len(here.rails))
        figures, findings = _measure(here, peer, wanted, recording.run)
        return recording.facts, figures, findings
    with Session(here, peer, options.port, _CONNECT_SECONDS) as session:
        findings = [*session.findings, *_tools(here.facts, wanted), *_tools(session.facts, wanted)]
        if has_errors(findings):
            raise UnusableError(findings)
        figures, found = _measure(here, peer, wanted, lambda step: session.run(step, options.seconds))
        return session.facts, figures, [*findings, *found]


def _tools(facts: Facts, wanted: Sequence[Step]) -> list[Finding]:
    missing = sorted({step.test for step in wanted if TOOLS[step.test] not in facts.tools})
    if not missing:
        return []
    names = ", ".join(TOOLS[test] for test in missing)
    packages = " ".join(sorted({PACKAGES[test] for test in missing}))
    return [error("fabric.bench.tool", f"{facts.host} has no {names}.", f"apt-get install {packages}")]


def _measure(here: Here, peer: Node, wanted: Sequence[Step], run: Any) -> tuple[list[Figure], list[Finding]]:
    figures, findings = [], []
    for step in wanted:
        source, target = (here.node.name, peer.name) if step.outward else (peer.name, here.node.name)
        values, problems = [], []
        for outcome in run(step):
            try:
                values.append(_value(step, outcome))
            except ValueError as problem:
                problems.append(_failure(here, step, outcome.rail, (source, target), str(problem)))
        findings += problems
        if len(values) == len(step.rails):
            total, each = round(sum(values), 4), tuple(round(value, 4) for value in values)
            parts = each if len(each) > 1 else ()
            figures.append(Figure(step.test, step.rails, source, target, total, parts))
    return figures, findings


def _value(step: Step, outcome: Outcome) -> float:
    """The figure of one client; raises ValueError with the reason where there is none."""
    if outcome.status != 0:
        raise ValueError(outcome.error or f"exit status {outcome.status}")
    return outputs.value(step.test, outcome.output)


def _failure(here: Here, step: Step, rail: int, way: tuple[str, str], reason: str) -> Finding:
    device = here.facts.rails[rail]
    text = (
        f"{here.node.name}: {step.test} {way[0]} -> {way[1]} on rail {rail} ({device.hca or device.netdev}) "
        f"failed: {reason}."
    )
    fix = (
        "tandem-host fabric check on both hosts; a firewall must pass TCP from the peer and UDP 4791 (RoCE)."
    )
    return error("fabric.bench.failed", text, fix)


def serve(host: Host, config: Path, rank: int | None, port: int, seconds: float) -> dict[str, Any]:
    """Serve measurements for so long; refuses when this host's rails are not as they must be."""
    if not host.live:
        text = "fabric bench --serve answers over the network and cannot do so in a copied tree (--root)."
        raise BadInputError([error("usage.root.serve", text, "Run it on the host itself.")])
    here = look(host, config, rank)
    if has_errors(here.findings):
        return {"host": here.node.name, "rank": here.node.rank, "findings": as_json(here.findings)}
    return server.serve(here, port, seconds)


def measured(  # noqa: PLR0917
    host: Host, config: Path, rank: int | None, result: Path, boots: list[str], gbps: float | None
) -> dict[str, Any]:
    """Whether the kept result still says that the rails are well; ``boots``: the other hosts' boot ids."""
    here = look(host, config, rank)
    why = kept.holds(host.path(result), here, boots, gbps)
    return {"host": here.node.name, "measured": why is None, "reason": why, "findings": []}


def classify(host: Host, bus: float | None, rail: float | None, rails: int, size: int) -> dict[str, Any]:
    """The class of a figure from elsewhere: nccl-tests' bus bandwidth in GB/s, or a rail's Gb/s."""
    if bus is not None:
        name, text = (
            ratings.bus(bus, rails, size),
            f"{host.name}: {bus:g} GB/s bus bandwidth over {rails} rails",
        )
    else:
        name, text = ratings.rail(rail or 0.0, None, True), f"{host.name}: {rail:g} Gb/s on one rail"
    findings = []
    if name == ratings.UNRATED:
        small = f"{text} with {size} bytes is a matter of latency and not rated."
        fix = (
            f"nccl-tests -b {ratings.BUS_SMALLEST_BYTES} and more; 8 KiB take about 28 us where all is well."
        )
        findings.append(info("fabric.bench.unrated", small, fix))
    elif name != ratings.GOOD:
        findings.append(advice.finding(name, text))
    return {"class": name, "findings": as_json(findings)}
