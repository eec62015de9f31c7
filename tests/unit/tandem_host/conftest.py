"""A host as a directory tree, a cluster.json, and the program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hosttree import Config, Run, Tree, cluster_document

from tandem_host import cli


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty host called spark-a."""
    built = Tree(tmp_path / "root")
    built.write("etc/hostname", "spark-a")
    built.write("tandem-fixture/ip-addr.json", "[]")
    return built


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Writes a cluster.json and returns where it is."""

    def write(document: dict[str, Any] | None = None, **changes: Any) -> Path:
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps(document or cluster_document(**changes)), encoding="utf-8")
        return file

    return write


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs tandem-host and returns its exit status and the one JSON document that it printed."""

    def call(*arguments: object) -> tuple[int, dict[str, Any]]:
        status = cli.main([str(item) for item in arguments])
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return status, document

    return call
