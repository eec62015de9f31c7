"""``release seal`` and ``release verify``: what was built is written down, and every difference is found."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hosttree import Run, codes, message

SITE = "lib/python3.11/site-packages"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A virtual environment as the build leaves it, not sealed yet."""
    directory = tmp_path / "releases/tiny-0123"
    files = {
        "pyvenv.cfg": "home = /usr/bin\nversion = 3.11.2\n",
        "bin/vllm": "#!/usr/bin/python3\n",
        f"{SITE}/engine.py": "engine\n",
        f"{SITE}/__pycache__/engine.cpython-311.pyc": "bytecode",
        f"{SITE}/engine-2.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: engine\nVersion: 2.0\n",
        f"{SITE}/Plain-1.5.dist-info/METADATA": "Metadata-Version: 2.1\nName: Plain\nVersion: 1.5\n",
        f"{SITE}/tandem-patches/engine-2.0.json": '{"name": "engine-2.0", "files": []}',
    }
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (directory / "bin/vllm").chmod(0o755)
    (directory / "lib64").symlink_to("lib")
    return directory


@pytest.fixture
def sealed(run: Run, built: Path) -> Path:
    """The same, sealed."""
    assert seal(run, built)[0] == 0
    return built


def seal(run: Run, directory: Path, *options: object) -> tuple[int, dict[str, Any]]:
    return run("release", "seal", directory, "--name", "tiny", "--digest", "0123", *options)


