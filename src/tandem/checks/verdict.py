"""Whether two ranks on two hosts gave an answer together: the judgement of the verify playbook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tandem.checks.findings import Finding, error

# Three short completions moved about 1 MB each way in the lab; keep-alives alone stay far below this.
LEAST_FABRIC_BYTES = 20_000


@dataclass(frozen=True)
class Verdict:
    """Findings (none: proved) and one line a fact for a person."""

    findings: list[Finding]
    summary: list[str]


def judge(
    before: dict[str, dict[str, Any]],
    after: dict[str, dict[str, Any]],
    answer: dict[str, Any] | None,
) -> Verdict:
    """Judge two looks at each host, taken before and after the same question was asked three times.

    ``before`` and ``after`` map a host to its ``tandem-host rank inspect`` document, ``answer`` is that of
    ``tandem-host probe completion``.
    """
    findings = _rank_findings(after)
    findings += _answer_findings(answer)
    for host, look in after.items():
        findings += _socket_findings(host, look)
    if not findings:
        for host, look in after.items():
            findings += _traffic_findings(host, before[host], look)
    return Verdict(findings, [] if findings else _summary(before, after, answer or {}))


def _rank_findings(after: dict[str, dict[str, Any]]) -> list[Finding]:
    found = [
        error(
            "verify.rank.missing",
            f"{host}: no rank runs.",
            f"`systemctl status tandem-rank` on {host}, then site.yml.",
        )
        for host, look in after.items()
        if look.get("pid") is None
    ]
    if found:
        return found
    ranks = {host: look["rank"] for host, look in after.items()}
    if sorted(ranks.values()) != list(range(len(ranks))):
        listing = ", ".join(f"{host} runs rank {rank}" for host, rank in ranks.items())
        found.append(
            error(
                "verify.rank.wrong", f"not one rank a host: {listing}.", "run site.yml: it restarts the pair."
            )
        )
    return found


def _answer_findings(answer: dict[str, Any] | None) -> list[Finding]:
    """What the probe found, with the probe's own fixes: a refused key needs another one than a dead rank."""
    if answer is None or not (answer.get("ok") or answer.get("findings")):
        fix = "`journalctl -u tandem-rank` on both hosts, then site.yml."
        return [error("verify.completion.failed", "the API gave no completion.", fix)]
    found = []
    for item in answer.get("findings", []):
        varies = item["code"] == "serve.completion.unstable"
        code = "verify.completion.varies" if varies else "verify.completion.failed"
        found.append(error(code, item["message"], item["fix"]))
    return found


def _socket_findings(host: str, look: dict[str, Any]) -> list[Finding]:
    outside = [item for item in look.get("sockets", []) if item["class"] == "management"]
    found = [
        error(
            "verify.traffic.management",
            f"{host}: the rank talks outside the rails: {_end(item['local'])} to {_end(item['remote'])} "
            f"over {item['netdev']}.",
            "check the rails (`tandem-host fabric resolve`) and restart the pair with site.yml.",
        )
        for item in outside
    ]
    joined = [
        item
        for item in look.get("sockets", [])
        if item["class"] == "fabric" and item["state"] not in ("LISTEN", "listen")
    ]
    if look.get("pid") is not None and not joined:
        found.append(
            error(
                "verify.traffic.none",
                f"{host}: the rank has no connection to its peer over the rails.",
                "the rank runs alone: `journalctl -u tandem-rank`, then site.yml.",
            )
        )
    return found


def _traffic_findings(host: str, before: dict[str, Any], after: dict[str, Any]) -> list[Finding]:
    netdevs = after["rails"]
    moved = sum(_moved(before, after, netdev) for netdev in netdevs)
    if moved >= LEAST_FABRIC_BYTES:
        return []
    return [
        error(
            "verify.traffic.silent",
            f"{host}: the completions moved {moved} bytes over {', '.join(netdevs)}; "
            f"at least {LEAST_FABRIC_BYTES} were expected.",
            "the ranks do not compute together: compare `tandem-host rank show` on both hosts.",
        )
    ]


def _moved(before: dict[str, Any], after: dict[str, Any], netdev: str) -> int:
    """Bytes in and out of one interface between the two looks, through the kernel and by RDMA."""
    total = 0
    for name in ("rx_bytes", "tx_bytes", "rdma_rx_bytes", "rdma_tx_bytes"):
        total += int(after["interfaces"].get(netdev, {}).get(name) or 0)
        total -= int(before["interfaces"].get(netdev, {}).get(name) or 0)
    return total


def _end(address: dict[str, Any]) -> str:
    return f"{address['address']}:{address['port']}"


def _summary(
    before: dict[str, dict[str, Any]],
    after: dict[str, dict[str, Any]],
    answer: dict[str, Any],
) -> list[str]:
    lines = []
    for host, look in after.items():
        carried = ", ".join(
            f"{netdev} {_moved(before[host], look, netdev) / 1000:.0f} kB" for netdev in look["rails"]
        )
        sockets = look["counts"]
        lines.append(
            f"{host}: rank {look['rank']}, pid {look['pid']}, {len(look['processes'])} processes; "
            f"{sockets['fabric']} connections on the rails, {sockets['management']} on management; {carried}"
        )
    text = str(answer.get("text", "")).strip()
    lines.append(f"{answer.get('attempts', '?')} completions, the same each time: {text!r}")
    return lines
