"""``release patch``: a series applies exactly where it says, all of it or nothing, and only once."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from hosttree import Run, codes, message

from tandem_host.release import diff

HEADER = (
    "The engine says hello\n\nWhy: it said nothing.\nUpstream: none.\nDrop when: it speaks by itself.\n\n"
)
ENGINE = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
SECOND = "--- a/engine.py\n+++ b/engine.py\n@@ -5,3 +5,4 @@\n five\n six\n+six and a half\n seven\n"
FIRST = """\
--- a/engine.py
+++ b/engine.py
@@ -1,3 +1,3 @@
 one
-two
+2
 three
--- /dev/null
+++ b/pkg/new.py
@@ -0,0 +1,2 @@
+made
+here
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Installed packages: one module, with its bytecode."""
    directory = tmp_path / "site-packages"
    (directory / "__pycache__").mkdir(parents=True)
    (directory / "engine.py").write_text(ENGINE)
    for name in ("engine", "other"):
        (directory / f"__pycache__/{name}.cpython-311.pyc").write_text("old")
    return directory


@pytest.fixture
def series(tmp_path: Path) -> Path:
    """A series of two patches for that module."""
    return write_series(tmp_path, {"0001-first.patch": HEADER + FIRST, "0002-second.patch": HEADER + SECOND})


def write_series(tmp_path: Path, patches: dict[str, str]) -> Path:
    directory = tmp_path / "engine-2.0"
    directory.mkdir(exist_ok=True)
    (directory / "series").write_text("# in this order\n" + "".join(f"{name}\n" for name in patches))
    for name, text in patches.items():
        (directory / name).write_text(text)
    return directory


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


PATCHED = ENGINE.replace("two", "2").replace("six\n", "six\nsix and a half\n")


def test_a_series_is_applied(run: Run, site: Path, series: Path) -> None:
    status, document = run("release", "patch", "--site-packages", site, "--patch-dir", series)
    assert (status, document["changed"], document["written"]) == (0, True, True)
    assert (site / "engine.py").read_text() == PATCHED
    assert (site / "pkg/new.py").read_text() == "made\nhere\n"
    assert document["files"] == [
        {
            "path": "engine.py",
            "sha256_before": sha256(ENGINE),
            "sha256_after": sha256(PATCHED),
            "patches": ["0001-first.patch", "0002-second.patch"],
        },
        {
            "path": "pkg/new.py",
            "sha256_before": None,
            "sha256_after": sha256("made\nhere\n"),
            "patches": ["0001-first.patch"],
        },
    ]
    record = json.loads((site / "tandem-patches/engine-2.0.json").read_text())
    assert record["files"] == document["files"]
    assert [item["file"] for item in record["patches"]] == ["0001-first.patch", "0002-second.patch"]
    assert record["patches"][0]["sha256"] == sha256(HEADER + FIRST)


def test_the_result_is_what_git_makes_of_it(run: Run, site: Path, series: Path, tmp_path: Path) -> None:
    (tmp_path / "git").mkdir()
    (tmp_path / "git/engine.py").write_text(ENGINE)
    for patch in ("0001-first.patch", "0002-second.patch"):
        subprocess.run(["git", "apply", str(series / patch)], cwd=tmp_path / "git", check=True)
    run("release", "patch", "--site-packages", site, "--patch-dir", series)
    for file in ("engine.py", "pkg/new.py"):
        assert (site / file).read_bytes() == (tmp_path / "git" / file).read_bytes()


def test_a_second_run_changes_nothing(run: Run, site: Path, series: Path) -> None:
    run("release", "patch", "--site-packages", site, "--patch-dir", series)
    before = contents(site)
    status, document = run("release", "patch", "--site-packages", site, "--patch-dir", series)
    assert (status, document["changed"], document["written"]) == (0, False, False)
    assert contents(site) == before


def test_check_only_looks(run: Run, site: Path, series: Path) -> None:
    before = contents(site)
    status, document = run("release", "patch", "--site-packages", site, "--patch-dir", series, "--check")
    assert (status, document["changed"], document["written"]) == (0, True, False)
    assert contents(site) == before


def test_a_run_that_was_killed_is_finished(run: Run, site: Path, series: Path) -> None:
    (site / "engine.py").write_text(PATCHED)  # the first file was replaced, the second not yet made
    status, document = run("release", "patch", "--site-packages", site, "--patch-dir", series)
    assert (status, document["changed"]) == (0, True)
    assert document["files"][0]["sha256_before"] == sha256(ENGINE)
    assert (site / "pkg/new.py").exists()


def test_rights_stay_stale_bytecode_goes_and_hard_links_are_cut(run: Run, site: Path, series: Path) -> None:
    (site / "engine.py").chmod(0o755)
    cache = site.parent / "cache.py"
    cache.hardlink_to(site / "engine.py")
    run("release", "patch", "--site-packages", site, "--patch-dir", series)
    assert (site / "engine.py").stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in (site / "__pycache__").iterdir()) == ["other.cpython-311.pyc"]
    assert cache.read_text() == ENGINE


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (ENGINE.replace("two", "zwei"), "0001-first.patch: hunk 1: line 2 is 'zwei', wanted 'two'"),
        ("zero\n" + ENGINE, "0001-first.patch: hunk 1: line 1 is 'zero', wanted 'one'"),
        (ENGINE.replace("six", "sechs"), "0002-second.patch: hunk 1: line 6 is 'sechs', wanted 'six'"),
        (ENGINE.replace("one", "one "), "0001-first.patch: hunk 1: line 1 is 'one ', wanted 'one'"),
        (ENGINE.replace("\n", "\r\n"), "0001-first.patch: hunk 1: line 1 is 'one\\r', wanted 'one'"),
        ("one\ntwo\n", "0001-first.patch: hunk 1: line 3: the file ends here, wanted 'three'"),
    ],
    ids=["changed", "shifted", "second patch", "white space", "line ends", "short"],
)
def test_nothing_is_searched_for(run: Run, site: Path, series: Path, engine: str, said: str) -> None:
    (site / "engine.py").write_text(engine)
    before = contents(site)
    status, document = run("release", "patch", "--site-packages", site, "--patch-dir", series)
    assert (status, codes(document)) == (1, ["release.patch.mismatch"])
    assert message(document, "release.patch.mismatch") == f"{site / 'engine.py'}: {said}."
    assert (document["changed"], document["written"]) == (False, False)
    assert contents(site) == before


def test_all_mismatches_are_told_at_once(run: Run, site: Path, series: Path) -> None:
    (site / "engine.py").unlink()
    (site / "pkg").mkdir()
    (site / "pkg/new.py").write_text("somebody else's\n")
    _status, document = run("release", "patch", "--site-packages", site, "--patch-dir", series)
    assert [item["message"].removeprefix(f"{site}/") for item in document["findings"]] == [
        "engine.py: 0001-first.patch: the file does not exist.",
        "pkg/new.py: 0001-first.patch: makes this file, and it is there already.",
    ]


def test_a_patch_that_could_be_applied_twice(run: Run, site: Path, tmp_path: Path) -> None:
    doubling = "--- a/engine.py\n+++ b/engine.py\n@@ -1,0 +2,1 @@\n+one\n"
    (site / "engine.py").write_text("one\none\none\n")
    series = write_series(tmp_path, {"0001.patch": HEADER + doubling})
    status, document = run("release", "patch", "--site-packages", site, "--patch-dir", series)
    assert (status, codes(document)) == (1, ["release.patch.ambiguous"])
    assert (site / "engine.py").read_text() == "one\none\none\n"


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (FIRST, "the header has no title"),
        (HEADER.replace("Why: it said nothing.\n", "") + FIRST, "the header has no line `Why: …` above"),
        (HEADER.replace("none.", "").replace("Upstream: ", "Upstream:") + FIRST, "no line `Upstream: …`"),
        (HEADER.replace("Drop when", "Drop") + FIRST, "the header has no line `Drop when: …` above"),
        (HEADER.partition("\n")[2].lstrip() + FIRST, "the header has no title"),
        (HEADER + FIRST.replace("b/pkg/new.py", "b/../new.py"), "'b/../new.py' is not a path below b/"),
        (HEADER + FIRST.replace("b/pkg/new.py", "b//etc/new.py"), "'b//etc/new.py' is not a path below b/"),
        (HEADER + FIRST.replace("b/pkg/new.py", "/etc/new.py"), "'/etc/new.py' is not a path below b/"),
        (HEADER + FIRST.replace("a/engine.py", "a/motor.py"), "renames are not supported"),
        (HEADER + FIRST.replace("b/engine.py", "/dev/null"), "a deleted file is not supported"),
        (HEADER + "GIT binary patch\n" + FIRST, "'GIT binary patch' is not supported"),
        (HEADER + "new file mode 120000\n" + FIRST, "'new file mode 120000' is not supported"),
        (
            HEADER + SECOND.replace("-5,3", "-5,4"),
            "line 9: the hunk names 4 old and 4 new lines and has 3 and 4",
        ),
        (
            HEADER + SECOND.replace("+5,4", "+5,3"),
            "line 9: the hunk names 3 old and 3 new lines and has 3 and 4",
        ),
        (HEADER + FIRST.replace("-1,3 +1,3", "-1,2 +1,2"), "2 old and 2 new lines and goes on: ' three'"),
        (
            HEADER + FIRST.replace("-1,3 +1,3", "-1,4 +1,3"),
            "4 old and 3 new lines and goes on: '+++ b/pkg/new.py'",
        ),
        (HEADER + FIRST.replace("-1,3 +1,3", "-1,x +1,3"), "line 9: '@@ -1,x +1,3 @@' is not a hunk header"),
        (HEADER + FIRST.replace("-two", "*two"), "line 11: '*two' is no line of a hunk"),
        (HEADER + FIRST.partition("@@")[0], "line 8: engine.py has no hunks"),
        (HEADER + FIRST.partition("+++ b/engine.py\n")[2], "line 7: a hunk without `---` and `+++` lines"),
        (HEADER, "nothing to apply"),
    ],
)
def test_a_patch_that_cannot_be_used(run: Run, site: Path, tmp_path: Path, patch: str, said: str) -> None:
    series = write_series(tmp_path, {"0001.patch": patch})
    before = contents(tmp_path)
    status, document = run("release", "patch", "--site-packages", site, "--patch-dir", series)
    assert (status, codes(document)) == (2, ["release.patch.invalid"])
    assert f"{series / '0001.patch'}: " in message(document, "release.patch.invalid")
    assert said in message(document, "release.patch.invalid")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["../0001.patch", "/etc/hostname", "..", "sub/0001.patch"])
def test_a_series_names_files_beside_it(run: Run, site: Path, tmp_path: Path, name: str) -> None:
    series = write_series(tmp_path, {})
    (series / "series").write_text(f"{name}\n")
    status, document = run("release", "patch", "--site-packages", site, "--patch-dir", series)
    assert (status, codes(document)) == (2, ["release.patch.path"])
    assert f"{series / 'series'}: {name!r}" in message(document, "release.patch.path")


def test_a_link_that_leads_out_is_not_followed(run: Run, site: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (site / "pkg").symlink_to(tmp_path / "outside")
    series = write_series(tmp_path, {"0001.patch": HEADER + FIRST})
    status, document = run("release", "patch", "--site-packages", site, "--patch-dir", series)
    assert (status, codes(document)) == (1, ["release.patch.path"])
    assert list((tmp_path / "outside").iterdir()) == []
    assert (site / "engine.py").read_text() == ENGINE


def test_what_is_not_there(run: Run, site: Path, series: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    status, document = run("release", "patch", "--site-packages", gone, "--patch-dir", series)
    assert (status, codes(document)) == (2, ["release.patch.site_packages"])
    status, document = run("release", "patch", "--site-packages", site, "--patch-dir", gone)
    assert (status, codes(document)) == (2, ["release.patch.unreadable"])
    (series / "0002-second.patch").unlink()
    status, document = run("release", "patch", "--site-packages", site, "--patch-dir", series)
    assert "0002-second.patch: No such file" in message(document, "release.patch.unreadable")
    assert (site / "engine.py").read_text() == ENGINE


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb\nc\n", b"a\nB\nc\n"),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nb"),
        (b"a\r\nb\r\n", b"a\r\nc\r\n"),
        (b"a\x0cb\x0b\nb\n", b"a\x0cb\x0b\nc\n"),
        (b"", b"new\n"),
        (b"\n\n\n", b"\n\nx\n\n"),
        (
            b"".join(b"%d\n" % n for n in range(40)),
            b"".join(b"%d\n" % n for n in range(40) if n not in (3, 35)),
        ),
    ],
    ids=[
        "plain",
        "gains its end",
        "loses its end",
        "carriage returns",
        "form feeds",
        "empty",
        "blank",
        "two hunks",
    ],
)
def test_diffs_as_git_writes_them(tmp_path: Path, before: bytes, after: bytes) -> None:
    for side, content in (("a", before), ("b", after)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "f").write_bytes(content)
    command = [
        "git",
        "diff",
        "--no-index",
        "--no-color",
        "--no-prefix",
        "--src-prefix=",
        "--dst-prefix=",
        "a/f",
        "b/f",
    ]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).stdout
    (change,) = diff.parse(HEADER.encode() + made)
    assert diff.apply(before, change.hunks) == after
    assert diff.apply(after, [hunk.reversed() for hunk in change.hunks]) == before
