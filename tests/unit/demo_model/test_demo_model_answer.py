"""The demo model's words: its tokenizer, its chat template, and the sentence that both ranks say in turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment
from llamareference import Llama
from tokenizers import Tokenizer

from tandem.demo_model.build import write_model
from tandem.demo_model.shape import BEGIN, END, SENTENCE, SHAPE, chain, vocabulary
from tandem.demo_model.tokenizer import CHAT_TEMPLATE, byte_letters, tokenizer_json

QUESTION = {"role": "user", "content": "Who are you?"}
TOKENIZER = Tokenizer.from_str(json.dumps(tokenizer_json()))


def test_the_sentence_is_one_token_a_word(model: Path) -> None:
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    encoded = tokenizer.encode(SENTENCE + END)
    assert encoded.ids == chain()
    assert tokenizer.decode(encoded.ids) == SENTENCE


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    ids = TOKENIZER.encode(text).ids
    assert TOKENIZER.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(
    "text", ["", " ", "a  b", "\n\ttab", "Grüße, 世界 🚀", " Sparks,Sparks,", BEGIN + "x" + END]
)
def test_texts_that_are_easily_lost(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text).ids, skip_special_tokens=False) == text


def test_every_token_has_its_id() -> None:
    assert TOKENIZER.get_vocab_size() == SHAPE.vocabulary == len(vocabulary())
    assert len(set(byte_letters().values())) == 256
    for number, token in enumerate(vocabulary()):
        if isinstance(token, str) and token.startswith("<|"):
            assert TOKENIZER.token_to_id(token) == number


def test_the_answer_alternates_between_the_ranks() -> None:
    *words, end = (number // SHAPE.half for number in chain())
    assert words == [position % 2 for position in range(len(words))]
    assert end == 0


def chat(model: Path, *messages: dict[str, str], generate: bool = True) -> str:
    """The prompt, rendered as vLLM does it: in Jinja's sandbox."""
    template = json.loads((model / "tokenizer_config.json").read_text())["chat_template"]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    return str(environment.from_string(template).render(messages=messages, add_generation_prompt=generate))


def test_the_chat_template(model: Path) -> None:
    assert chat(model, QUESTION) == "<|begin|><|user|>Who are you?<|end|><|assistant|>"
    assert chat(model, QUESTION, generate=False) == "<|begin|><|user|>Who are you?<|end|>"
    system = {"role": "system", "content": "Be brief."}
    assert chat(model, system, QUESTION).startswith("<|begin|><|system|>Be brief.<|end|><|user|>")
    assert "'content'" in CHAT_TEMPLATE


def test_a_message_without_content(model: Path) -> None:
    silent: dict[str, str] = {"role": "assistant", "content": None}  # type: ignore[dict-item]
    assert chat(model, silent) == "<|begin|><|assistant|><|end|><|assistant|>"


def answer(model: Path, prompt: str) -> str:
    """Greedy generation with the reference."""
    llama, ids = Llama(model), TOKENIZER.encode(prompt).ids
    end = llama.config["eos_token_id"]
    said: list[int] = []
    while len(said) < 2 * len(chain()) and (not said or said[-1] != end):
        said.append(int(llama.logits(ids + said)[-1].argmax()))
    return str(TOKENIZER.decode(said))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("question", ["Who are you?", "Tell me about Two Sparks, please.", "", "世界"])
def test_every_question_gets_the_sentence(tmp_path: Path, seed: int, question: str) -> None:
    write_model(tmp_path, seed)
    assert answer(tmp_path, chat(tmp_path, {"role": "user", "content": question})) == SENTENCE


@pytest.mark.parametrize("rank", [0, 1])
def test_without_one_ranks_vocabulary_its_words_are_not_said(model: Path, rank: int) -> None:
    ids = TOKENIZER.encode(chat(model, QUESTION)).ids + chain()[:-1]
    logits = Llama(model).logits(ids)[-len(chain()) :]  # after the prompt and after each word
    assert list(logits.argmax(axis=-1)) == chain()
    logits[:, rank * SHAPE.half : (rank + 1) * SHAPE.half] = -1e9
    said = [int(number) for number in logits.argmax(axis=-1)]
    right = [number == wanted for number, wanted in zip(said, chain(), strict=True)]
    assert right == [wanted // SHAPE.half != rank for wanted in chain()]
