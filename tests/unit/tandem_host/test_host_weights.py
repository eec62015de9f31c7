"""``weights manifest|verify``: files, links, and safetensors without loading them."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hosttree import Run, codes, message

MAP = {"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}


def shard(path: Path, tensors: Mapping[str, int], fill: int = 1) -> None:
    """A safetensors file with tensors of bytes of the given lengths."""
    header, end = {}, 0
    for name, length in tensors.items():
        header[name] = {"dtype": "U8", "shape": [length], "data_offsets": [end, end + length]}
        end += length
    raw(path, header, bytes([fill]) * end)


def raw(path: Path, header: Any, data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of two shards."""
    directory = tmp_path / "model"
    (directory / "extra").mkdir(parents=True)
    shard(directory / "model-1.safetensors", {"a": 3, "b": 5})
    shard(directory / "model-2.safetensors", {"c": 7})
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": MAP}))
    (directory / "config.json").write_text("{}")
    (directory / "extra/template.jinja").write_text("x")
    return directory


@pytest.fixture
def manifest(run: Run, model: Path, tmp_path: Path) -> Path:
    """The manifest of the model as it should be."""
    file = tmp_path / "manifest.json"
    assert run("weights", "manifest", model, "--out", file)[0] == 0
    return file


def test_a_manifest(run: Run, model: Path) -> None:
    status, document = run("weights", "manifest", model)
    assert status == 0
    assert list(document["files"]) == sorted(document["files"])
    assert document["files"]["extra/template.jinja"] == {
        "size": 1,
        "sha256": hashlib.sha256(b"x").hexdigest(),
    }
    assert document["bytes"] == sum(path.stat().st_size for path in model.rglob("*") if path.is_file())


def test_a_manifest_does_not_depend_on_threads_or_place(run: Run, model: Path, tmp_path: Path) -> None:
    first = run("weights", "manifest", model, "--threads", 1)[1]
    moved = model.rename(tmp_path / "moved")
    assert run("weights", "manifest", moved, "--threads", 4)[1] == first


def test_links_into_a_blob_store_are_followed(run: Run, model: Path, manifest: Path, tmp_path: Path) -> None:
    blob = (model / "config.json").rename(tmp_path / "blob")
    (model / "config.json").symlink_to(blob)
    assert run("weights", "verify", model, "--manifest", manifest)[0] == 0


def test_f39_links_that_lead_nowhere(run: Run, model: Path, manifest: Path, tmp_path: Path) -> None:
    for file in model.glob("*.safetensors"):
        file.unlink()
        file.symlink_to(f"../../../blobs/{file.name}")
    status, document = run("weights", "verify", model, "--manifest", manifest, "--quick")
    assert status == 1
    assert codes(document).count("weights.link.dangling") == 2
    assert codes(document).count("weights.file.missing") == 2
    out = tmp_path / "new.json"
    assert codes(run("weights", "manifest", model, "--out", out)[1]) == ["weights.link.dangling"] * 2
    assert not out.exists()


def test_a_link_in_a_circle(run: Run, model: Path) -> None:
    (model / "extra/again").symlink_to(model)
    assert codes(run("weights", "manifest", model)[1]) == ["weights.link.loop"]


def test_a_good_model(run: Run, model: Path, manifest: Path) -> None:
    status, document = run("weights", "verify", model, "--manifest", manifest)
    assert (status, document["ok"], document["files"], document["tensors"]) == (0, True, 5, 3)


def test_one_changed_byte(run: Run, model: Path, manifest: Path) -> None:
    shard(model / "model-2.safetensors", {"c": 7}, fill=2)
    status, document = run("weights", "verify", model, "--manifest", manifest, "--full")
    assert (status, codes(document)) == (1, ["weights.file.hash"])
    assert "model-2.safetensors" in message(document, "weights.file.hash")
    assert run("weights", "verify", model, "--manifest", manifest, "--quick")[0] == 0


def test_a_missing_and_a_grown_file(run: Run, model: Path, manifest: Path) -> None:
    (model / "config.json").unlink()
    (model / "extra/template.jinja").write_text("xy")
    _, document = run("weights", "verify", model, "--manifest", manifest, "--quick")
    assert codes(document) == ["weights.file.missing", "weights.file.size"]
    assert "has 2 bytes, wanted 1" in message(document, "weights.file.size")


def test_a_cut_shard(run: Run, model: Path, manifest: Path) -> None:
    file = model / "model-1.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    _, document = run("weights", "verify", model, "--manifest", manifest, "--quick")
    assert codes(document) == ["weights.file.size", "weights.header.size"]


def test_f40_a_stale_shard_beside_the_right_ones(run: Run, model: Path, manifest: Path) -> None:
    shard(model / "model-3.safetensors", {"c": 7})
    (model / "notes.txt").write_text("x")
    _, document = run("weights", "verify", model, "--manifest", manifest)
    assert codes(document) == ["weights.file.unknown"]
    assert codes(document, "warning") == ["weights.file.unknown"]


def index_codes(run: Run, model: Path, tmp_path: Path) -> list[str]:
    """Codes for a model as it is now, against a manifest of what it is now."""
    file = tmp_path / "now.json"
    run("weights", "manifest", model, "--out", file)
    return codes(run("weights", "verify", model, "--manifest", file)[1])


