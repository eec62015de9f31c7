"""The baseline: figures of a pair when it was well, kept to compare later ones with."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tandem_host import files
from tandem_host.fabric.bench import figures
from tandem_host.fabric.bench.figures import LATENCY, Figure
from tandem_host.findings import Finding, UnusableError, error, info, warning
from tandem_host.strict import load

_SAVE = "ansible-playbook playbooks/fabric_bench.yml -e rdma_fabric_save_baseline=true keeps these figures"


def read(path: Path) -> tuple[list[Figure], list[Finding]]:
    """The figures of a baseline; none and a finding that stops nothing where it is missing or damaged."""
    try:
        document = load(path, "fabric.baseline", _SAVE)
        return _figures(document), []
    except UnusableError as problem:
        return [], [_harmless(item) for item in problem.findings]
    except ValueError as problem:
        text = f"{path} is no baseline: {problem}."
        return [], [warning("fabric.baseline.invalid", text, f"{_SAVE}.")]


def _harmless(item: Finding) -> Finding:
    # No baseline is the ordinary case of a new pair; a damaged one must be seen, and cannot stop a server.
    known = info if item.code == "fabric.baseline.missing" else warning
    return known(item.code, item.message, item.fix)


def _figures(document: dict[str, Any]) -> list[Figure]:
    if document.get("schema") != 1 or not isinstance(document.get("figures"), list):
        raise ValueError("it lacks the schema 1 and a list of figures")
    return [figures.from_json(item) for item in document["figures"]]


def write(path: Path, measured: Sequence[Figure], measured_at: str) -> None:
    """Replace the baseline in one step; raises OSError."""
    document = {"schema": 1, "measured_at": measured_at, "figures": [item.as_json() for item in measured]}
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomic(path, json.dumps(document, indent=2) + "\n")


def compare(
    measured: Sequence[Figure], kept: Sequence[Figure], share: float, good: bool
) -> tuple[dict[Figure, float], list[Finding]]:
    """Each figure's part of the baseline (1.0: the same; for latency the inverse), and what is less.

    Below ``share`` is an error; for a pair that is ``good`` by itself only a warning.
    """
    before = {item.key: item for item in kept}
    shares = {item: _share(item, before[item.key]) for item in measured if item.key in before}
    level: Callable[[str, str, str], Finding] = warning if good else error
    found = []
    for item, part in shares.items():
        if part < share:
            old = before[item.key].value
            rails = " and ".join(map(str, item.rails))
            text = (
                f"{item.source}: {item.test} to {item.target} on rail {rails} is {item.value:.2f} "
                f"{item.unit}, the baseline {old:.2f}: {part:.0%} of it, wanted {share:.0%}."
            )
            fix = f"Measure again with nothing else running; docs/slow-link.md. If this is right: {_SAVE}."
            found.append(level("fabric.bench.slower", text, fix))
    return shares, found


def _share(now: Figure, before: Figure) -> float:
    return before.value / now.value if now.test == LATENCY else now.value / before.value
