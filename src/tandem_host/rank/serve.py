"""``serve.json``: the release, the model and the arguments that every rank is started with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem_host.fabric.environment import OWNED
from tandem_host.findings import Finding, UnusableError, error
from tandem_host.strict import Fields, load

# What Tandem itself decides, by the long names and the short ones that vLLM also takes.
RESERVED_ARGUMENTS = frozenset(
    {
        "api-key",
        "config",
        "distributed-executor-backend",
        "headless",
        "host",
        "master-addr",
        "master-port",
        "model",
        "nnodes",
        "node-rank",
        "port",
        "revision",
        "served-model-name",
        "tensor-parallel-size",
        "tp",
        "uds",
    }
)
RESERVED_ENVIRONMENT = OWNED | {"VLLM_API_KEY"}
_ARGUMENT = re.compile(r"[a-z][a-z0-9]*([-_.][a-z0-9]+)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# NCCL and its kind read an empty number as 0, so an empty value is a setting, not the absence of one.
_NEVER_EMPTY = ("NCCL_", "GLOO_", "UCX_")


@dataclass(frozen=True)
class Release:
    """The release a rank runs from; ``path`` holds ``bin/vllm``."""

    name: str
    digest: str
    path: str


@dataclass(frozen=True)
class Model:
    """The weights: a directory on this host, and the name that clients use."""

    path: str
    served_name: str
    revision: str | None


@dataclass(frozen=True)
class Serve:
    """The whole file; ``arguments`` and ``environment`` are the engine's own, ``{rank}`` not filled in."""

    release: Release
    model: Model
    arguments: Mapping[str, Any]
    environment: Mapping[str, str]
    api_host: str
    api_port: int
    api_key_file: str | None
    tensor_parallel_size: int
    config_digest: str


def read(path: Path) -> Serve:
    """Read and check ``serve.json``; raises UnusableError with every problem of the file."""
    findings: list[Finding] = []
    top = Fields(load(path, "serve.file"), path, "serve", findings)
    top.integer("schema", 1, 1)
    release, model, engine, api = (top.object(name) for name in ("release", "model", "engine", "api"))
    read_back = Serve(
        release=Release(release.text("name"), release.text("digest"), release.text("path")),
        model=Model(model.text("path"), model.text("served_name"), model.optional_text("revision")),
        arguments=engine.mapping("args"),
        environment=engine.mapping("env"),
        api_host=api.text("host"),
        api_port=api.integer("port", 1, 65535),
        api_key_file=top.optional_text("api_key_file"),
        tensor_parallel_size=top.integer("tensor_parallel_size", 1, 1024),
        config_digest=top.text("config_digest"),
    )
    for part in (release, model, engine, api, top):
        part.finish()
    for fields, field, value in (
        (release, "path", read_back.release.path),
        (model, "path", read_back.model.path),
        (top, "api_key_file", read_back.api_key_file),
    ):
        if value and not value.startswith("/"):
            fields.problem(field, f'is "{value}", wanted an absolute path')
    findings += argument_findings(read_back.arguments, str(path)) + _environment(
        read_back.environment, str(path)
    )
    if findings:
        raise UnusableError(findings)
    return read_back


def argument_findings(arguments: Mapping[str, Any], file: str) -> list[Finding]:
    """Arguments that Tandem decides itself, names that are no long option, values that mean nothing."""
    found = []

    def add(problem: str, name: str, what: str, fix: str) -> None:
        found.append(error(f"serve.argument.{problem}", f"{file}: engine.args.{name} {what}.", fix))

    seen: dict[str, str] = {}
    for name, value in sorted(arguments.items()):
        if not _ARGUMENT.fullmatch(name):
            add(
                "invalid",
                name,
                "is not the name of a long option without its dashes",
                "Write max-model-len: 2048.",
            )
            continue
        option = name.replace("_", "-")
        if option in seen:
            add("duplicate", name, f"is the same option as {seen[option]}", "Keep one of the two.")
        seen[option] = name
        reserved = _reserved(option)
        if reserved:
            fix = f"Remove {name} from vllm_server_engine_args."
            add("reserved", name, f"is decided by Tandem (--{reserved})", fix)
        if not _passable(value):
            add("invalid", name, "holds a zero byte or half of a character", "Give plain text.")
        elif value is None or value in ("", []):
            add(
                "empty",
                name,
                "has no value",
                "Leave the option out, or give true for an option without a value.",
            )
        elif isinstance(value, list) and any(
            isinstance(item, (dict, list, bool)) or item is None for item in value
        ):
            add(
                "invalid",
                name,
                "is a list of something other than text and numbers",
                "Give text and numbers.",
            )
    return found


def _passable(value: Any) -> bool:
    """Whether all texts in a value can be arguments of a program."""
    if isinstance(value, dict):
        return all(_passable(name) and _passable(item) for name, item in value.items())
    if isinstance(value, list):
        return all(_passable(item) for item in value)
    if not isinstance(value, str):
        return True
    try:
        return b"\0" not in value.encode("utf-8")
    except UnicodeEncodeError:
        return False


def _reserved(option: str) -> str | None:
    """The reserved option that this one sets; the engine's parser also takes beginnings of names."""
    plain = option.removeprefix("no-")
    for reserved in sorted(RESERVED_ARGUMENTS):
        if plain == reserved or reserved.startswith(plain):
            return reserved
    return None


def _environment(environment: Mapping[str, Any], file: str) -> list[Finding]:
    found = []
    for name, value in sorted(environment.items()):
        place = f"{file}: engine.env.{name}"
        if not _VARIABLE.fullmatch(name):
            found.append(
                error("serve.environment.invalid", f"{place} is not a variable's name.", "Rename it.")
            )
        elif not isinstance(value, str):
            text = f"{place} is {type(value).__name__}, wanted text."
            found.append(error("serve.environment.invalid", text, "Put the value in quotes."))
        elif "\n" in value or not _passable(value):
            text = f"{place} holds a line break, a zero byte or half of a character."
            found.append(error("serve.environment.invalid", text, "Give one line of text."))
        elif name in RESERVED_ENVIRONMENT:
            text = f"{place} is decided by Tandem at every start."
            fix = f"Remove {name} from vllm_server_engine_environment."
            found.append(error("serve.environment.reserved", text, fix))
        elif not value and name.startswith(_NEVER_EMPTY):
            text = f"{place} is empty; an empty number is read as 0."
            found.append(error("serve.environment.empty", text, "Leave the variable out."))
    return found