def manifest(directory: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((directory / "manifest.json").read_text())
    return document


def test_a_manifest_says_what_was_built(run: Run, built: Path) -> None:
    status, answer = seal(run, built)
    document = manifest(built)
    assert status == 0
    assert (document["name"], document["digest"], document["python"]) == ("tiny", "0123", "3.11.2")
    assert document["machine"] == os.uname().machine
    assert document["packages"] == {"engine": "2.0", "Plain": "1.5"}
    assert document["patches"] == [{"name": "engine-2.0", "files": []}]
    assert (document["tree"]["files"], document["tree"]["links"]) == (7, 1)
    sizes = [path.stat().st_size for path in built.rglob("*") if path.is_file() and path.parent != built]
    assert document["tree"]["bytes"] == sum(sizes) + (built / "pyvenv.cfg").stat().st_size
    assert answer["tree"] == document["tree"]
    for file in ("files.sha256", "files.stat"):
        assert document["lists"][file] == hashlib.sha256((built / file).read_bytes()).hexdigest()


def test_the_list_is_one_for_sha256sum(sealed: Path) -> None:
    command = ["sha256sum", "--check", "--strict", "files.sha256"]
    done = subprocess.run(command, cwd=sealed, capture_output=True, check=True)
    assert done.stdout.count(b": OK") == 7


def test_sealing_again_gives_the_same_bytes(run: Run, sealed: Path) -> None:
    names = ("manifest.json", "files.sha256", "files.stat")
    before = [(sealed / name).read_bytes() for name in names]
    seal(run, sealed, "--threads", 1)
    assert [(sealed / name).read_bytes() for name in names] == before


def test_a_second_build_elsewhere_has_the_same_tree_digest(run: Run, sealed: Path, tmp_path: Path) -> None:
    shutil.copytree(
        sealed, tmp_path / "other", symlinks=True, copy_function=shutil.copy
    )  # with times of their own
    seal(run, tmp_path / "other")
    assert manifest(tmp_path / "other")["tree"] == manifest(sealed)["tree"]
    assert manifest(tmp_path / "other")["lists"]["files.stat"] != manifest(sealed)["lists"]["files.stat"]


@pytest.mark.parametrize("change", ["content", "name", "mode", "link"])
def test_what_changes_the_tree_digest(run: Run, sealed: Path, change: str) -> None:
    before = manifest(sealed)["tree"]["digest"]
    engine, link = sealed / SITE / "engine.py", sealed / "lib64"
    if change == "content":
        engine.write_text("motor!\n")
    elif change == "name":
        engine.rename(engine.with_name("motor.py"))
    elif change == "mode":
        engine.chmod(0o755)
    else:
        link.unlink()
        link.symlink_to("bin")
    seal(run, sealed)
    assert manifest(sealed)["tree"]["digest"] != before


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\\b", os.fsdecode(b"a\xffb")])
def test_a_name_that_the_lists_cannot_hold(run: Run, sealed: Path, name: str) -> None:
    (sealed / SITE / name).write_text("")
    status, document = seal(run, sealed)
    assert (status, codes(document)) == (2, ["release.file.name"])
    assert not (sealed / "manifest.json").exists()  # what was complete before is not complete now


def test_a_link_to_a_name_that_the_lists_cannot_hold(run: Run, built: Path) -> None:
    (built / "odd").symlink_to("a\tb")
    assert codes(seal(run, built)[1]) == ["release.file.name"]


@pytest.mark.parametrize("name", ["caf\u00e9.py", "a\u2028b", "a\x85b", "a\x0cb", "  spaces  ", "#x", "*"])
def test_odd_names_are_sealed_and_verified(run: Run, built: Path, name: str) -> None:
    (built / SITE / name).write_text("odd")
    seal(run, built)
    for options in ([], ["--quick"]):
        status, document = run("release", "verify", built, *options)
        assert (status, document["complete"], document["files"]) == (0, True, 9)


@pytest.mark.parametrize("missing", ["pyvenv.cfg", "lib"])
def test_what_is_no_environment_is_not_sealed(run: Run, built: Path, missing: str) -> None:
    path = built / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    status, document = seal(run, built)
    assert (status, codes(document)) == (2, ["release.tree.missing"])
    assert str(built) in message(document, "release.tree.missing")


@pytest.mark.parametrize("options", [[], ["--quick"], ["--threads", "1"]])
def test_a_release_as_it_was_sealed(run: Run, sealed: Path, options: list[str]) -> None:
    status, document = run("release", "verify", sealed, *options)
    assert (status, document["findings"]) == (0, [])
    assert (document["complete"], document["files"]) == (True, 8)
    assert (document["name"], document["digest"]) == ("tiny", "0123")


def spoil(path: Path, content: bytes, *, keep_time: bool = True) -> None:
    status = path.stat()
    path.write_bytes(content)
    if keep_time:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_changed_file(run: Run, sealed: Path) -> None:
    engine = sealed / SITE / "engine.py"
    spoil(engine, b"ENGINE\n")
    status, document = run("release", "verify", sealed)
    assert (status, codes(document), document["complete"]) == (1, ["release.file.changed"], False)
    text = message(document, "release.file.changed")
    for part in (
        str(engine),
        hashlib.sha256(b"ENGINE\n").hexdigest(),
        hashlib.sha256(b"engine\n").hexdigest(),
    ):
        assert part in text


def test_quick_sees_size_and_time_but_does_not_read(run: Run, sealed: Path) -> None:
    engine = sealed / SITE / "engine.py"
    spoil(engine, b"ENGINE\n")
    assert run("release", "verify", sealed, "--quick")[0] == 0
    spoil(engine, b"ENGINE\n", keep_time=False)
    assert codes(run("release", "verify", sealed, "--quick")[1]) == ["release.file.touched"]
    spoil(engine, b"longer\n\n")
    _status, document = run("release", "verify", sealed, "--quick")
    assert message(document, "release.file.changed") == f"{engine} has 8 bytes, the manifest says 7."


@pytest.mark.parametrize("options", [[], ["--quick"]])
def test_a_missing_file(run: Run, sealed: Path, options: list[str]) -> None:
    shutil.rmtree(sealed / "bin")
    status, document = run("release", "verify", sealed, *options)
    assert (status, codes(document)) == (1, ["release.file.missing"])
    assert message(document, "release.file.missing") == f"{sealed / 'bin/vllm'} is missing."


@pytest.mark.parametrize("options", [[], ["--quick"]])
def test_a_file_that_became_a_link_to_the_same_content(run: Run, sealed: Path, options: list[str]) -> None:
    engine = sealed / SITE / "engine.py"
    elsewhere = engine.rename(sealed.parent / "engine.py")
    engine.symlink_to(elsewhere)
    status, document = run("release", "verify", sealed, *options)
    assert (status, codes(document)) == (1, ["release.file.changed"])
    assert f"{engine} is " in message(document, "release.file.changed")


@pytest.mark.parametrize("options", [[], ["--quick"]])
def test_a_link_that_leads_elsewhere(run: Run, sealed: Path, options: list[str]) -> None:
    (sealed / "lib64").unlink()
    (sealed / "lib64").symlink_to("/usr/lib")
    _status, document = run("release", "verify", sealed, *options)
    assert codes(document) == ["release.file.changed"]
    assert "leads to /usr/lib, the manifest says lib" in message(document, "release.file.changed")


def test_a_program_that_cannot_be_executed(run: Run, sealed: Path) -> None:
    (sealed / "bin/vllm").chmod(0o644)
    _status, document = run("release", "verify", sealed)
    assert codes(document) == ["release.file.mode"]
    assert message(document, "release.file.mode") == f"{sealed / 'bin/vllm'} must be executable."


def test_an_extra_file_is_an_error_and_extra_bytecode_a_warning(run: Run, sealed: Path) -> None:
    (sealed / SITE / "sitecustomize.py").write_text("import os")
    (sealed / SITE / "__pycache__/new.cpython-311.pyc").write_text("")
    status, document = run("release", "verify", sealed)
    assert (status, codes(document)) == (1, ["release.file.extra"])
    assert "sitecustomize.py is not part of the release" in message(document, "release.file.extra")
    assert codes(document, "warning") == ["release.bytecode.extra"]


def test_an_extra_file_with_a_name_that_no_list_holds(run: Run, sealed: Path) -> None:
    (sealed / "a\tb").write_text("")
    status, document = run("release", "verify", sealed)
    assert (status, codes(document)) == (1, ["release.file.name"])


def test_many_findings_are_counted(run: Run, sealed: Path) -> None:
    for number in range(30):
        (sealed / f"extra-{number:02}").write_text("")
    _status, document = run("release", "verify", sealed)
    assert len(document["findings"]) == 21
    assert "10 more findings" in message(document, "release.file.more")


def test_without_a_manifest_the_release_is_not_complete(run: Run, built: Path) -> None:
    # An answer and not bad usage: the playbooks ask this of a host that has nothing yet.
    for directory in (built, built / "gone"):
        status, document = run("release", "verify", "--quick", directory)
        assert (status, codes(document), document["complete"]) == (1, ["release.manifest.missing"], False)
        text = f"{directory / 'manifest.json'} does not exist: the release was not built here"
        assert message(document, "release.manifest.missing").startswith(text)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"7", b"\xff\xfe", b"{}", b'{"lists": {}, "tree": {}}', b'{"lists": 7}']
)
def test_a_manifest_that_is_none(run: Run, sealed: Path, content: bytes) -> None:
    (sealed / "manifest.json").write_bytes(content)
    status, document = run("release", "verify", sealed)
    assert (status, codes(document)) == (1, ["release.manifest.invalid"])
    assert f"{sealed / 'manifest.json'} is not" in message(document, "release.manifest.invalid")


