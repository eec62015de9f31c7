"""``tandem demo-model``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from tandem.demo_model.shape import SENTENCE

app = typer.Typer(help="A small model, made on the spot.")


@app.command("demo-model")
def demo_model(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write the model: new or empty.")],
    seed: Annotated[int, typer.Option(min=0, help="Other seeds give other weights and the same answer.")] = 0,
) -> None:
    """Make the demo model: a Llama-shaped text model that answers every chat with one fixed sentence.

    It is constructed, not trained, and it knows nothing: it exists to show that a server with two ranks is
    put together rightly. Attention and feed-forward layers are real and random; the next word is decided by
    embedding and output matrices that are made so that each word of the sentence calls the next one, with
    neighbouring words on different ranks. The same seed gives the same bytes on every machine.
    """
    from tandem.demo_model.build import write_model

    begun = time.monotonic()
    try:
        sizes = write_model(directory, seed)
    except OSError as problem:
        where = problem.filename or directory
        typer.echo(
            f"demo-model: {where}: {problem.strerror}. Fix: name a new or empty directory you can write to.",
            err=True,
        )
        raise typer.Exit(1) from problem
    seconds = time.monotonic() - begun
    size = f"{len(sizes)} files, {sum(sizes.values()) / 1e6:.1f} MB"
    typer.echo(f'{directory}: {size}, {seconds:.1f} s; says "{SENTENCE}"')
