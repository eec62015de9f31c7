"""A real chat completion through the server's API."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tandem_host.findings import BadInputError, Finding, UnusableError, as_json, error, has_errors
from tandem_host.probe.watch import Watch
from tandem_host.strict import parse, read_text

_PATH = "/v1/chat/completions"
_PAUSE_SECONDS = 1.0
_MAY_PASS = frozenset({408, 425, 429})  # and every 5xx: a server that is loading or restarting
_SHOWN = 300
_LARGEST_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Question:
    """What is asked; ``timeout`` in seconds for one attempt. The key is not part of the representation."""

    url: str
    model: str
    prompt: str
    max_tokens: int
    timeout: float
    key: str | None = field(default=None, repr=False)


class _AnswerError(Exception):
    """The server gave no completion; ``final`` when asking again would not help, ``fix`` what would."""

    def __init__(self, reason: str, fix: str, *, final: bool) -> None:
        self.reason, self.fix, self.final = reason, fix, final
        super().__init__(reason)


def read_key(path: Path | None) -> str | None:
    """The API key in a file; None without one. Raises UnusableError when it cannot be read or is none."""
    if path is None:
        return None
    try:
        key = read_text(path).strip()
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
        text = f"{path} cannot be read: {reason}."
        raise UnusableError([error("serve.key.missing", text, f"ls -l {path}; run as root")]) from None
    if not key:
        raise UnusableError([error("serve.key.empty", f"{path} is empty.", "Write the API key into it.")])
    if not (key.isascii() and key.isprintable()) or " " in key:
        text = f"{path} holds something other than one word of printable ASCII characters."
        raise UnusableError([error("serve.key.invalid", text, "Write the API key into it.")])
    return key


def probe(question: Question, deadline: float, repeat: int, watch: Watch | None = None) -> dict[str, Any]:
    """Ask ``repeat`` times; for the first answer try for up to ``deadline`` seconds.

    With ``watch`` the trying also ends when that unit has stopped: no answer would come any more.

    Returns ``ok``, the first ``text``, ``seconds`` (that attempt alone), ``usage``, ``attempts``,
    ``deterministic`` (None unless asked more than once), ``unit`` (None without ``watch``) and findings.
    """
    connection = _target(question.url)
    started = time.monotonic()
    attempts = 0
    texts: list[str] = []
    first: dict[str, Any] = {"text": None, "seconds": None, "usage": None, "finish_reason": None}
    findings: list[Finding] = list(watch.begin()) if watch else []
    while len(texts) < max(1, repeat):
        attempts += 1
        asked = time.monotonic()
        left = deadline - (asked - started)
        # A hanging attempt must not use up much more than the time that is left.
        timeout = question.timeout if left <= 0 or texts else min(question.timeout, max(left, 5.0))
        try:
            answer = _ask(connection, question, timeout)
        except _AnswerError as problem:
            waited = f"{_attempts(question, attempts, time.monotonic() - started)}: {problem.reason}"
            stopped = watch.stopped(waited, question.key) if watch else None
            if stopped:
                findings.append(stopped)
                break
            left = deadline - (time.monotonic() - started)
            if problem.final or texts or left <= 0:
                findings.append(error("serve.completion.failed", f"{question.url}: {waited}.", problem.fix))
                break
            time.sleep(min(_PAUSE_SECONDS, left))
            continue
        if not texts:
            first = answer | {"seconds": round(time.monotonic() - asked, 3)}
        texts.append(answer["text"])
    deterministic = len(set(texts)) == 1 if len(texts) > 1 else None
    if deterministic is False:
        shown = " / ".join(json.dumps(text[:60]) for text in dict.fromkeys(texts))
        text = f"{question.url}: {question.model} gave different answers at temperature 0: {shown}."
        fix = (
            "Compare the releases and model revisions of both hosts: "
            "/opt/tandem/libexec/tandem-host weights verify on each."
        )
        findings.append(error("serve.completion.unstable", text, fix))
    return {
        "ok": not has_errors(findings),
        **first,
        "attempts": attempts,
        "deterministic": deterministic,
        "unit": watch.as_json() if watch else None,
        "waited_seconds": round(time.monotonic() - started, 3),
        "findings": as_json(findings),
    }


def _target(url: str) -> tuple[type[http.client.HTTPConnection], str, int, str]:
    """Connection class, host, port and path prefix of a URL; raises BadInputError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    unusual = not url.isascii() or not url.isprintable() or " " in url
    if unusual or parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        text = f"--url {url} is not a URL like http://spark-a:8888."
        raise BadInputError([error("usage.url.invalid", text, "Give scheme, host and port.")])
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind, parts.hostname, port or (443 if parts.scheme == "https" else 80), parts.path.rstrip("/")


