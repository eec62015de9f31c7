"""``tandem-host fabric plan|apply|confirm|restore``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tandem_host import arguments

if TYPE_CHECKING:
    from tandem_host.fabric.layout.plan import Wish

_NETPLAN_FILE = "/etc/netplan/60-tandem-fabric.yaml"


def register(commands: Any) -> None:
    """Add the commands."""
    plan = commands.add_parser("plan", help="who configures the rails, and what would change")
    apply = commands.add_parser("apply", help="change it; unless confirmed in time, it is put back")
    confirm = commands.add_parser("confirm", help="keep what was applied")
    restore = commands.add_parser("restore", help="put files back as they were")
    for parser in (plan, apply, confirm, restore):
        arguments.add_root(parser)
    for parser in (plan, apply):
        _add_wish(parser)
    for parser in (plan, apply, confirm, restore):
        parser.add_argument(
            "--state-dir", type=Path, default=arguments.FABRIC_STATE_DIR, metavar="DIR", help="the copies"
        )
    apply.add_argument(
        "--confirm-within",
        type=arguments.count,
        default=60,
        metavar="SECONDS",
        help="how long a confirmation may take",
    )
    which = restore.add_mutually_exclusive_group(required=True)
    which.add_argument("--pending", action="store_true", help="what was applied and not confirmed")
    which.add_argument("--to", choices=("original", "previous"), help="before Tandem, or one change back")
    restore.add_argument("--boot", action="store_true", help="the network is not up yet: apply nothing")
    restore.add_argument("--check", action="store_true", help="say what would be put back")
    plan.set_defaults(run=_plan)
    apply.set_defaults(run=_apply)
    confirm.set_defaults(run=_confirm)
    restore.set_defaults(run=_restore)


def _add_wish(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, default=arguments.CLUSTER_FILE, metavar="FILE", help="cluster.json"
    )
    parser.add_argument("--rank", type=int, default=None, help="this host's rank; default: by its addresses")
    parser.add_argument(
        "--netplan-file", type=_file, default=_NETPLAN_FILE, metavar="FILE", help="what Tandem writes"
    )
    parser.add_argument(
        "--renderer",
        choices=("networkd", "NetworkManager"),
        default="",
        help="who carries it out; default: the host's own",
    )
    parser.add_argument(
        "--management",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="an address by which the host is reached, and whose interface is no rail",
    )


def _file(text: str) -> str:
    """The absolute path of a file that netplan reads, as the type of an argument; raises ValueError."""
    path = Path(text)
    if not path.is_absolute() or path.suffix != ".yaml" or ".." in path.parts:
        raise ValueError
    return str(path)


def _wish(parsed: argparse.Namespace) -> Wish:
    from tandem_host.fabric.layout.plan import Wish

    return Wish(parsed.config, parsed.rank, parsed.netplan_file, parsed.renderer, tuple(parsed.management))


def _plan(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric.layout.plan import make
    from tandem_host.fabric.layout.store import Store

    host, wish = arguments.host_of(parsed), _wish(parsed)
    document = make(host, wish).as_json(wish)
    # A change that nobody has proved yet is done again by the next apply.
    pending = Store(host, parsed.state_dir).pending() is not None
    return document | {"pending": pending, "changed": document["changed"] or pending}


def _apply(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric.layout import transaction

    host = arguments.host_of(parsed)
    return transaction.apply(host, _wish(parsed), parsed.state_dir, parsed.confirm_within)


def _confirm(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric.layout import transaction

    return transaction.confirm(arguments.host_of(parsed), parsed.state_dir)


def _restore(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.fabric.layout import transaction

    to = "pending" if parsed.pending else parsed.to
    if parsed.check:
        return transaction.would_restore(arguments.host_of(parsed), parsed.state_dir, to)
    return transaction.restore(arguments.host_of(parsed), parsed.state_dir, to, parsed.boot)
