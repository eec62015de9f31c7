"""Whatever the files of a host hold: one JSON document, a finding that names the file, never a traceback."""

from __future__ import annotations

import copy
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hosttree import (
    SERVE,
    STATE,
    TWINS,
    Run,
    Tree,
    cluster_document,
    codes,
    fabric_env,
    ipv4_gid,
    message,
    serve_document,
    v1_v2_pair,
)

from tandem_host import strict

HASH = "0" * 64
MANIFEST = {"schema": 1, "digest": HASH, "bytes": 1, "files": {"a": {"size": 1, "sha256": HASH}}}


class Situation:
    """A host on which everything is right, so that the one file that is not decides."""

    def __init__(self, tree: Tree, directory: Path) -> None:
        self.tree = tree
        self.directory = directory
        tree.write("proc/sys/kernel/random/boot_id", "this-boot")
        tree.process(4242, unit="tandem-rank.service")
        for rail, (netdev, hca) in enumerate(TWINS.items()):
            tree.interface(netdev, f"10.0.{rail}.1/24")
            tree.hca(hca, netdev, v1_v2_pair(2, ipv4_gid(f"10.0.{rail}.1")))
            (tree.root / f"sys/class/infiniband/{hca}/device/net/{netdev}").mkdir(parents=True)
        self.good: dict[str, Path] = {}
        self.write("cluster", json.dumps(cluster_document()))
        self.write("serve", json.dumps(SERVE))
        self.write("state", json.dumps(STATE))
        self.write("manifest", json.dumps(MANIFEST))
        self.good["fabric"] = fabric_env(directory)
        (directory / "model").mkdir()

    def write(self, name: str, content: str | bytes) -> Path:
        self.good[name] = self.directory / f"{name}.json"
        self.good[name].write_bytes(content if isinstance(content, bytes) else content.encode())
        return self.good[name]

    def commands(self, name: str) -> list[list[object]]:
        """Every command that reads the file."""
        good = self.good
        root = ["--root", self.tree.root]
        cluster, serve = ["--cluster", good["cluster"]], ["--serve", good["serve"]]
        state = ["--state", good["state"]]
        show: list[object] = ["rank", "show", *root, *cluster, *serve]
        status: list[object] = ["rank", "status", *root, *state, *serve]
        inspect: list[object] = ["rank", "inspect", *root, *state, *cluster]
        words = ("resolve", "check", "discover")
        fabric = [["fabric", word, *root, "--config", good["cluster"]] for word in words]
        return {
            "cluster": [*fabric, show, inspect],
            "serve": [show, status],
            "state": [status, inspect],
            "fabric": [[*show, "--fabric-env", good["fabric"]]],
            "manifest": [["weights", "verify", self.directory / "model", "--manifest", good["manifest"]]],
        }[name]


@pytest.fixture
def host(tree: Tree, tmp_path: Path) -> Situation:
    """The host, with good files."""
    return Situation(tree, tmp_path)


def test_the_situation_is_a_good_one(run: Run, host: Situation) -> None:
    for name in ("cluster", "serve", "state", "fabric"):
        for command in host.commands(name):
            assert codes(run(*command)[1]) == [], command


CONTENTS = {
    "empty": b"",
    "binary": bytes(range(256)) * 20,
    "cut": b'{"schema": 1, "nodes": [',
    "null": b"null",
    "list": b"[]",
    "text": b'"cluster"',
    "nothing": b"{}",
    "deep": b"[" * 200_000,
    "deep-object": b'{"nodes":' * 60 + b"1" + b"}" * 60,
    "nan": b'{"schema": NaN}',
    "infinite": b'{"schema": 1e999}',
    "many-digits": b'{"schema": ' + b"9" * 5000 + b"}",
    "yaml": b"schema: 1\nnodes: []\n",
    "bom": b"\xef\xbb\xbf{}",
    "unknown-keys": json.dumps({f"key{number}": number for number in range(5000)}).encode(),
    "a-long-value": json.dumps({"schema": "x" * 500_000}).encode(),
}


@pytest.mark.parametrize("name", ["cluster", "serve", "state", "manifest", "fabric"])
@pytest.mark.parametrize("content", list(CONTENTS))
def test_garbage_in_a_file(run: Run, host: Situation, name: str, content: str) -> None:
    file = host.good[name]
    file.write_bytes(CONTENTS[content])
    for command in host.commands(name):
        status, document = run(*command)
        told = [item for item in document["findings"] if str(file) in item["message"]]
        assert status == 1, command
        assert told or name == "fabric", document
        assert all(item["fix"] for item in document["findings"])
        assert "host.tool.failed" not in codes(document)
        assert len(json.dumps(document)) < 20_000


