"""The `tandem` command."""

from __future__ import annotations

import typer

from tandem.demo import app as demo_app
from tandem.demo_model.cli import demo_model
from tandem.lab.cli import app as lab_app
from tandem.release.cli import app as release_app

app = typer.Typer(help="Two DGX Sparks, one server.", no_args_is_help=True)
app.add_typer(demo_app, name="demo")
app.add_typer(lab_app, name="lab")
app.add_typer(release_app, name="release")
app.command("demo-model")(demo_model)
