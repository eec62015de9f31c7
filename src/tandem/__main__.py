"""``python -m tandem``."""

from tandem.cli import app

app()
