"""The demo model's tokenizer files, written as plain JSON.

A text is cut at spaces; a piece that is a word of the vocabulary is one token, any other piece becomes its
UTF-8 bytes, one token each. There are no merges, so nothing has to be trained.
"""

from __future__ import annotations

from typing import Any

from tandem.demo_model.shape import ASSISTANT, BEGIN, END, PAD, SHAPE, vocabulary

CHAT_TEMPLATE = (
    "{{ '" + BEGIN + "' }}"
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + (message['content'] or '') + '" + END + "' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '" + ASSISTANT + "' }}{% endif %}"
)


def byte_letters() -> dict[int, str]:
    """One printable character for each byte, as byte-level tokenizers write them.

    Printable Latin-1 stands for itself; the others take the code points from 256 on, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {value: chr(value) for value in printable}
    others = (value for value in range(256) if value not in letters)
    letters.update({value: chr(256 + position) for position, value in enumerate(others)})
    return letters


def _is_special(token: str | bytes) -> bool:
    return isinstance(token, str) and token.startswith("<|")


def tokenizer_json() -> dict[str, Any]:
    """The content of ``tokenizer.json``."""
    letters = byte_letters()
    tokens = vocabulary()
    words: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if isinstance(token, str) and _is_special(token):
            words[token] = number
        else:
            octets = token if isinstance(token, bytes) else token.encode("utf-8")
            words["".join(letters[value] for value in octets)] = number
    added = [
        {
            "id": number,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, token in enumerate(tokens)
        if _is_special(token)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": r" ?\S+|\s"}, "behavior": "Isolated", "invert": False},
                byte_level,
            ],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": words,
            "merges": [],
        },
    }


def tokenizer_config() -> dict[str, Any]:
    """The content of ``tokenizer_config.json``."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BEGIN,
        "eos_token": END,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
        "model_max_length": SHAPE.context,
        "chat_template": CHAT_TEMPLATE,
    }
