"""``tandem-host fabric resolve|check|up``, and those of ``layout``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tandem_host import arguments
from tandem_host.fabric.layout import cli as layout


def register(areas: Any) -> None:
    """Add the commands of this area."""
    commands = arguments.group(areas, "fabric", "the rails between the hosts")
    resolve = commands.add_parser("resolve", help="which interfaces, HCAs and GIDs the ranks must use now")
    check = commands.add_parser(
        "check", help="link, address, MTU and a large unfragmented ping to every peer"
    )
    up = commands.add_parser("up", help="check, resolve and write the environment file: what the unit runs")
    for parser in (resolve, check, up):
        arguments.add_root(parser)
        parser.add_argument(
            "--config", type=Path, default=arguments.CLUSTER_FILE, metavar="FILE", help="cluster.json"
        )
        parser.add_argument(
            "--rank", type=int, default=None, help="this host's rank; default: by its addresses"
        )
    layout.register(commands)
    resolve.add_argument(
        "--env-file", type=Path, default=None, help="write it, or remove it if there are errors"
    )
    up.add_argument("--env-file", type=Path, default=arguments.FABRIC_ENV_FILE, help="the environment file")
    check.add_argument(
        "--peer-wait",
        type=arguments.seconds,
        default=0.0,
        metavar="SECONDS",
        help="how long the peer may take",
    )
    up.add_argument(
        "--peer-wait",
        type=arguments.seconds,
        default=120.0,
        metavar="SECONDS",
        help="how long the peer may take",
    )
    resolve.set_defaults(run=_resolve)
    check.set_defaults(run=_check)
    up.set_defaults(run=_up)


def _resolve(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric import commands

    return commands.resolve(arguments.host_of(parsed), parsed.config, parsed.rank, parsed.env_file)


def _check(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric import commands

    return commands.check(arguments.host_of(parsed), parsed.config, parsed.rank, parsed.peer_wait)


def _up(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric import commands

    return commands.up(
        arguments.host_of(parsed), parsed.config, parsed.rank, parsed.env_file, parsed.peer_wait
    )
