"""The digest of a release: the same for the same build, another one for another build."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tandem.release.digest import DigestError, release_digest, series

X86 = "linux-x86_64-cpu-py311"


def test_the_digest_is_a_fixed_function_of_the_files(release: Path) -> None:
    # Written down, because a host that has this release must not build it again after an update of Tandem.
    (release / "x86_64.lock").write_text("engine==2.0\n")
    (release / "build.lock").write_text("installer==1.0\n")
    assert release_digest(release, X86) == "2dea18ed4f53d3df"


def test_the_same_files_elsewhere_have_the_same_digest(release: Path, tmp_path: Path) -> None:
    before = release_digest(release, X86)
    shutil.copytree(tmp_path / "repository", tmp_path / "copy")
    assert release_digest(tmp_path / "copy/releases/tiny", X86) == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("releases/tiny/x86_64.lock", "plain==1.5", "plain==1.6"),
        ("releases/tiny/build.lock", "installer==1.0", "installer==1.1"),
        ("files/patches/engine-2.0/0001-hello.patch", "hello", "goodbye"),
        ("files/patches/engine-2.0/series", "0001-hello.patch", "# 0001-hello.patch"),
        ("releases/tiny/release.yml", 'python: "3.11"', 'python: "3.12"'),
        ("releases/tiny/release.yml", "accelerator: cpu", "accelerator: cuda"),
        ("releases/tiny/release.yml", "minimum:", "build: {installer: uv}\nminimum:"),
        ("releases/tiny/release.yml", "package: engine", "package: plain"),
    ],
)
def test_what_decides_the_build_changes_the_digest(
    release: Path, tmp_path: Path, file: str, old: str, new: str
) -> None:
    before = release_digest(release, X86)
    path = tmp_path / "repository" / file
    path.write_text(path.read_text().replace(old, new))
    assert release_digest(release, X86) != before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("releases/tiny/release.yml", "Two packages, to see", "Two packages to see"),
        ("releases/tiny/release.yml", "memory_gib: 0.5", "memory_gib: 0.6"),
        ("releases/tiny/release.yml", "minimum:", "engine: {args: {seed: 1}}\nminimum:"),
        ("releases/tiny/aarch64.lock", "plain==1.5", "plain==1.6"),
        ("files/patches/engine-2.0/series", "# in order", "# in this order"),
    ],
)
def test_what_does_not_decide_the_build_leaves_it(
    release: Path, tmp_path: Path, file: str, old: str, new: str
) -> None:
    before = release_digest(release, X86)
    path = tmp_path / "repository" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert release_digest(release, X86) == before


def test_the_order_of_the_patches_counts(release: Path, tmp_path: Path) -> None:
    patches = tmp_path / "repository/files/patches/engine-2.0"
    (patches / "0002-more.patch").write_text("more")
    (patches / "series").write_text("0001-hello.patch\n0002-more.patch\n")
    one = release_digest(release, X86)
    (patches / "series").write_text("0002-more.patch\n0001-hello.patch\n")
    assert release_digest(release, X86) != one


def test_platforms_have_their_own_digests(release: Path) -> None:
    assert release_digest(release, X86) != release_digest(release, "linux-aarch64-cpu-py311")


@pytest.mark.parametrize("name", ["../0001-hello.patch", "/etc/hostname", "..", "sub/0001-hello.patch"])
def test_a_series_names_files_beside_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "series").write_text(f"{name}\n")
    with pytest.raises(DigestError, match="does not name a file beside it") as caught:
        series(tmp_path)
    assert str(tmp_path / "series") in str(caught.value)
    assert repr(name) in str(caught.value)


def test_a_series_with_an_indented_comment(tmp_path: Path) -> None:
    (tmp_path / "series").write_text("  # not yet\n\n 0001-hello.patch \n")
    assert series(tmp_path) == ["0001-hello.patch"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lock: x86_64.lock", "lock: gone.lock", "gone.lock: No such file or directory. Fix: "),
        ("lock: x86_64.lock", "lock: 7", "lock is 7, wanted a file name. Fix: "),
        ("platforms:", "platform:", "platforms is None, wanted a list of mappings. Fix: "),
        (
            "x86_64-cpu",
            "x86_64-gpu",
            "platforms has no 'linux-x86_64-cpu-py311'. Fix: choose one of linux-x86_64-g",
        ),
        ("schema: 1", "schema: [1", "release.yml: is not YAML: "),
    ],
)
def test_a_release_without_a_digest_says_why(release: Path, old: str, new: str, message: str) -> None:
    source = release / "release.yml"
    source.write_text(source.read_text().replace(old, new, 1))
    with pytest.raises(DigestError) as caught:
        release_digest(release, X86)
    assert message in str(caught.value)
    assert str(release) in str(caught.value)