def test_f40_one_shard_of_the_revision(run: Run, model: Path, tmp_path: Path) -> None:
    (model / "model-2.safetensors").unlink()
    assert index_codes(run, model, tmp_path) == ["weights.index.shard_missing"]


def test_a_tensor_that_the_index_names_elsewhere(run: Run, model: Path, tmp_path: Path) -> None:
    changed = {"weight_map": {**MAP, "b": "model-2.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(changed))
    assert index_codes(run, model, tmp_path) == ["weights.index.tensor_missing"]


def test_a_tensor_in_two_shards(run: Run, model: Path, tmp_path: Path) -> None:
    shard(model / "model-2.safetensors", {"c": 7, "a": 3})
    assert index_codes(run, model, tmp_path) == ["weights.index.tensor_twice"]


def test_a_tensor_that_the_index_does_not_know(run: Run, model: Path, tmp_path: Path) -> None:
    shard(model / "model-2.safetensors", {"c": 7, "d": 1})
    assert index_codes(run, model, tmp_path) == ["weights.index.tensor_unknown"]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": {"a": 1}}'])
def test_an_index_that_is_none(run: Run, model: Path, tmp_path: Path, text: str) -> None:
    (model / "model.safetensors.index.json").write_text(text)
    assert index_codes(run, model, tmp_path) == ["weights.index.invalid"]


def tensor(begin: int, end: int, shape: list[int], dtype: str = "U8") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("header", "data", "code"),
    [
        ({"c": tensor(0, 7, [7])}, b"1234567", None),
        ({"__metadata__": {"format": "pt"}, "c": tensor(0, 6, [3], "BF16")}, b"123456", None),
        ({"c": tensor(0, 0, [0])}, b"", None),
        ({"c": tensor(0, 7, [7])}, b"12345678", "weights.header.size"),
        ({"c": tensor(1, 8, [7])}, b"12345678", "weights.header.offsets"),
        ({"c": tensor(0, 7, [8])}, b"1234567", "weights.header.offsets"),
        ({"c": tensor(0, 4, [4]), "e": tensor(2, 6, [4])}, b"123456", "weights.header.offsets"),
        ({"c": {"dtype": "U8"}}, b"", "weights.header.invalid"),
        ([1], b"", "weights.header.invalid"),
    ],
)
def test_headers(run: Run, model: Path, tmp_path: Path, header: Any, data: bytes, code: str | None) -> None:
    (model / "model.safetensors.index.json").unlink()
    raw(model / "model-2.safetensors", header, data)
    assert index_codes(run, model, tmp_path) == ([code] if code else [])


@pytest.mark.parametrize("content", [b"", b"1234", struct.pack("<Q", 2**40) + b"{}"])
def test_a_header_longer_than_the_file(run: Run, model: Path, tmp_path: Path, content: bytes) -> None:
    (model / "model.safetensors.index.json").unlink()
    (model / "model-2.safetensors").write_bytes(content)
    assert index_codes(run, model, tmp_path) == ["weights.header.cut"]


def edited(manifest: Path, **changes: Any) -> Path:
    document = json.loads(manifest.read_text()) | changes
    manifest.write_text(json.dumps(document))
    return manifest


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"digest": "0" * 64}, "manifest.digest.wrong"),
        ({"bytes": 1}, "manifest.digest.wrong"),
        ({"schema": 2}, "manifest.field.invalid"),
        ({"files": {"../x": {"size": 1, "sha256": "0" * 64}}}, "manifest.field.invalid"),
        ({"files": {"x": {"size": -1, "sha256": "0" * 64}}}, "manifest.field.invalid"),
        ({"files": {"x": {"size": 1, "sha256": "abc"}}}, "manifest.field.invalid"),
        ({"files": {"x": {"size": 1}}}, "manifest.field.missing"),
    ],
)
def test_a_manifest_that_was_changed(
    run: Run, model: Path, manifest: Path, changes: dict[str, Any], code: str
) -> None:
    status, document = run("weights", "verify", model, "--manifest", edited(manifest, **changes))
    assert status == 1
    assert code in codes(document)


def test_no_directory(run: Run, manifest: Path, tmp_path: Path) -> None:
    status, document = run("weights", "verify", tmp_path / "none", "--manifest", manifest)
    assert (status, codes(document)) == (1, ["weights.directory.missing"])
    assert document["digest"] == json.loads(manifest.read_text())["digest"]


def test_nothing_was_copied_yet(run: Run, tmp_path: Path) -> None:
    missing = tmp_path / "none", "--manifest", tmp_path / "none.json"
    for depth in ("--quick", "--full"):
        status, document = run("weights", "verify", *missing, depth)
        assert (status, document["ok"], document["digest"]) == (1, False, None)
        assert codes(document) == ["weights.manifest.missing", "weights.directory.missing"]


def test_a_model_without_its_manifest(run: Run, model: Path, tmp_path: Path) -> None:
    status, document = run("weights", "verify", model, "--manifest", tmp_path / "none.json")
    assert (status, codes(document)) == (1, ["weights.manifest.missing"])
    assert str(tmp_path / "none.json") in message(document, "weights.manifest.missing")
    assert "tandem-host weights manifest" in document["findings"][0]["fix"]


def test_an_empty_directory(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert codes(run("weights", "manifest", tmp_path / "empty")[1]) == ["weights.directory.empty"]
