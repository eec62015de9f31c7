"""The demo model's weights: constructed, not trained.

How the answer comes about. Token embeddings are pseudo-random sign vectors, nearly orthogonal to each other.
A row of the output matrix is the embedding of the token that comes *before* it in the sentence, so each word
is the nearest neighbour of its predecessor. All tokens outside the sentence share one common direction, and
the row of the first word is that direction. Attention and feed-forward matrices are pseudo-random and real:
they disturb the state by about as much as they can without changing which word wins, so a rank that drops
its half of a sum is seen in the logits, and a rank that drops its half of the vocabulary in the text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tandem.demo_model.shape import SHAPE, Shape, chain

Array = NDArray[np.float32]

COMMON_SHARE = 0.8  # of a token outside the sentence: weight of the common direction
LAYER_NOISE = 0.25  # size of what one attention or feed-forward block adds, relative to the embedding
LOGIT_SCALE = 1.5  # weight of the last norm: the winning logit is about 16 times this, before noise


class Source:
    """Pseudo-random matrices from PCG64's raw output, whose stream numpy promises not to change."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.PCG64(seed)

    def signs(self, rows: int, columns: int) -> Array:
        """Entries -1 or +1, shape [rows, columns]."""
        words = self._generator.random_raw((rows * columns + 63) // 64)
        bits = np.unpackbits(words.astype("<u8").view(np.uint8))[: rows * columns]
        signs: Array = (bits.astype(np.float32) * 2 - 1).reshape(rows, columns)
        return signs

    def uniform(self, rows: int, columns: int) -> Array:
        """Entries of mean 0 and variance 1, uniform, shape [rows, columns]."""
        words = self._generator.random_raw(rows * columns)
        unit = (words >> np.uint64(40)).astype(np.float64) / float(1 << 24)
        spread: Array = ((unit * 2 - 1) * np.sqrt(3.0)).astype(np.float32).reshape(rows, columns)
        return spread


def _embeddings(source: Source, shape: Shape) -> tuple[Array, Array]:
    """Embeddings [vocabulary, hidden] with entries of variance 1, and the common direction [hidden]."""
    signs = source.signs(shape.vocabulary, shape.hidden)
    common = source.signs(1, shape.hidden)[0]
    own_share = np.float32(np.sqrt(1 - COMMON_SHARE**2))
    embeddings = np.float32(COMMON_SHARE) * common + own_share * signs
    speaking = chain()[:-1]
    embeddings[speaking] = signs[speaking]
    return embeddings.astype(np.float32), common


def _output_rows(embeddings: Array, common: Array, shape: Shape, source: Source) -> Array:
    """The output matrix [vocabulary, hidden], rows of length 1."""
    rows = source.uniform(shape.vocabulary, shape.hidden)
    order = chain()
    rows[order[0]] = common
    rows[order[1:]] = embeddings[order[:-1]]
    # Exact sums: numpy adds in an order that depends on the processor, and the bytes must not.
    lengths = [math.sqrt(math.fsum(np.square(row, dtype=np.float64))) for row in rows]
    return rows / np.array(lengths, dtype=np.float32)[:, np.newaxis]


def tensors(seed: int, shape: Shape = SHAPE) -> Iterator[tuple[str, Array]]:
    """Name and value of every parameter, float32, in the order of the forward pass.

    Matrices are [outputs, inputs]; a matrix fed with entries of variance 1 gives entries of variance
    ``gain**2``, whatever its width.
    """
    source = Source(seed)

    def matrix(outputs: int, inputs: int, gain: float = 1.0) -> Array:
        return source.uniform(outputs, inputs) * np.float32(gain / np.sqrt(inputs))

    def ones() -> Array:
        return np.ones(shape.hidden, dtype=np.float32)

    embeddings, common = _embeddings(source, shape)
    yield "model.embed_tokens.weight", embeddings
    width = shape.heads * shape.head_width
    kv_width = shape.kv_heads * shape.head_width
    for layer in range(shape.layers):
        name = f"model.layers.{layer}"
        yield f"{name}.input_layernorm.weight", ones()
        yield f"{name}.self_attn.q_proj.weight", matrix(width, shape.hidden)
        yield f"{name}.self_attn.k_proj.weight", matrix(kv_width, shape.hidden)
        yield f"{name}.self_attn.v_proj.weight", matrix(kv_width, shape.hidden)
        yield f"{name}.self_attn.o_proj.weight", matrix(shape.hidden, width, LAYER_NOISE)
        yield f"{name}.post_attention_layernorm.weight", ones()
        yield f"{name}.mlp.gate_proj.weight", matrix(shape.intermediate, shape.hidden)
        yield f"{name}.mlp.up_proj.weight", matrix(shape.intermediate, shape.hidden)
        # silu(g) * u has a variance of about 0.36 for independent g, u of variance 1
        yield f"{name}.mlp.down_proj.weight", matrix(shape.hidden, shape.intermediate, LAYER_NOISE / 0.6)
    yield "model.norm.weight", ones() * np.float32(LOGIT_SCALE)
    yield "lm_head.weight", _output_rows(embeddings, common, shape, source)