@pytest.mark.parametrize("name", ["cluster", "serve", "state", "manifest", "fabric"])
@pytest.mark.parametrize("what", ["directory", "missing", "below-a-file", "huge", "loop"])
def test_no_file_that_can_be_read(run: Run, host: Situation, name: str, what: str) -> None:
    file = host.good[name]
    file.unlink()
    if what == "directory":
        file.mkdir()
    elif what == "huge":
        with file.open("wb") as stream:
            stream.truncate(strict.LARGEST_BYTES + 2)  # takes no space
    elif what == "loop":
        file.symlink_to(file)
    elif what == "below-a-file":
        (host.directory / "file").write_text("x")
        host.good[name] = file = host.directory / "file/below"
    for command in host.commands(name):
        status, document = run(*command)
        if name == "state" and what in {"missing", "below-a-file"}:
            assert document["pid"] is None  # nothing was started: an answer, not an error of its own
            continue
        assert status == 1, command
        assert any(str(file) in item["message"] for item in document["findings"]), document
        assert "host.tool.failed" not in codes(document)


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("cluster", "cluster.file"),
        ("serve", "serve.file"),
        ("manifest", "weights.manifest"),
        ("fabric", "fabric.environment"),
    ],
)
def test_the_codes_of_files(run: Run, host: Situation, name: str, subject: str) -> None:
    file, command = host.good[name], host.commands(name)[0]
    file.write_bytes(b"\xff")
    assert codes(run(*command)[1]) == [f"{subject}.invalid"]
    file.unlink()
    assert codes(run(*command)[1]) == [f"{subject}.missing"]
    file.mkdir()
    assert codes(run(*command)[1]) == [f"{subject}.unreadable"]


def test_a_state_that_cannot_be_used_says_so(run: Run, host: Situation) -> None:
    host.write("state", "{")
    status, document = run(*host.commands("state")[0])
    assert (status, document["active"], document["matches"]) == (1, False, False)
    assert codes(document) == ["rank.state.invalid"]
    assert document["wanted_digest"] == "d1"
    status, document = run(*host.commands("state")[1])
    assert codes(document) == ["rank.state.invalid", "rank.process.orphaned"]
    assert [item["pid"] for item in document["processes"]] == [4242]


def test_a_rank_that_runs_without_a_serve_json_is_still_seen(run: Run, host: Situation) -> None:
    host.good["serve"].unlink()
    status, document = run(*host.commands("state")[0])
    assert (status, codes(document)) == (1, ["serve.file.missing"])
    assert (document["active"], document["matches"], document["running_digest"]) == (True, False, "d1")


