"""``tandem-host rank exec|show|status|inspect``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tandem_host import arguments


def register(areas: Any) -> None:
    """Add the commands of this area."""
    commands = arguments.group(areas, "rank", "the vLLM rank of this host")
    execute = commands.add_parser("exec", help="become this host's rank: what tandem-rank.service runs")
    show = commands.add_parser("show", help="the command line and environment of a rank, without starting it")
    status = commands.add_parser("status", help="whether the running rank is the wanted one")
    inspect = commands.add_parser(
        "inspect", help="processes, TCP connections and interface counters of the rank"
    )
    for parser in (execute, show, status, inspect):
        arguments.add_root(parser)
    for parser in (execute, show, inspect):
        parser.add_argument("--cluster", type=Path, default=arguments.CLUSTER_FILE, metavar="FILE")
    for parser in (execute, show, status):
        parser.add_argument("--serve", type=Path, default=arguments.SERVE_FILE, metavar="FILE")
    for parser in (execute, status, inspect):
        parser.add_argument("--state", type=Path, default=arguments.STATE_FILE, metavar="FILE")
    for parser in (execute, show):
        parser.add_argument("--rank", type=int, default=None, help="default: by this host's addresses")
    execute.add_argument("--fabric-env", type=Path, default=arguments.FABRIC_ENV_FILE, metavar="FILE")
    show.add_argument("--fabric-env", type=Path, default=None, metavar="FILE", help="also show what it sets")
    execute.set_defaults(run=_exec)
    show.set_defaults(run=_show)
    status.set_defaults(run=_status)
    inspect.set_defaults(run=_inspect)


def _exec(parsed: argparse.Namespace) -> dict[str, Any]:
    import os

    from tandem_host.findings import as_json, has_errors
    from tandem_host.rank import launch

    launch.refuse_root(parsed.root)
    host = arguments.host_of(parsed)
    ready = launch.plan(
        host,
        cluster_file=parsed.cluster,
        serve_file=parsed.serve,
        fabric_env=parsed.fabric_env,
        rank=parsed.rank,
        inherited=os.environ,
    )
    if not has_errors(ready.findings):
        launch.start(host, ready, parsed.state)
    return {"rank": ready.node.rank, "host": ready.node.name, "findings": as_json(ready.findings)}


def _show(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.rank import launch

    host = arguments.host_of(parsed)
    return launch.show(host, parsed.cluster, parsed.serve, parsed.fabric_env, parsed.rank)


def _status(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.rank import status

    return status.compare(arguments.host_of(parsed), parsed.state, parsed.serve)


def _inspect(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.rank import observe

    return observe.facts(arguments.host_of(parsed), parsed.state, parsed.cluster)
