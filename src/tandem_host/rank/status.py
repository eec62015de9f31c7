"""Whether the rank that runs is the one that is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tandem_host.findings import UnusableError, as_json
from tandem_host.host import Host
from tandem_host.rank import serve, state


def compare(host: Host, state_file: Path, serve_file: Path) -> dict[str, Any]:
    """The running rank and the wanted one.

    ``active``: the very process which was started runs. ``matches``: it is active, from the wanted release
    and with the wanted configuration. A missing state file is an answer: nothing was started since boot.
    Where either file cannot be used, the other one still gives its half of the answer.
    """
    started, findings = state.read(state_file)
    wanted = None
    try:
        wanted = serve.read(serve_file)
    except UnusableError as problem:
        findings += problem.findings
    active = started is not None and state.alive(host, started)
    release = {"name": wanted.release.name, "digest": wanted.release.digest} if wanted else None
    same = (
        started is not None
        and wanted is not None
        and started.config_digest == wanted.config_digest
        and started.release == release
    )
    return {
        "active": active,
        "matches": active and same,
        "rank": started.rank if started else None,
        "pid": started.pid if started else None,
        "started_at": started.started_at if started else None,
        "running_digest": started.config_digest if started and active else None,
        "wanted_digest": wanted.config_digest if wanted else None,
        "running_release": started.release if started and active else None,
        "wanted_release": release,
        "findings": as_json(findings),
    }
