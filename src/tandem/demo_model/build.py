"""Putting the demo model's files together."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tandem.demo_model.safetensors_file import bfloat16_file
from tandem.demo_model.shape import BEGIN, END, PAD, SHAPE, vocabulary
from tandem.demo_model.tokenizer import tokenizer_config, tokenizer_json
from tandem.demo_model.weights import tensors

PARTIAL = ".partial"  # what a killed run left here is removed by the next
SHARDS = 2
BYTES_PER_PARAMETER = 2


def _config() -> dict[str, Any]:
    tokens = vocabulary()
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": SHAPE.hidden,
        "intermediate_size": SHAPE.intermediate,
        "num_hidden_layers": SHAPE.layers,
        "num_attention_heads": SHAPE.heads,
        "num_key_value_heads": SHAPE.kv_heads,
        "head_dim": SHAPE.head_width,
        "vocab_size": SHAPE.vocabulary,
        "max_position_embeddings": SHAPE.context,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "initializer_range": 0.02,
        "use_cache": True,
        "torch_dtype": "bfloat16",
        "bos_token_id": tokens.index(BEGIN),
        "eos_token_id": tokens.index(END),
        "pad_token_id": tokens.index(PAD),
    }


def _generation_config() -> dict[str, Any]:
    tokens = vocabulary()
    return {
        "bos_token_id": tokens.index(BEGIN),
        "eos_token_id": tokens.index(END),
        "pad_token_id": tokens.index(PAD),
        "do_sample": False,
    }


def _shard_of(name: str) -> int:
    """Embedding and first layers in shard 0, the rest in shard 1."""
    if name.startswith("model.layers."):
        return int(name.split(".")[2]) * SHARDS // SHAPE.layers
    return 0 if name.startswith("model.embed_tokens") else SHARDS - 1


def _json(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def model_files(seed: int) -> dict[str, bytes]:
    """Name and content of every file of the model; the same bytes for the same seed."""
    shards: list[dict[str, NDArray[np.float32]]] = [{} for _ in range(SHARDS)]
    for name, values in tensors(seed):
        shards[_shard_of(name)][name] = values
    names = [f"model-{number + 1:05d}-of-{SHARDS:05d}.safetensors" for number in range(SHARDS)]
    parameters = sum(values.size for shard in shards for values in shard.values())
    index = {
        "metadata": {"total_parameters": parameters, "total_size": parameters * BYTES_PER_PARAMETER},
        "weight_map": {name: names[number] for number, shard in enumerate(shards) for name in shard},
    }
    files = {name: bfloat16_file(shard) for name, shard in zip(names, shards, strict=True)}
    files["model.safetensors.index.json"] = _json(index)
    files["config.json"] = _json(_config())
    files["generation_config.json"] = _json(_generation_config())
    files["tokenizer.json"] = _json(tokenizer_json())
    files["tokenizer_config.json"] = _json(tokenizer_config())
    return files


def write_model(directory: Path, seed: int) -> dict[str, int]:
    """Write the model into ``directory``, which is empty or not there yet; returns bytes by file name.

    All of it or nothing: files are written beside their places first, and ``config.json``, which makes the
    directory a model, takes its place last. Raises FileExistsError where anything else is in the directory,
    because a server would mix the two, and OSError where it cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    part = directory / PARTIAL
    shutil.rmtree(part, ignore_errors=True)
    there = sorted(entry.name for entry in directory.iterdir())
    if there:
        raise FileExistsError(
            errno.EEXIST, f"the directory is not empty, {there[0]} is in it", str(directory)
        )
    files = model_files(seed)
    names = sorted(files, key=lambda name: (name == "config.json", name))
    try:
        part.mkdir()
        for name in names:
            (part / name).write_bytes(files[name])
        for name in names:
            (part / name).replace(directory / name)
        part.rmdir()
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        for name in names:
            (directory / name).unlink(missing_ok=True)
        raise
    return {name: len(files[name]) for name in names}
