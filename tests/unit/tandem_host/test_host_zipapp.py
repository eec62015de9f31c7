"""The one file that hosts get: the same bytes each time, and it runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from hosttree import Config, Tree

import tandem_host
from tandem.host_tool import SHEBANG, SOURCE, build
from tandem_host import cli, files

PACKAGE = Path(tandem_host.__file__).parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built program."""
    file = tmp_path_factory.mktemp("tool") / "tandem-host"
    file.write_bytes(build(PACKAGE))
    file.chmod(0o755)
    return file


def test_the_same_bytes_from_a_copy_with_other_times(tmp_path: Path) -> None:
    copy = tmp_path / "tandem_host"
    shutil.copytree(PACKAGE, copy, copy_function=shutil.copyfile)
    (copy / "__pycache__").mkdir(exist_ok=True)
    (copy / "__pycache__/stray.py").write_text("x")
    (copy / "notes.txt").write_text("x")
    for file in copy.rglob("*.py"):
        os.utime(file, (1, 1))
        file.chmod(0o600)
    assert build(copy) == build() == build(PACKAGE)
    assert PACKAGE.resolve() == SOURCE


def test_a_changed_source_changes_the_bytes(tmp_path: Path) -> None:
    copy = tmp_path / "tandem_host"
    shutil.copytree(PACKAGE, copy)
    (copy / "host.py").write_text((copy / "host.py").read_text() + "\n")
    assert build(copy) != build(PACKAGE)


def test_what_is_in_it() -> None:
    content = build(PACKAGE)
    assert content.startswith(SHEBANG)
    with zipfile.ZipFile(BytesIO(content)) as archive:
        names = archive.namelist()
        assert names[0] == "__main__.py"
        assert names[1:] == sorted(names[1:])
        assert {"tandem_host/cli.py", "tandem_host/fabric/gids.py"} <= set(names)
        assert {(item.date_time, item.compress_type) for item in archive.infolist()} == {
            ((1980, 1, 1, 0, 0, 0), zipfile.ZIP_STORED)
        }


def test_a_directory_that_is_not_the_source(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"cli\.py"):
        build(tmp_path)


def test_it_runs_without_anything_else(program: Path, tree: Tree, config: Config, tmp_path: Path) -> None:
    for rail, netdev in enumerate(("enp1s0f0np0", "enP2p1s0f0np0")):
        tree.interface(netdev, f"10.0.{rail}.1/24")
    arguments: list[str | Path] = ["--config", config(kind="ethernet"), "--root", tree.root]
    answer = subprocess.run(
        [sys.executable, "-IS", program, "fabric", "resolve", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert json.loads(answer.stdout)["rank"] == 0


@pytest.mark.parametrize("area", [area for area in cli.AREAS if (PACKAGE / area / "cli.py").is_file()])
def test_every_area_explains_itself(program: Path, area: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-IS", program, area, "--help"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0
    assert area in answer.stdout


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state"
    files.write_atomic(file, "old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_atomic(file, "new")
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