def _ask(
    target: tuple[type[http.client.HTTPConnection], str, int, str], question: Question, timeout: float
) -> dict[str, Any]:
    kind, host, port, prefix = target
    body = {
        "model": question.model,
        "messages": [{"role": "user", "content": question.prompt}],
        "temperature": 0,
        "seed": 0,
        "max_tokens": question.max_tokens,
    }
    headers = {"Content-Type": "application/json", "Connection": "close"}
    if question.key is not None:
        headers["Authorization"] = f"Bearer {question.key}"
    connection = kind(host, port, timeout=timeout)
    try:
        connection.request("POST", prefix + _PATH, json.dumps(body), headers)
        response = connection.getresponse()
        status, content = response.status, _content(response, time.monotonic() + timeout)
    except UnicodeError as problem:
        reason = f"{host[:_SHOWN]} cannot be the name of a host"
        raise _AnswerError(reason, "Give the head's name or address with --url.", final=True) from problem
    except (OSError, http.client.HTTPException) as problem:
        reason = (
            f"no answer within {timeout:.0f} s" if isinstance(problem, TimeoutError) else _reason(problem)
        )
        fix = "On the head: systemctl status tandem.target; journalctl -u tandem-rank.service -n 50"
        raise _AnswerError(reason, fix, final=False) from problem
    finally:
        connection.close()
    if status != http.client.OK:
        raise _refused(status, content, question)
    return _completion(content)


def _content(response: http.client.HTTPResponse, end: float) -> str:
    """The text of an answer that comes to its end in time and is not larger than one can be."""
    parts: list[bytes] = []
    while part := response.read1(_LARGEST_BYTES):
        parts.append(part)
        if time.monotonic() > end:
            raise TimeoutError
        if sum(map(len, parts)) > _LARGEST_BYTES:
            raise http.client.HTTPException("the answer does not end")
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts).decode("utf-8", errors="replace")


def _reason(problem: Exception) -> str:
    return str(getattr(problem, "strerror", None) or problem or type(problem).__name__)


def _refused(status: int, content: str, question: Question) -> _AnswerError:
    if question.key:
        content = content.replace(question.key, "(the key)")
    reason = f"HTTP {status}: {content.strip()[:_SHOWN] or 'no text'}"
    if status in (401, 403):
        return _AnswerError(reason, "Give the server's key with --api-key-file.", final=True)
    if status == http.client.NOT_FOUND:
        fix = f"Ask {question.url}/v1/models for the served name and give it with --model."
        return _AnswerError(reason, fix, final=True)
    final = status < http.client.INTERNAL_SERVER_ERROR and status not in _MAY_PASS
    fix = "journalctl -u tandem-rank.service -n 100 on both hosts"
    return _AnswerError(reason, fix, final=final)


def _completion(content: str) -> dict[str, Any]:
    """Text, usage and finish reason of an answer. The text may be empty: a model may end at once."""
    try:
        data = parse(content)
        choice = data["choices"][0]
        message = choice["message"]
        text = message.get("content") or message.get("reasoning_content") or message.get("reasoning") or ""
        usage = {name: data["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
        finish_reason = choice["finish_reason"]
    except (ValueError, LookupError, TypeError, AttributeError) as problem:
        reason = f"the answer is no chat completion: {content[:_SHOWN]}"
        raise _AnswerError(reason, "Is this URL the head's vLLM server?", final=True) from problem
    if not finish_reason or not usage["completion_tokens"]:
        reason = f"the answer has no tokens (finish_reason {finish_reason}, usage {usage})"
        raise _AnswerError(reason, "journalctl -u tandem-rank.service -n 100 on both hosts", final=False)
    return {"text": str(text), "usage": usage, "finish_reason": finish_reason}


def _attempts(question: Question, attempts: int, seconds: float) -> str:
    times = f"{attempts} attempt{'s' if attempts > 1 else ''}, {seconds:.0f} s"
    return f"no completion from {question.model} ({times})"
