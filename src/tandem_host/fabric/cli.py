"""``tandem-host fabric resolve|check|up|discover|lint``, and those of ``layout`` and ``bench``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tandem_host import arguments
from tandem_host.fabric.bench import cli as bench
from tandem_host.fabric.layout import cli as layout

if TYPE_CHECKING:
    from tandem_host.fabric.start import Asked


def register(areas: Any) -> None:
    """Add the commands of this area."""
    commands = arguments.group(areas, "fabric", "the rails between the hosts")
    resolve = commands.add_parser("resolve", help="which interfaces, HCAs and GIDs the ranks must use now")
    check = commands.add_parser(
        "check", help="all that a rail needs, and a large unfragmented ping to every peer"
    )
    up = commands.add_parser("up", help="check, resolve and write the environment file: what the unit runs")
    discover = commands.add_parser("discover", help="interfaces, cages, HCAs, and which peer a rail reaches")
    lint = commands.add_parser("lint", help="an environment, or a log of NCCL, against this host")
    for parser, config in ((resolve, arguments.CLUSTER_FILE), (discover, None), (lint, None)):
        _add_node(parser, config)
    for parser, wait in ((check, 0.0), (up, 120.0)):
        _add_node(parser, arguments.CLUSTER_FILE)
        _add_checking(parser, wait)
    layout.register(commands)
    bench.register(commands)
    resolve.add_argument(
        "--env-file", type=Path, default=None, help="write it, or remove it if there are errors"
    )
    up.add_argument("--env-file", type=Path, default=arguments.FABRIC_ENV_FILE, help="the environment file")
    lint.add_argument("--env-file", type=Path, default=None, metavar="FILE", help="lines of NAME=value")
    lint.add_argument("--nccl-log", type=Path, default=None, metavar="FILE", help="output of NCCL_DEBUG=INFO")
    resolve.set_defaults(run=_resolve)
    check.set_defaults(run=_check)
    up.set_defaults(run=_up)
    discover.set_defaults(run=_discover)
    lint.set_defaults(run=_lint)


def _add_node(parser: argparse.ArgumentParser, config: Path | None) -> None:
    arguments.add_root(parser)
    parser.add_argument("--config", type=Path, default=config, metavar="FILE", help="cluster.json")
    parser.add_argument("--rank", type=int, default=None, help="this host's rank; default: by its addresses")


def _add_checking(parser: argparse.ArgumentParser, wait: float) -> None:
    parser.add_argument(
        "--peer-wait",
        type=arguments.seconds,
        default=wait,
        metavar="SECONDS",
        help="how long the peer may take",
    )
    parser.add_argument(
        "--record", type=Path, default=None, metavar="FILE", help="what the last start resolved"
    )
    parser.add_argument("--service-user", default="tandem", metavar="NAME", help="the ranks' account")


def _resolve(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric import commands

    return commands.resolve(arguments.host_of(parsed), parsed.config, parsed.rank, parsed.env_file)


def _asked(parsed: argparse.Namespace) -> Asked:
    from tandem_host.fabric import start

    return start.Asked(parsed.config, parsed.rank, parsed.peer_wait, parsed.service_user)


def _check(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric import start

    host = arguments.host_of(parsed)
    record = parsed.record or host.path(arguments.FABRIC_RECORD_FILE)
    return start.check(host, _asked(parsed), record)


def _up(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric import start

    record = parsed.record or parsed.env_file.with_name(arguments.FABRIC_RECORD_FILE.name)
    return start.up(arguments.host_of(parsed), _asked(parsed), parsed.env_file, record)


def _discover(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric.discover import document

    return document.discover(arguments.host_of(parsed), parsed.config, parsed.rank)


def _lint(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric.lint import command

    files = command.Files(parsed.config, parsed.env_file, parsed.nccl_log)
    return command.lint(arguments.host_of(parsed), files, parsed.rank)
