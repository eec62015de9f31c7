"""Filters that turn inventory data and the host tool's answers into what the roles need."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

from tandem.checks import bench
from tandem.checks.answers import findings_text
from tandem.checks.fabric import compare
from tandem.checks.findings import Finding, render
from tandem.checks.preflight import platform_for
from tandem.checks.verdict import judge
from tandem.release.digest import release_digest

_RANK_RUNS = frozenset({"active", "activating", "deactivating", "reloading"})


def tandem_nodes(names: list[str], hostvars: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The ``nodes`` of cluster.json: rank by position, rails as the inventory gives them.

    ``[{"rank": 0, "name": "spark-a", "rails": [{"address": ..., "netdev": ..., "hca": null}]}]``
    """
    return [
        {
            "rank": rank,
            "name": str(name),
            "rails": [
                {
                    "address": str(rail["address"]),
                    "netdev": None if rail.get("netdev") is None else str(rail["netdev"]),
                    "hca": None if rail.get("hca") is None else str(rail["hca"]),
                }
                for rail in hostvars[name]["tandem_rails"]
            ],
        }
        for rank, name in enumerate(names)
    ]


def tandem_platform(
    platforms: list[dict[str, Any]], host: dict[str, Any], accelerator: str
) -> dict[str, Any]:
    """The entry of a release's ``platforms`` that fits the fact ``tandem_host``.

    Raises ``AnsibleFilterError`` where none fits; the preflight says so before.
    """
    found = platform_for(host, platforms, accelerator)
    if found is None:
        raise AnsibleFilterError(
            f"host.platform.unsupported: no platform of the release fits {host['machine']} with "
            f"Python {host['python']} ({accelerator})"
        )
    return found


def tandem_release_digest(release_dir: str, platform: str) -> str:
    """The digest of a release folder for one of its platforms (hexadecimal)."""
    return release_digest(Path(release_dir), platform)


def tandem_findings_text(answer: str, host: str, stderr: str = "") -> str:
    """The errors of a ``tandem-host`` answer as text with the host's name, else its last lines."""
    return findings_text(str(answer), host, str(stderr))


def tandem_failure_text(result: Mapping[str, Any]) -> str:
    """Why a task failed, in one line: the host tool's findings, else its last output, else its message."""
    for stream in ("stdout", "stderr"):
        findings = _document(str(result.get(stream, ""))).get("findings")
        if findings:
            return " ".join(f"{item['code']}: {item['message']} Fix: {item['fix']}" for item in findings)
    for field in ("stderr", "stdout", "module_stderr", "msg"):
        lines = [line.strip() for line in str(result.get(field) or "").splitlines() if line.strip()]
        if lines:
            return "; ".join(lines[-6:])
    return "it gave no reason"


def tandem_rank_matches(answer: str, digest: str) -> bool:
    """Whether a ``tandem-host rank status`` answer says: this host runs the wanted configuration."""
    try:
        status = json.loads(answer)
        return bool(status["active"]) and status["running_digest"] == digest
    except (ValueError, KeyError, TypeError):
        return False


def tandem_lacking(names: Iterable[str], hostvars: Mapping[str, Any], probe: str) -> list[str]:
    """The hosts whose registered result ``probe`` is not an exit status of 0, or is missing."""
    return [str(name) for name in names if hostvars[name].get(probe, {}).get("rc", 1) != 0]


def tandem_start_failure(names: Iterable[str], hostvars: Mapping[str, Any], head: str) -> str:
    """Why the pair did not come up: what the head's probe found, and the last words of each host's rank."""
    ready = hostvars[head].get("__vllm_server_ready", {})
    why = tandem_findings_text(ready["stdout"], head, ready.get("stderr", "")) if "stdout" in ready else ""
    lines = [f"serve.start.failed: {head}: the pair did not come up and was stopped. {why}".strip()]
    for name in names:
        words = hostvars[name].get("__vllm_server_journal", {}).get("stdout_lines", [])
        lines += [f"{name} | {line}" for line in words]
    lines.append("Fix: `journalctl -u tandem-rank` on both hosts, mend the cause, run site.yml again.")
    return "\n".join(lines)


