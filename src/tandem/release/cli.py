"""``tandem release lock|show|fetch``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from tandem.release.schema import Release, ReleaseError, load_release

app = typer.Typer(no_args_is_help=True, help="Releases: their locks and their wheels.")

SHOWN = 5  # files in a message

Name = Annotated[str, typer.Argument(metavar="RELEASE", help="A folder below releases/.")]
Releases = Annotated[
    Path | None,
    typer.Option(
        "--releases", metavar="DIR", help="Where the releases are, instead of this repository's folder."
    ),
]


def releases_dir() -> Path:
    """The ``releases`` folder of the working directory if it has one, else of this source tree."""
    here = Path.cwd() / "releases"
    return here if here.is_dir() else Path(__file__).resolve().parents[3] / "releases"


def _open(name: str, releases: Path | None) -> tuple[Path, Release]:
    directory = (releases or releases_dir()) / name
    try:
        return directory, load_release(directory)
    except ReleaseError as problem:
        raise _fail(str(problem), 2) from problem


def _fail(message: str, code: int) -> typer.Exit:
    typer.echo(message, err=True)
    return typer.Exit(code)


@app.command()
def show(
    name: Name,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
    releases: Releases = None,
) -> None:
    """What a release is made of: versions, platforms with their digests, patches, and what a host needs."""
    from tandem.release.show import as_document, as_tables

    directory, release = _open(name, releases)
    document = as_document(directory, release)
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        from rich.console import Console

        console = Console()
        for part in as_tables(document):
            console.print(part)
    if document["problems"]:
        raise typer.Exit(1)


@app.command()
def lock(
    name: Name,
    upgrade: Annotated[bool, typer.Option("--upgrade", help="Take the newest versions that fit.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether they agree with the other files; no network.")
    ] = False,
    releases: Releases = None,
) -> None:
    """Make the locks of a release again. Needs the package index; versions stay unless told otherwise."""
    from tandem.release.lockfile import LockError, parse_lock
    from tandem.release.resolve import lock_build, lock_platform

    directory, release = _open(name, releases)
    if check:
        _check_locks(name, directory, release)
        return
    try:
        texts = {item.lock: lock_platform(directory, release, item, upgrade) for item in release.platforms}
        texts[release.build_lock] = lock_build(directory, release, upgrade)
    except LockError as problem:
        raise _fail(f"release lock: {problem}", 1) from problem
    for file, text in texts.items():
        path = directory / file
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if text != before:
            part = path.with_name(f".{path.name}.part")
            part.write_text(text, encoding="utf-8")
            part.replace(path)
        packages = len(parse_lock(text, path))
        typer.echo(f"{path}: {packages} packages, {'unchanged' if text == before else 'written'}")


def _check_locks(name: str, directory: Path, release: Release) -> None:
    from tandem.release.agreement import disagreements
    from tandem.release.lockfile import LockError

    try:
        found = disagreements(directory, release)
    except LockError as problem:
        raise _fail(f"release lock: {problem}", 1) from problem
    if found:
        raise _fail("\n".join([*found, f"Fix: tandem release lock {name}"]), 1)
    typer.echo(f"{name}: the locks agree with {directory / 'release.yml'} and the files it names")


@app.command()
def fetch(
    name: Name,
    destination: Annotated[Path, typer.Option("--dest", metavar="DIR", help="The wheelhouse.")],
    machine: Annotated[
        str, typer.Option(help="x86_64 or aarch64, or a platform's name where several have that machine.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether it is complete; no network.")
    ] = False,
    releases: Releases = None,
) -> None:
    """Fill a wheelhouse with the wheels of a release, each checked against its hash."""
    from tandem.release.lockfile import LockError
    from tandem.release.wheelhouse import wanted_wheels

    directory, release = _open(name, releases)
    try:
        platform = release.platform(machine)
        wanted = wanted_wheels(directory, release, platform)
    except (ReleaseError, LockError) as problem:
        raise _fail(f"release fetch: {problem}", 2) from problem
    if check:
        from tandem.release.wheelhouse import compare

        state = compare(destination, wanted)
        lacking = [item.wheel.file for item in (*state.missing, *state.unchecked)]
        if lacking:
            raise _fail(
                f"{destination}: {len(lacking)} of {len(wanted)} wheels are missing or changed: "
                f"{', '.join(lacking[:SHOWN])}{' …' if len(lacking) > SHOWN else ''}. "
                f"Fix: tandem release fetch {name} --machine {machine} --dest {destination}",
                1,
            )
        typer.echo(f"{name} {platform.name}: {len(wanted)} wheels, complete in {destination}")
        return

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeElapsedColumn

    from tandem.release.download import FetchError
    from tandem.release.fetch import fetch as fill

    columns = ("wheels", BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task("wheels", total=sum(item.wheel.size for item in wanted))
        try:
            result = fill(wanted, release, platform, destination, lambda size: bar.advance(task, size))
        except FetchError as problem:
            raise _fail(f"release fetch: {problem}", 1) from problem
        except OSError as problem:
            where = problem.filename or destination
            reason = problem.strerror or problem
            raise _fail(f"release fetch: {where}: {reason}. Fix: `df -h {destination}`", 1) from problem
    for why in result.removed:
        typer.echo(f"removed {why}", err=True)
    typer.echo(f"{name} {platform.name}: {result.summary()}, in {destination}")
