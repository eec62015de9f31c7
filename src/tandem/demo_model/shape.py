"""The demo model's fixed numbers and its vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

SENTENCE = "Two Sparks, one server: both ranks computed this answer."
SPECIAL = ("<|pad|>", "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
PAD, BEGIN, END, _SYSTEM, _USER, ASSISTANT, _TOOL = SPECIAL


@dataclass(frozen=True)
class Shape:
    """Sizes of the model. All widths divide by 2 and the vocabulary by 64, so two ranks get equal halves."""

    hidden: int = 256
    intermediate: int = 512
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_width: int = 64
    vocabulary: int = 512
    context: int = 8192

    @property
    def half(self) -> int:
        """The first token id that belongs to rank 1 of two."""
        return self.vocabulary // 2


SHAPE = Shape()


def sentence_words() -> list[str]:
    """The sentence as tokens: the first word bare, each later one with the space before it."""
    first, *rest = SENTENCE.split(" ")
    return [first, *(f" {word}" for word in rest)]


def vocabulary() -> list[str | bytes]:
    """Token by id: a special token or a word as ``str``, a single byte as ``bytes``.

    The words alternate between the two halves of the vocabulary, and so between the ranks: rank 0 holds
    the first word, rank 1 the second, and so on. The special tokens, the end token too, are rank 0's.
    """
    words = sentence_words()
    below = [*SPECIAL, *words[0::2]]
    above = words[1::2]
    octets: list[str | bytes] = [bytes([value]) for value in range(256)]
    room = SHAPE.half - len(below)
    tokens: list[str | bytes] = [*below, *octets[:room], *above, *octets[room:]]
    reserved = range(SHAPE.vocabulary - len(tokens))
    return tokens + [f"<|reserved_{number}|>" for number in reserved]


def chain() -> list[int]:
    """Ids of the answer in order, the end token last."""
    tokens = vocabulary()
    return [tokens.index(word) for word in (*sentence_words(), END)]
