"""``tandem release show``, on a release of the tests and on those of this repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from releasetree import Tandem
from typer.testing import CliRunner

from tandem.release.cli import app
from tandem.release.digest import release_digest
from tandem.release.schema import load_release
from tandem_host.release.patch import read_series

REPOSITORY = Path(__file__).parents[3]
RELEASES = sorted(path.parent for path in REPOSITORY.glob("releases/*/release.yml"))


def test_show_as_json(tandem: Tandem, release: Path) -> None:
    result = tandem("show", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert document["versions"] == {"engine": "2.0"}
    assert document["patches"] == [
        {"dir": "files/patches/engine-2.0", "package": "engine", "series": ["0001-hello.patch"]}
    ]
    assert document["minimum"] == {"disk_gib": 1.0, "memory_gib": 0.5}
    x86 = document["platforms"][0]
    assert x86["digest"] == release_digest(release, "linux-x86_64-cpu-py311")
    assert x86["packages"] == 3  # the engine, what it needs, and the installer
    assert document["problems"] == []


def test_show_for_people(tandem: Tandem, release: Path) -> None:
    result = tandem("show")
    assert result.exit_code == 0
    for text in ("Two packages", "3 packages", "0001-hello.patch on engine", "1 GiB of disk"):
        assert text in result.stdout
    assert f"tiny-{release_digest(release, 'linux-aarch64-cpu-py311')}" in result.stdout


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("releases/tiny/aarch64.lock", "aarch64.lock: No such file or directory"),
        ("files/patches/engine-2.0/series", "engine-2.0/series: No such file or directory"),
        ("files/patches/engine-2.0/0001-hello.patch", "0001-hello.patch: No such file or directory"),
    ],
)
def test_show_tells_of_a_file_that_is_gone(tandem: Tandem, tmp_path: Path, file: str, message: str) -> None:
    (tmp_path / "repository" / file).unlink()
    result = tandem("show", "--json")
    assert result.exit_code == 1
    problems = json.loads(result.stdout)["problems"]
    assert any(message in line and "Fix: " in line for line in problems)
    assert len(problems) == len(set(problems))


def test_show_of_a_release_that_is_not_there(release: Path) -> None:
    result = CliRunner().invoke(app, ["show", "huge", "--releases", str(release.parent)])
    assert result.exit_code == 2
    assert "Fix: choose a release that is there (tiny)" in result.output


@pytest.mark.parametrize("directory", RELEASES, ids=lambda path: path.name)
def test_a_release_of_this_repository(directory: Path) -> None:
    result = CliRunner().invoke(app, ["show", directory.name, "--json", "--releases", str(directory.parent)])
    assert (json.loads(result.stdout)["problems"], result.exit_code) == ([], 0)
    for patches in load_release(directory).patches:
        assert read_series(REPOSITORY / patches.dir)
