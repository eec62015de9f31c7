"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tandem_host.host import Host

CLUSTER_FILE = Path("/etc/tandem/cluster.json")
SERVE_FILE = Path("/etc/tandem/serve.json")
FABRIC_ENV_FILE = Path("/run/tandem/fabric.env")
FABRIC_RECORD_FILE = Path("/run/tandem/fabric.json")
FABRIC_STATE_DIR = Path("/var/lib/tandem/fabric")
STATE_FILE = Path("/run/tandem/rank/rank.json")
_LONGEST_SECONDS = 7 * 24 * 3600.0


def seconds(text: str) -> float:
    """A number of seconds from 0 to a week, as the type of an argument; raises ValueError."""
    value = float(text)
    if not math.isfinite(value) or not 0 <= value <= _LONGEST_SECONDS:
        raise ValueError
    return value


def count(text: str) -> int:
    """A whole number from 1, as the type of an argument; raises ValueError."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def add_root(parser: argparse.ArgumentParser) -> None:
    """Add ``--root``: read DIR/sys, DIR/proc, DIR/etc … instead of the real ones."""
    parser.add_argument(
        "--root", type=Path, default=Path("/"), metavar="DIR", help="read DIR/sys, DIR/proc, … instead"
    )


def host_of(arguments: argparse.Namespace) -> Host:
    """The host that ``--root`` names; raises BadInputError when it is not a directory."""
    from tandem_host.findings import BadInputError, error
    from tandem_host.host import Host

    root: Path = arguments.root
    if not root.is_dir():
        text = f"--root {root} is not a directory."
        raise BadInputError(
            [error("usage.root.missing", text, "Give a directory that holds sys, proc and etc.")]
        )
    return Host(root.resolve())


def group(areas: Any, name: str, summary: str) -> Any:
    """Add the parser of one area and return what its commands are added to."""
    area = areas.add_parser(name, help=summary, description=summary)
    return area.add_subparsers(dest="command", required=True, metavar="COMMAND")
