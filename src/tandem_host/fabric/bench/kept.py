"""The result of the last measurement, by which a later run knows whether this boot was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tandem_host import files
from tandem_host.fabric.bench.facts import Facts
from tandem_host.fabric.bench.look import Here
from tandem_host.findings import UnusableError
from tandem_host.strict import load


def identity(here: Here, peers: list[str]) -> dict[str, Any]:
    """What must be unchanged for a measurement to hold: the boots, the rails and their MTU."""
    return {
        "boot_ids": [here.facts.boot_id, *peers],
        "kind": here.cluster.fabric.kind,
        "mtu": [rail.mtu for rail in here.rails],
        "rails": [[str(rail.address), rail.netdev, rail.rdma and rail.rdma.hca] for rail in here.rails],
    }


def write(path: Path, here: Here, peers: list[Facts], document: dict[str, Any]) -> None:
    """Keep a result with its identity; raises OSError."""
    kept = {"schema": 1, "identity": identity(here, [item.boot_id for item in peers]), **document}
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomic(path, json.dumps(kept, indent=2) + "\n")


def holds(path: Path, here: Here, peers: list[str], expected: float | None) -> str | None:
    """Why the rails must be measured (again); None when the kept result says that they are well.

    ``peers`` are the boot ids of the other hosts now; ``expected`` is what is wanted of a rail now.
    """
    try:
        document = load(path, "fabric.baseline")
    except UnusableError:
        return "nothing was measured since this boot"
    if document.get("schema") != 1 or document.get("identity") != identity(here, peers):
        return "a host was booted, or a rail changed, since the last measurement"
    if document.get("expected_gbps") != expected:
        return "something else is expected of the rails than at the last measurement"
    findings = document.get("findings")
    if not isinstance(findings, list) or any(
        not isinstance(item, dict) or item.get("level") == "error" for item in findings
    ):
        return "the last measurement found something wrong"
    return None
