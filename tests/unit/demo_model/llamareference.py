"""The model's forward pass in a few lines of numpy, from the files alone: what a server should compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def read_safetensors(path: Path) -> dict[str, Array]:
    """The bfloat16 tensors of a file as float32."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8 : 8 + length])
    header.pop("__metadata__")
    data = content[8 + length :]
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        halves = np.frombuffer(data[begin:end], dtype="<u2").astype(np.uint32)
        found[name] = (halves << 16).view(np.float32).reshape(entry["shape"])
    return found


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), dtype=np.float32)


class Llama:
    """Next-token logits [tokens, vocabulary] of a Llama model in a directory."""

    def __init__(self, directory: Path) -> None:
        self.config: dict[str, Any] = json.loads((directory / "config.json").read_text())
        self.weights: dict[str, Array] = {}
        for shard in sorted(directory.glob("*.safetensors")):
            self.weights |= read_safetensors(shard)

    def logits(self, ids: list[int]) -> Array:
        state = self.weights["model.embed_tokens.weight"][ids]
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}"
            state = state + self._attention(f"{name}.self_attn", self._norm(state, f"{name}.input_layernorm"))
            inner = self._norm(state, f"{name}.post_attention_layernorm")
            gate, up = self._times(inner, f"{name}.mlp.gate_proj"), self._times(inner, f"{name}.mlp.up_proj")
            state = state + self._times(gate / (1 + np.exp(-gate)) * up, f"{name}.mlp.down_proj")
        return self._times(self._norm(state, "model.norm"), "lm_head")

    def _times(self, state: Array, name: str) -> Array:
        return np.asarray(state @ self.weights[f"{name}.weight"].T)

    def _norm(self, state: Array, name: str) -> Array:
        size = np.sqrt(np.square(state).mean(axis=-1, keepdims=True) + self.config["rms_norm_eps"])
        return np.asarray(state / size * self.weights[f"{name}.weight"])

    def _rotated(self, heads: Array) -> Array:
        """Rotary positions on [heads, tokens, width]."""
        half = heads.shape[-1] // 2
        frequencies = self.config["rope_theta"] ** (-np.arange(half) / half)
        angles = np.arange(heads.shape[1])[:, np.newaxis] * frequencies
        first, second = heads[..., :half], heads[..., half:]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    def _attention(self, name: str, state: Array) -> Array:
        tokens, width = len(state), self.config["head_dim"]

        def heads(part: str) -> Array:
            return self._times(state, f"{name}.{part}").reshape(tokens, -1, width).transpose(1, 0, 2)

        queries, keys, values = (
            self._rotated(heads("q_proj")),
            self._rotated(heads("k_proj")),
            heads("v_proj"),
        )
        group = len(queries) // len(keys)
        keys, values = np.repeat(keys, group, axis=0), np.repeat(values, group, axis=0)
        scores = queries @ keys.transpose(0, 2, 1) / np.sqrt(width)
        hidden = np.triu(np.full((tokens, tokens), -np.inf), k=1)
        mixed = softmax(scores + hidden) @ values
        return self._times(mixed.transpose(1, 0, 2).reshape(tokens, -1), f"{name}.o_proj")
