"""A repository with the release `tiny`, and an index that has its wheels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from releasetree import ARM, PATCH, RELEASE, X86, Index, Tandem, entry, served, wheel
from typer.testing import CliRunner, Result

from tandem.release.cli import app


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """The wheels of the release, for both machines."""
    directory = tmp_path / "index"
    for tag in (X86, ARM):
        wheel(directory, f"engine-2.0-cp311-cp311-{tag}.whl", requires="plain>=1")
        wheel(directory, f"installer-1.0-py3-none-{tag}.whl")
    wheel(directory, "plain-1.5-py3-none-any.whl")
    return directory


@pytest.fixture
def index(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """The index, which pip and uv are told to use instead of any other."""
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_EXTRA_INDEX_URL", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    with served(Index(wheels)) as here:
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_INDEX_URL", here.url)
        monkeypatch.setenv("PIP_RETRIES", "0")
        monkeypatch.setenv("UV_NO_CONFIG", "1")
        monkeypatch.setenv("UV_DEFAULT_INDEX", here.url)
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield here


@pytest.fixture
def release(tmp_path: Path, wheels: Path) -> Path:
    """The folder of the release, with locks that fit the wheels."""
    directory = tmp_path / "repository/releases/tiny"
    directory.mkdir(parents=True)
    files = {file.name: file for file in wheels.iterdir()}
    installers = [files[f"installer-1.0-py3-none-{tag}.whl"] for tag in (X86, ARM)]
    for machine, tag in (("x86_64", X86), ("aarch64", ARM)):
        engine = entry("engine", "2.0", files[f"engine-2.0-cp311-cp311-{tag}.whl"])
        plain = entry("plain", "1.5", files["plain-1.5-py3-none-any.whl"])
        (directory / f"{machine}.lock").write_text(engine + plain)
    (directory / "build.lock").write_text(entry("installer", "1.0", *installers))
    (directory / "release.yml").write_text(RELEASE)
    (directory / "requirements.in").write_text("engine==2.0\n")
    (directory / "requirements-build.in").write_text("installer==1.0\n")
    (directory / "overrides.txt").write_text("heavy ; sys_platform == 'never'\n")
    patches = tmp_path / "repository/files/patches/engine-2.0"
    patches.mkdir(parents=True)
    (patches / "series").write_text("# in order\n0001-hello.patch\n")
    (patches / "0001-hello.patch").write_text(PATCH)
    return directory


@pytest.fixture
def tandem(release: Path, index: Index, tmp_path: Path) -> Tandem:
    """Runs ``tandem release``; ``fetch`` fills the folder ``wheels`` of the test's own directory."""

    def call(command: str, *options: str) -> Result:
        arguments = [command, "tiny", "--releases", str(release.parent)]
        if command == "fetch":
            arguments += ["--machine", "x86_64", "--dest", str(tmp_path / "wheels")]
        return CliRunner().invoke(app, [*arguments, *options])

    return call
