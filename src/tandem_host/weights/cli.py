"""``tandem-host weights manifest|verify``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tandem_host import arguments


def register(areas: Any) -> None:
    """Add the commands of this area."""
    commands = arguments.group(areas, "weights", "model directories")
    manifest = commands.add_parser("manifest", help="sha256 and size of every file")
    verify = commands.add_parser(
        "verify", help="compare a directory with a manifest, and its shards with the index"
    )
    for parser in (manifest, verify):
        parser.add_argument("directory", type=Path, metavar="DIR")
        parser.add_argument(
            "--threads", type=arguments.count, default=None, metavar="N", help="default: the CPUs, at most 8"
        )
        arguments.add_root(parser)
    manifest.add_argument("--out", type=Path, default=None, metavar="FILE", help="also write it to a file")
    verify.add_argument("--manifest", type=Path, required=True, metavar="FILE")
    depth = verify.add_mutually_exclusive_group()
    depth.add_argument(
        "--full", dest="full", action="store_true", default=True, help="hash every file (default)"
    )
    depth.add_argument(
        "--quick", dest="full", action="store_false", help="sizes and safetensors headers only"
    )
    manifest.set_defaults(run=_manifest)
    verify.set_defaults(run=_verify)


def _manifest(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.weights import manifest

    directory = arguments.host_of(parsed).path(parsed.directory.absolute())
    return manifest.command(directory, parsed.out, parsed.threads)


def _verify(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.weights import verify

    directory = arguments.host_of(parsed).path(parsed.directory.absolute())
    return verify.command(directory, parsed.manifest, full=parsed.full, threads=parsed.threads)