def tandem_fabric_reverts(names: Iterable[str], hostvars: Mapping[str, Any]) -> str:
    """What becomes of rails that are on trial when a run ends now; empty where none are."""
    trials = {
        str(name): str(change["reverts_at"])
        for name in names
        if (change := hostvars[name].get("__rdma_fabric_change", {})).get("reverts_at")
    }
    if not trials:
        return ""
    listing = ", ".join(f"{name} at {time}" for name, time in trials.items())
    return f" The hosts go back to their former configuration by themselves: {listing}."


def tandem_rank_runs(state: str) -> bool:
    """Whether what ``systemctl is-active`` says of a rank means that it needs the rails."""
    return state in _RANK_RUNS


def tandem_bench_plan(  # noqa: PLR0917 - a filter has no keywords in a template
    names: Iterable[str],
    hostvars: Mapping[str, Any],
    head: str,
    gate: bool,
    asked: bool,
    check_mode: bool,
) -> bench.Plan:
    """Whether this run measures the rails, and why or why not: ``{"run", "text"}``.

    Reads what ``measure.yml`` registered: the state of each host's rank, and what the head's
    ``fabric measured`` said.
    """
    hosts = {str(name): hostvars[name] for name in names}
    serving = [
        name
        for name, known in hosts.items()
        if tandem_rank_runs(known.get("__rdma_fabric_rank_state", {}).get("stdout", ""))
    ]
    answer = _document(hosts[head].get("__rdma_fabric_measured", {}).get("stdout", ""))
    reason = "" if answer.get("measured") else str(answer.get("reason") or "nothing was measured yet")
    if any(known.get("__rdma_fabric_change", {}).get("changed") for known in hosts.values()):
        reason = "they were changed"
    return bench.plan(gate=gate, asked=asked, check_mode=check_mode, serving=serving, reason=reason)


def tandem_bench_table(answer: str) -> list[str]:
    """What ``tandem-host fabric bench`` measured, as lines for people."""
    return bench.table(_document(answer))


def tandem_verdict(names: list[str], hostvars: Mapping[str, Any], answer: str) -> dict[str, Any]:
    """Whether the pair is proved: ``{"findings", "text", "summary"}``.

    Reads what ``rank inspect`` printed before and after the question from each host's registered results.
    """

    def looks(register: str) -> dict[str, dict[str, Any]]:
        return {str(name): _document(hostvars[name].get(register, {}).get("stdout", "")) for name in names}

    verdict = judge(looks("__vllm_server_before"), looks("__vllm_server_after"), _document(answer) or None)
    return {
        "findings": verdict.findings,
        "text": render(verdict.findings),
        "summary": verdict.summary,
    }


def tandem_fabric_differences(names: list[str], hostvars: Mapping[str, Any], register: str) -> list[Finding]:
    """What the hosts' fabrics disagree on.

    Reads what ``fabric discover`` printed from each host's registered result. A host that printed no document
    is left out: why is in its own result.
    """
    printed = {str(name): _document(hostvars[name].get(register, {}).get("stdout", "")) for name in names}
    return compare({name: document for name, document in printed.items() if "netdevs" in document})


def _document(text: str) -> dict[str, Any]:
    """The JSON object in ``text``; empty where there is none."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


class FilterModule:
    """Register the filters with Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name to function."""
        return {
            "tandem_bench_plan": tandem_bench_plan,
            "tandem_bench_table": tandem_bench_table,
            "tandem_fabric_differences": tandem_fabric_differences,
            "tandem_fabric_reverts": tandem_fabric_reverts,
            "tandem_failure_text": tandem_failure_text,
            "tandem_findings_text": tandem_findings_text,
            "tandem_lacking": tandem_lacking,
            "tandem_nodes": tandem_nodes,
            "tandem_platform": tandem_platform,
            "tandem_rank_matches": tandem_rank_matches,
            "tandem_rank_runs": tandem_rank_runs,
            "tandem_release_digest": tandem_release_digest,
            "tandem_start_failure": tandem_start_failure,
            "tandem_verdict": tandem_verdict,
        }
