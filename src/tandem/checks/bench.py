"""Whether a run measures the rails, and what was measured as lines for people; pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from tandem.checks.findings import render

_COLUMNS = ("test", "rail", "from", "to", "figure", "of baseline", "class")


class Plan(TypedDict):
    """Whether to measure; ``text`` says why, or why not; it is empty where there is nothing to say."""

    run: bool
    text: str


def plan(*, gate: bool, asked: bool, check_mode: bool, serving: Sequence[str], reason: str) -> Plan:
    """Decide on a measurement.

    ``gate``: it is switched on; ``asked``: somebody wants one now; ``serving``: hosts on which a rank runs;
    ``reason``: why the rails need one, empty where they were measured since the boot and nothing changed.
    """
    if not gate and not asked:
        text = "the rails are not measured: rdma_fabric_bandwidth_gate is false. Switch it on, or run "
        return Plan(run=False, text=f"{text}ansible-playbook playbooks/fabric_bench.yml.")
    if not asked and not reason:
        return Plan(run=False, text="")
    why = "it was asked for" if asked else reason
    if serving:
        hosts = " and ".join(serving)
        text = (
            f"the rails are not measured, although {why}: a rank runs on {hosts}, and that comes "
            "first. To measure: ansible-playbook playbooks/stop.yml, then playbooks/fabric_bench.yml."
        )
        return Plan(run=False, text=text)
    if check_mode:
        return Plan(run=False, text=f"check mode: the rails would be measured ({why}).")
    return Plan(run=True, text=f"the rails are measured: {why}.")


def table(document: dict[str, Any]) -> list[str]:
    """What ``tandem-host fabric bench`` measured, a line for each figure, and its warnings."""
    rows = [_COLUMNS, *(_row(item) for item in document.get("figures", []))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    kept = document.get("baseline", {})
    if kept.get("saved"):
        lines.append(f"These are the baseline now: {kept['file']}")
    notes = [item for item in document.get("findings", []) if item["level"] == "warning"]
    return [
        *lines,
        *(render([item]) for item in notes),
        f"class of the pair: {document.get('class', 'unknown')}",
    ]


def _row(figure: dict[str, Any]) -> tuple[str, ...]:
    share = figure.get("of_baseline")
    value = f"{figure['gbps']:.2f} Gb/s" if "gbps" in figure else f"{figure['microseconds']:.2f} us"
    rails = "+".join(str(rail) for rail in figure["rails"])
    baseline = "-" if share is None else f"{share:.0%}"
    return figure["test"], rails, figure["from"], figure["to"], value, baseline, figure["class"]