VALUES: list[Any] = [
    None, True, -1, 0, 1.5, 2**70, 1e300, "", " ", "\0", "\ud800", "a/../b", "x" * 1000,
    [], [[]], {}, {"a": {}},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    items: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


@pytest.mark.parametrize("name", ["cluster", "serve", "state", "manifest"])
def test_a_wrong_value_anywhere(run: Run, host: Situation, name: str) -> None:
    good = json.loads(host.good[name].read_text())
    for path in places(good):
        for value in [..., *VALUES]:
            document = copy.deepcopy(good)
            place: Any = document
            for key in path[:-1]:
                place = place[key]
            if value is ...:
                del place[path[-1]]
            else:
                place[path[-1]] = value
            host.write(name, json.dumps(document))
            for command in host.commands(name):
                _, answer = run(*command)
                assert "host.tool.failed" not in codes(answer), (path, value, answer)


@pytest.mark.parametrize("value", ["a\0b", "\ud800", {"deep": ["\0"]}, {"\0": 1}])
def test_arguments_that_no_program_can_be_given(run: Run, host: Situation, value: Any) -> None:
    host.write("serve", json.dumps(serve_document(engine={"args": {"chat-template": value}})))
    assert codes(run(*host.commands("serve")[0])[1]) == ["serve.argument.invalid"]


@pytest.mark.parametrize("name", ["../../etc", "a/b", "a b", "x" * 64])
def test_names_that_no_device_has(run: Run, host: Situation, name: str) -> None:
    document = cluster_document()
    document["nodes"][0]["rails"][0]["netdev"] = name
    host.write("cluster", json.dumps(document))
    assert codes(run(*host.commands("cluster")[0])[1]) == ["cluster.field.invalid"]


@pytest.mark.parametrize("file", ["ip-addr.json", "ping.json"])
@pytest.mark.parametrize(
    "text", ["", "\0", "[[[[", "[" * 100_000, "[1]", "{}", '{"a": "b"}', '[{"ifname": "\\u0000"}]']
)
def test_recordings_that_are_none(run: Run, host: Situation, file: str, text: str) -> None:
    host.tree.write(f"tandem-fixture/{file}", text)
    _, document = run(*host.commands("cluster")[1])
    assert "host.tool.failed" not in codes(document)


def test_an_interface_whose_name_fits_in_no_environment_file(run: Run, tree: Tree, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(cluster_document("ethernet")))
    tree.interface("we!rd$", "10.0.0.1/24")
    tree.interface("enP2p1s0f0np0", "10.0.1.1/24")
    env_file = tmp_path / "fabric.env"
    env_file.write_text("TANDEM_RANK=0\n")
    status, document = run("fabric", "resolve", "--config", file, "--root", tree.root, "--env-file", env_file)
    assert (status, codes(document), document["env"]) == (1, ["fabric.interface.name"], {})
    assert "we!rd$" in message(document, "fabric.interface.name")
    assert not env_file.exists()


def test_a_proc_that_makes_no_sense(run: Run, host: Situation) -> None:
    tree = host.tree
    for pid, text in ((1, ""), (2, "2 (x)"), (3, "3 (x) S"), (4, "4 (x) S y"), (4242, "4242 (vllm) S 1 2")):
        tree.write(f"proc/{pid}/stat", text)
    tree.tcp("zz:1 00000000:0000 0A 11", "0100007F:zz 00000000:0000 0A 11", "0100007F:22B8 0:0 zz 11")
    for command in (
        *host.commands("state"),
        ["port", "check", "--address", "::", "--port", 1, "--root", tree.root],
    ):
        assert "host.tool.failed" not in codes(run(*command)[1])


@pytest.mark.parametrize(
    "arguments",
    [
        ("fabric", "check", "--peer-wait", "nan"),
        ("fabric", "up", "--peer-wait", "-1"),
        ("fabric", "check", "--peer-wait", "inf"),
        ("probe", "completion", "--url", "http://a", "--model", "x", "--deadline", "nan"),
        ("probe", "completion", "--url", "http://a", "--model", "x", "--timeout", "1e99"),
        ("probe", "completion", "--url", "http://a", "--model", "x", "--repeat", "0"),
        ("probe", "completion", "--url", "http://a", "--model", "x", "--max-tokens", "-3"),
        ("weights", "manifest", ".", "--threads", "0"),
        ("port", "check", "--address", "::", "--port", "http"),
    ],
)
def test_numbers_that_are_none(run: Run, arguments: tuple[str, ...]) -> None:
    status, document = run(*arguments)
    assert (status, codes(document)) == (2, ["usage.arguments.invalid"])


@contextmanager
def unprivileged() -> Iterator[None]:
    """As a user without special rights, also where the tests run as root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory that other users can reach, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


@pytest.mark.parametrize("name", ["cluster", "serve", "state", "manifest", "fabric"])
def test_files_that_this_user_may_not_read(run: Run, open_dir: Path, name: str) -> None:
    tree = Tree(open_dir / "root")
    tree.write("etc/hostname", "spark-a")
    host = Situation(tree, open_dir)
    host.good[name].chmod(0)
    for command in host.commands(name):
        with unprivileged():
            status, document = run(*command)
        assert status == 1
        assert any(item["code"].endswith(".unreadable") for item in document["findings"]), document
        assert str(host.good[name]) in json.dumps(document)


def test_a_model_that_this_user_may_not_read(run: Run, open_dir: Path) -> None:
    model = open_dir / "model"
    (model / "closed").mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "a.safetensors").write_bytes(b"x")
    assert run("weights", "manifest", model, "--out", open_dir / "m.json")[0] == 0
    (model / "closed").chmod(0)
    (model / "a.safetensors").chmod(0)
    for command in (("manifest", model), ("verify", model, "--manifest", open_dir / "m.json")):
        with unprivileged():
            status, document = run("weights", *command)
        assert (status, codes(document)) == (1, ["weights.file.unreadable"] * 2)
        assert "Permission denied" in message(document, "weights.file.unreadable")
    model.chmod(0)
    with unprivileged():
        assert codes(run("weights", "manifest", model / "closed")[1]) == ["weights.file.unreadable"]


def test_results_that_cannot_be_written(run: Run, open_dir: Path) -> None:
    (open_dir / "model").mkdir()
    (open_dir / "model/config.json").write_text("{}")
    with unprivileged():
        status, document = run("weights", "manifest", open_dir / "model", "--out", open_dir / "m.json")
    assert (status, codes(document)) == (1, ["host.file.failed"])
    assert f"{open_dir / 'm.json'}: Permission denied" in message(document, "host.file.failed")
    for out in (open_dir / "none/m.json", open_dir / "model"):
        assert codes(run("weights", "manifest", open_dir / "model", "--out", out)[1]) == ["host.file.failed"]


def test_a_header_with_three_offsets(run: Run, tmp_path: Path) -> None:
    header = b'{"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 2]}}'
    deep = b"[" * 100_000
    for text in (header, deep, b'{"a": {"dtype": "U8", "shape": [1e999], "data_offsets": [0, 1]}}'):
        (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"x")
        out = tmp_path.parent / "m.json"
        run("weights", "manifest", tmp_path, "--out", out)
        assert codes(run("weights", "verify", tmp_path, "--manifest", out)[1]) == ["weights.header.invalid"]
