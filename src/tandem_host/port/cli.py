"""``tandem-host port check``."""

from __future__ import annotations

import argparse
from typing import Any

from tandem_host import arguments


def register(areas: Any) -> None:
    """Add the commands of this area."""
    commands = arguments.group(areas, "port", "TCP ports that must be free")
    check = commands.add_parser("check", help="whether a port is free, and who holds it if not")
    arguments.add_root(check)
    check.add_argument("--address", required=True, help="the address that will listen; 0.0.0.0 or :: for all")
    check.add_argument("--port", required=True, type=int)
    check.add_argument(
        "--accept-unit",
        action="append",
        default=[],
        metavar="UNIT",
        help="a systemd unit that may hold it, for example tandem-rank.service; may be given again",
    )
    check.set_defaults(run=_check)


def _check(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.port import holder

    return holder.check(arguments.host_of(parsed), parsed.address, parsed.port, parsed.accept_unit)
