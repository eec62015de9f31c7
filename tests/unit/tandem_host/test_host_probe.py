"""``probe completion`` against a small HTTP server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hosttree import Run, codes, message


def completion(text: str = "1 2 3", tokens: int = 3, finish: str | None = "stop") -> dict[str, Any]:
    return {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens},
    }


@dataclass
class Served:
    """What the server answers, one after the other (the last one for ever), and what it was asked."""

    url: str = ""
    answers: list[tuple[int, Any]] = field(default_factory=lambda: [(200, completion())])
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    delay: float = 0.0


@pytest.fixture
def served() -> Iterator[Served]:
    """A server on a free port of this machine."""
    state = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            state.headers.append(dict(self.headers))
            state.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            status, body = state.answers.pop(0) if len(state.answers) > 1 else state.answers[0]
            time.sleep(state.delay)
            content = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def probe(run: Run, served: Served, *more: object) -> tuple[int, dict[str, Any]]:
    return run("probe", "completion", "--url", served.url, "--model", "tiny", *more)


def test_a_completion(run: Run, served: Served) -> None:
    status, document = probe(run, served)
    assert (status, document["ok"], document["text"], document["attempts"]) == (0, True, "1 2 3", 1)
    assert document["usage"] == {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    assert document["deterministic"] is None
    assert (served.asked[0]["temperature"], served.asked[0]["model"]) == (0, "tiny")
    assert "Authorization" not in served.headers[0]


def test_an_empty_text_with_tokens_is_a_completion(run: Run, served: Served) -> None:
    served.answers = [(200, completion("", 1, "length"))]
    assert probe(run, served)[1]["ok"] is True


def test_a_reasoning_model_has_text_elsewhere(run: Run, served: Served) -> None:
    body = completion()
    body["choices"][0]["message"] = {"content": None, "reasoning_content": "hm"}
    served.answers = [(200, body)]
    assert probe(run, served)[1]["text"] == "hm"


def test_repeat_compares(run: Run, served: Served) -> None:
    status, document = probe(run, served, "--repeat", 3)
    assert (status, document["deterministic"], len(served.asked)) == (0, True, 3)
    served.answers = [(200, completion("a")), (200, completion("b"))]
    status, document = probe(run, served, "--repeat", 2)
    assert (status, document["deterministic"], codes(document)) == (1, False, ["serve.completion.unstable"])


def test_loading_is_waited_for(run: Run, served: Served) -> None:
    served.answers = [(503, "loading"), (500, "EngineDeadError"), (200, completion())]
    status, document = probe(run, served, "--deadline", 20)
    assert (status, document["attempts"]) == (0, 3)


def test_without_a_deadline_there_is_one_attempt(run: Run, served: Served) -> None:
    served.answers = [(503, "loading")]
    status, document = probe(run, served)
    assert (status, document["ok"], len(served.asked)) == (1, False, 1)
    assert served.url in message(document, "serve.completion.failed")
    assert "HTTP 503: loading" in message(document, "serve.completion.failed")


@pytest.mark.parametrize("status", [400, 401, 404])
def test_what_waiting_does_not_mend_is_final(run: Run, served: Served, status: int) -> None:
    served.answers = [(status, "no")]
    code, document = probe(run, served, "--deadline", 30)
    assert (code, document["attempts"]) == (1, 1)


@pytest.mark.parametrize("body", ["<html>", "{}", '{"choices": []}', "[]"])
def test_something_else_answers(run: Run, served: Served, body: str) -> None:
    served.answers = [(200, body)]
    assert codes(probe(run, served)[1]) == ["serve.completion.failed"]


@pytest.mark.parametrize("body", [completion(tokens=0), completion(finish=None)])
def test_no_tokens_is_no_completion(run: Run, served: Served, body: dict[str, Any]) -> None:
    served.answers = [(200, body)]
    assert probe(run, served)[1]["ok"] is False


def test_a_hanging_server(run: Run, served: Served) -> None:
    served.delay = 3
    started = time.monotonic()
    status, document = probe(run, served, "--timeout", 0.5)
    assert status == 1
    assert "no answer within" in message(document, "serve.completion.failed")
    assert time.monotonic() - started < 2.5


def test_nobody_there(run: Run) -> None:
    status, document = run(
        "probe", "completion", "--url", "http://127.0.0.1:1", "--model", "tiny", "--deadline", 1.5
    )
    assert (status, codes(document)) == (1, ["serve.completion.failed"])
    assert document["attempts"] >= 2
    assert "Connection refused" in message(document, "serve.completion.failed")


def test_the_key_is_sent_and_never_shown(run: Run, served: Served, tmp_path: Path) -> None:
    key = tmp_path / "api.key"
    key.write_text("s3cret\n")
    served.answers = [(401, "bad key s3cret")]
    status, document = probe(run, served, "--api-key-file", key)
    assert (status, served.headers[0]["Authorization"]) == (1, "Bearer s3cret")
    assert "s3cret" not in json.dumps(document)


def test_a_key_file_that_is_missing_or_empty(run: Run, served: Served, tmp_path: Path) -> None:
    assert probe(run, served, "--api-key-file", tmp_path / "none")[0] == 1
    (tmp_path / "empty").write_text("\n")
    assert codes(probe(run, served, "--api-key-file", tmp_path / "empty")[1]) == ["serve.key.empty"]


@pytest.mark.parametrize(
    "url",
    [
        "spark-a:8888",
        "ftp://spark-a",
        "http://",
        "http://spark-a:port",
        "http://u:p@a",
        "http://a b:1",
        "http://a/\n",
    ],
)
def test_a_url_that_is_none(run: Run, url: str) -> None:
    status, document = run("probe", "completion", "--url", url, "--model", "tiny")
    assert (status, codes(document)) == (2, ["usage.url.invalid"])


def test_a_proxy_in_the_environment_is_not_used(
    run: Run, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert probe(run, served)[0] == 0