@pytest.mark.parametrize("file", ["files.sha256", "files.stat"])
def test_a_list_that_was_changed_or_is_gone(run: Run, sealed: Path, file: str) -> None:
    with (sealed / file).open("a") as stream:
        stream.write("\n")
    assert codes(run("release", "verify", sealed)[1]) == ["release.list.changed"]
    (sealed / file).unlink()
    assert codes(run("release", "verify", sealed, "--quick")[1]) == ["release.list.missing"]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("files.sha256", "abc  bin/vllm\n", "files.sha256:1: 'abc  bin/vllm' is not a hash and a name"),
        ("files.sha256", "", "files.stat:1: "),
        ("files.stat", "", "files.sha256: 'bin/vllm' is not in files.stat"),
        (
            "files.stat",
            "many\t0\t0644\tbin/vllm\n",
            "files.stat:1: 'many\\t0\\t0644\\tbin/vllm' does not fit",
        ),
    ],
)
def test_lists_that_contradict_each_other(run: Run, sealed: Path, file: str, text: str, said: str) -> None:
    (sealed / file).write_text(text)
    document = manifest(sealed)
    document["lists"][file] = hashlib.sha256(text.encode()).hexdigest()
    (sealed / "manifest.json").write_text(json.dumps(document))
    _status, answer = run("release", "verify", sealed)
    assert codes(answer) == ["release.list.invalid"]
    assert said in message(answer, "release.list.invalid")


def test_the_lists_must_give_the_tree_digest(run: Run, sealed: Path) -> None:
    document = manifest(sealed)
    document["tree"]["digest"] = "0" * 64
    (sealed / "manifest.json").write_text(json.dumps(document))
    assert codes(run("release", "verify", sealed)[1]) == ["release.list.invalid"]


def from_stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_a_copy_is_compared_with_the_manifest_of_the_original(
    run: Run, sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sealed, copy, symlinks=True, ignore=shutil.ignore_patterns("manifest.json"))
    assert codes(run("release", "verify", copy)[1]) == ["release.manifest.missing"]
    from_stdin(monkeypatch, (sealed / "manifest.json").read_bytes())
    assert run("release", "verify", copy, "--manifest", "-")[0] == 0
    assert run("release", "verify", copy, "--manifest", sealed / "manifest.json")[0] == 0
    spoil(copy / SITE / "engine.py", b"ENGINE\n")
    from_stdin(monkeypatch, (sealed / "manifest.json").read_bytes())
    assert codes(run("release", "verify", copy, "--manifest", "-")[1]) == ["release.file.changed"]


def test_nothing_on_standard_input(run: Run, sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from_stdin(monkeypatch, b"")
    status, document = run("release", "verify", sealed, "--manifest", "-")
    assert (status, codes(document)) == (1, ["release.manifest.invalid"])
    assert message(document, "release.manifest.invalid").startswith("standard input is not")
