"""What the last start resolved, kept beside the environment file: a GID that moved since then is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tandem_host import files
from tandem_host.cluster import Node
from tandem_host.fabric.rails import RailState
from tandem_host.findings import Finding, warning
from tandem_host.strict import parse, read_text

# (HCA, port) -> GID index
Indexes = dict[tuple[str, int], int]


def write(path: Path, node: Node, rails: Sequence[RailState]) -> None:
    """Replace the record in one step; raises OSError."""
    document = {"host": node.name, "rank": node.rank, "rails": [rail.as_json() for rail in rails]}
    files.write_atomic(path, json.dumps(document, indent=2) + "\n")


def read(path: Path) -> tuple[Indexes, list[Finding]]:
    """The indexes of the last start; none when there was no start yet.

    A record that cannot be used is a warning: it says nothing about the rails as they are.
    """
    try:
        rails = parse(read_text(path))["rails"]
        return {
            (str(rail["hca"]), int(rail["port"])): int(rail["gid_index"]) for rail in rails if rail["hca"]
        }, []
    except (FileNotFoundError, NotADirectoryError):
        return {}, []
    except OSError as problem:
        why = str(problem.strerror)
    except (ValueError, TypeError, KeyError) as problem:
        why = f"{type(problem).__name__}: {problem}"
    text = f"{path} cannot be used ({why}): whether a GID moved since the last start is not known."
    return {}, [
        warning("fabric.record.invalid", text, "sudo systemctl restart tandem-fabric.service writes it")
    ]


def drift(before: Indexes, node: Node, rails: Sequence[RailState]) -> list[Finding]:
    """A warning for each HCA where the address's GID is not at the index any more where it was."""
    found = []
    for rail in rails:
        old = before.get((rail.rdma.hca, rail.rdma.port)) if rail.rdma else None
        if rail.rdma is None or old is None or rail.gid_index is None or old in rail.candidates:
            continue
        text = (
            f"{node.name}: the GID of {rail.address.ip} on {rail.rdma.hca} port {rail.rdma.port} "
            f"moved {old} -> {rail.gid_index} since the last start."
        )
        fix = "A rank that runs uses the old entry: ansible-playbook playbooks/stop.yml, then site.yml."
        found.append(warning("fabric.gid.moved", text, fix))
    return found
