"""The demo model of seed 0, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.demo_model.build import write_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the model. Tests read it and leave it as it is."""
    directory = tmp_path_factory.mktemp("models") / "demo"
    write_model(directory, seed=0)
    return directory
