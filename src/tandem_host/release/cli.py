"""``tandem-host release patch|seal|verify``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tandem_host import arguments


def register(areas: Any) -> None:
    """Add the commands of this area."""
    commands = arguments.group(areas, "release", "the built release: patch, seal, verify")
    patch = commands.add_parser("patch", help="apply a series of patches to installed packages, all or none")
    patch.add_argument("--site-packages", type=Path, required=True, metavar="DIR")
    patch.add_argument(
        "--patch-dir", type=Path, required=True, metavar="DIR", help="holds `series` and patches"
    )
    patch.add_argument("--check", action="store_true", help="only say what would change")
    patch.set_defaults(run=_patch)

    seal = commands.add_parser("seal", help="hash every file and write the manifest: the release is complete")
    seal.add_argument("directory", type=Path, metavar="DIR")
    seal.add_argument("--name", required=True, help="the release's name")
    seal.add_argument("--digest", required=True, help="the release's digest")
    seal.set_defaults(run=_seal)

    verify = commands.add_parser("verify", help="compare the files with the manifest")
    verify.add_argument("directory", type=Path, metavar="DIR")
    verify.add_argument("--quick", action="store_true", help="size and time of every file, no hashing")
    verify.add_argument(
        "--manifest",
        type=Path,
        default=None,
        metavar="FILE",
        help="instead of DIR/manifest.json; - is standard input",
    )
    verify.set_defaults(run=_verify)
    for parser in (seal, verify):
        parser.add_argument(
            "--threads", type=int, default=0, metavar="N", help="default: the CPUs, at most 8"
        )
    for parser in (patch, seal, verify):
        arguments.add_root(parser)


def _path(parsed: argparse.Namespace, path: Path) -> Path:
    return arguments.host_of(parsed).path(path.absolute())


def _patch(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.release import patch

    return patch.command(
        _path(parsed, parsed.site_packages), _path(parsed, parsed.patch_dir), check=parsed.check
    )


def _seal(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.release import seal

    return seal.command(_path(parsed, parsed.directory), parsed.name, parsed.digest, parsed.threads)


def _verify(parsed: argparse.Namespace) -> dict[str, Any]:
    from tandem_host.release import verify

    return verify.command(_path(parsed, parsed.directory), parsed.manifest, parsed.quick, parsed.threads)
