"""The demo model's files: the same bytes for the same seed, well formed, all of them or none."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
import safetensors
from typer.testing import CliRunner

from tandem.cli import app
from tandem.demo_model import build
from tandem.demo_model.build import PARTIAL, model_files, write_model
from tandem.demo_model.safetensors_file import bfloat16_bytes, bfloat16_file
from tandem.demo_model.shape import SENTENCE
from tandem_host.hashing import sha256_of


def hashes(directory: Path) -> dict[str, str]:
    return {path.name: sha256_of(path) for path in sorted(directory.iterdir())}


def test_the_same_seed_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "again", seed=0)
    assert hashes(tmp_path / "again") == hashes(model)


def test_the_bytes_are_the_same_on_every_machine(model: Path) -> None:
    # Written down where they were first made, on x86_64. A difference is a bug in random numbers or rounding.
    whole = hashlib.sha256("".join(f"{value} {name}\n" for name, value in hashes(model).items()).encode())
    assert whole.hexdigest() == "af7e647c9cd25b9678f37cecd36a613f6b4c23d3cd785f07c8f8d7d5e040f9fa"


def test_another_seed_gives_other_weights_and_nothing_else(model: Path) -> None:
    other = {name: hashlib.sha256(content).hexdigest() for name, content in model_files(1).items()}
    changed = {name for name, value in hashes(model).items() if other[name] != value}
    assert changed == {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}


def test_the_model_is_small(model: Path) -> None:
    assert sum(path.stat().st_size for path in model.iterdir()) < 10_000_000


def slices(shard: Path) -> dict[str, tuple[str, list[int]]]:
    """Type and shape of each tensor, as the safetensors library reads them."""
    with safetensors.safe_open(shard, framework="numpy") as stream:
        assert stream.metadata() == {"format": "pt"}
        parts = {name: stream.get_slice(name) for name in stream.offset_keys()}
        return {name: (part.get_dtype(), part.get_shape()) for name, part in parts.items()}


def test_every_shard_is_read_by_the_safetensors_library(model: Path) -> None:
    index = json.loads((model / "model.safetensors.index.json").read_text())
    shards = {shard.name: slices(shard) for shard in model.glob("*.safetensors")}
    assert {name: shard for shard, found in shards.items() for name in found} == index["weight_map"]
    tensors = [tensor for found in shards.values() for tensor in found.values()]
    assert {kind for kind, _shape in tensors} == {"BF16"}
    parameters = sum(math.prod(shape) for _kind, shape in tensors)
    assert index["metadata"] == {"total_parameters": parameters, "total_size": 2 * parameters}


def test_shapes_are_those_of_the_configuration(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    shards = [slices(shard) for shard in model.glob("*.safetensors")]
    shapes = {name: shape for found in shards for name, (_kind, shape) in found.items()}
    hidden, heads, kv_heads = (
        config[name] for name in ("hidden_size", "num_attention_heads", "num_key_value_heads")
    )
    assert len(shapes) == 3 + 9 * config["num_hidden_layers"]
    assert shapes["lm_head.weight"] == [config["vocab_size"], hidden]
    assert shapes["model.layers.0.self_attn.q_proj.weight"] == [heads * config["head_dim"], hidden]
    assert shapes["model.layers.3.self_attn.k_proj.weight"] == [kv_heads * config["head_dim"], hidden]
    for size in (heads, kv_heads, config["intermediate_size"], config["vocab_size"]):
        assert size % 2 == 0  # two ranks get equal halves


def test_a_safetensors_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(bfloat16_file({"a": np.ones((2, 3), np.float32), "b": np.arange(5, dtype=np.float32)}))
    assert slices(path) == {"a": ("BF16", [2, 3]), "b": ("BF16", [5])}
    length = int.from_bytes(path.read_bytes()[:8], "little")
    assert length % 8 == 0
    assert path.stat().st_size == 8 + length + 2 * (6 + 5)


@pytest.mark.parametrize(
    ("bits", "rounded"),
    [
        (0x3F800000, 0x3F80),  # 1 is exact
        (0x3F808000, 0x3F80),  # half way: to even, down
        (0x3F818000, 0x3F82),  # half way: to even, up
        (0x3F808001, 0x3F81),
        (0x3F807FFF, 0x3F80),
        (0xBFFFFFFF, 0xC000),  # carries into the exponent, keeps the sign
        (0x80000000, 0x8000),
    ],
)
def test_rounding_to_bfloat16(bits: int, rounded: int) -> None:
    values = np.array([bits], dtype=np.uint32).view(np.float32)
    assert int.from_bytes(bfloat16_bytes(values), "little") == rounded


def test_a_directory_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model-00001-of-00009.safetensors").write_bytes(b"another model")
    result = CliRunner().invoke(app, ["demo-model", str(tmp_path)])
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert f"{tmp_path}: the directory is not empty, model-00001-of-00009.safetensors is in it." in said
    assert "Fix: name a new or empty directory" in said
    assert [path.name for path in tmp_path.iterdir()] == ["model-00001-of-00009.safetensors"]


@pytest.mark.parametrize("failing", ["config.json", "model-00002-of-00002.safetensors"])
@pytest.mark.parametrize("step", ["write_bytes", "replace"])
def test_a_failure_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, step: str
) -> None:
    original = getattr(Path, step)

    def full(self: Path, *arguments: object) -> object:
        if self.name == failing:
            raise OSError(28, "No space left on device", str(self))
        return original(self, *arguments)

    monkeypatch.setattr(Path, step, full)
    result = CliRunner().invoke(app, ["demo-model", str(tmp_path)])
    assert result.exit_code == 1
    assert "No space left on device" in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []


def test_config_json_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    original = Path.replace

    def noted(self: Path, to: Path) -> Path:
        order.append(self.name)
        return original(self, to)

    monkeypatch.setattr(Path, "replace", noted)
    write_model(tmp_path, seed=0)
    assert len(order) == len(list(tmp_path.iterdir()))
    assert order[-1] == "config.json"


def test_what_a_killed_run_left_is_cleared(model: Path, tmp_path: Path) -> None:
    (tmp_path / PARTIAL).mkdir()
    (tmp_path / PARTIAL / "config.json").write_text("half")
    write_model(tmp_path, seed=0)
    assert hashes(tmp_path) == hashes(model)


def test_a_place_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["demo-model", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert "File exists. Fix: " in " ".join(result.output.split())


def test_the_command(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo-model", str(tmp_path / "a/model"), "--seed", "3"])
    assert result.exit_code == 0
    assert f'says "{SENTENCE}"' in result.output
    assert build.model_files(3)["config.json"] == (tmp_path / "a/model/config.json").read_bytes()
