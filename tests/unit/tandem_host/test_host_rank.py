"""``rank show|exec|status``: the command line and environment of a rank, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hosttree import SERVE, Config, Run, Tree, codes, fabric_env, message, serve_document, state_file

from tandem_host.rank import command
from tandem_host.rank.serve import argument_findings

COMMON = [
    "/opt/tandem/releases/lab-cpu-0123abcd/bin/vllm", "serve", "/var/lib/tandem/models/tiny",
    "--served-model-name", "tiny", "--tensor-parallel-size", "2", "--nnodes", "2",
]  # fmt: skip
MEETING = ["--master-addr", "10.0.0.1", "--master-port", "29521", "--distributed-executor-backend", "mp"]
ENGINE = ["--dtype", "bfloat16", "--enforce-eager", "--max-model-len", "2048"]

Write = Callable[[dict[str, Any]], Path]


@pytest.fixture
def serve(tmp_path: Path) -> Write:
    """Writes a serve.json and returns where it is."""

    def write(document: dict[str, Any]) -> Path:
        file = tmp_path / "serve.json"
        file.write_text(json.dumps(document))
        return file

    return write


@pytest.mark.parametrize(("rank", "own"), [(0, ["--host", "0.0.0.0", "--port", "8888"]), (1, ["--headless"])])
def test_command_lines(run: Run, config: Config, serve: Write, rank: int, own: list[str]) -> None:
    status, document = run("rank", "show", "--cluster", config(), "--serve", serve(SERVE), "--rank", rank)
    assert status == 0
    assert document["argv"] == [*COMMON, "--node-rank", str(rank), *MEETING, *own, *ENGINE]
    assert document["env"]["VLLM_CPU_OMP_THREADS_BIND"] == str(rank)


@pytest.mark.parametrize(
    ("name", "value", "rendered"),
    [
        ("enforce-eager", True, ["--enforce-eager"]),
        ("enable-prefix-caching", False, ["--no-enable-prefix-caching"]),
        ("enable_prefix_caching", False, ["--no-enable-prefix-caching"]),
        ("cudagraph-capture-sizes", [1, 2, 4], ["--cudagraph-capture-sizes", "1", "2", "4"]),
        ("limit-mm-per-prompt", {"video": 1, "image": 4}, ["--limit-mm-per-prompt", '{"image":4,"video":1}']),
        ("gpu-memory-utilization", 0.85, ["--gpu-memory-utilization", "0.85"]),
        ("kv-cache-dtype", "fp8", ["--kv-cache-dtype", "fp8"]),
    ],
)
def test_rendering_of_options(name: str, value: Any, rendered: list[str]) -> None:
    assert command.option(name, value) == rendered


@pytest.mark.parametrize(
    "name",
    [
        "node-rank",
        "node_rank",
        "master-addr",
        "api-key",
        "api-k",
        "host",
        "headless",
        "no-headless",
        "tp",
        "config",
    ],
)
def test_what_tandem_decides_is_refused(run: Run, config: Config, serve: Write, name: str) -> None:
    document = serve_document(engine={"args": {name: "x"}})
    status, answer = run("rank", "show", "--cluster", config(), "--serve", serve(document), "--rank", 0)
    assert (status, codes(answer)) == (1, ["serve.argument.reserved"])
    assert name in message(answer, "serve.argument.reserved")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"--dtype": "bfloat16"}, "serve.argument.invalid"),
        ({"Dtype": "bfloat16"}, "serve.argument.invalid"),
        ({"dtype": None}, "serve.argument.empty"),
        ({"dtype": ""}, "serve.argument.empty"),
        ({"sizes": []}, "serve.argument.empty"),
        ({"sizes": [{"a": 1}]}, "serve.argument.invalid"),
        ({"max-model-len": 1, "max_model_len": 2}, "serve.argument.duplicate"),
    ],
)
def test_arguments_that_mean_nothing(arguments: dict[str, Any], code: str) -> None:
    assert [item.code for item in argument_findings(arguments, "serve.json")] == [code]


@pytest.mark.parametrize(
    "name", ["max-model-len", "kv-transfer-config.kv_role", "model-loader-extra-config", "hf-overrides"]
)
def test_the_engines_own_options_pass(name: str) -> None:
    assert argument_findings({name: "x"}, "serve.json") == []


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("NCCL_IB_GID_INDEX", "3", "serve.environment.reserved"),
        ("GLOO_SOCKET_IFNAME", "eth0", "serve.environment.reserved"),
        ("VLLM_API_KEY", "k", "serve.environment.reserved"),
        ("NCCL_DEBUG", "", "serve.environment.empty"),
        ("VLLM_CPU_KVCACHE_SPACE", 1, "serve.environment.invalid"),
        ("TWO WORDS", "1", "serve.environment.invalid"),
        ("LINES", "1\n2", "serve.environment.invalid"),
    ],
)
def test_environment_that_is_refused(
    run: Run, config: Config, serve: Write, name: str, value: Any, code: str
) -> None:
    document = serve_document(engine={"env": {name: value}})
    status, answer = run("rank", "show", "--cluster", config(), "--serve", serve(document), "--rank", 0)
    assert (status, codes(answer)) == (1, [code])
    assert name in message(answer, code)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"release": {"path": "opt/x"}}, "release.path"),
        ({"model": {"served_name": ""}}, "model.served_name"),
        ({"api": {"port": 0}}, "api.port"),
        ({"api_key_file": "api.key"}, "api_key_file"),
        ({"tensor_parallel_size": "2"}, "tensor_parallel_size"),
        ({"colour": 1}, "colour"),
    ],
)
def test_fields_of_serve_json(
    run: Run, config: Config, serve: Write, parts: dict[str, Any], told: str
) -> None:
    status, answer = run(
        "rank", "show", "--cluster", config(), "--serve", serve(serve_document(**parts)), "--rank", 0
    )
    assert status == 1
    assert told in answer["findings"][0]["message"]


def test_secrets_are_not_shown(run: Run, config: Config, serve: Write) -> None:
    document = serve_document(
        engine={"env": {"HF_TOKEN": "hf_x", "TOKENIZERS_PARALLELISM": "false"}}, api_key_file="/etc/k"
    )
    _, answer = run("rank", "show", "--cluster", config(), "--serve", serve(document), "--rank", 0)
    assert (answer["env"]["HF_TOKEN"], answer["env"]["VLLM_API_KEY"]) == ("(set)", "(set)")
    assert answer["env"]["TOKENIZERS_PARALLELISM"] == "false"
    _, answer = run("rank", "show", "--cluster", config(), "--serve", serve(document), "--rank", 1)
    assert "VLLM_API_KEY" not in answer["env"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"TANDEM_RANK": "1"}, "TANDEM_RANK=1"),
        ({"TANDEM_MASTER_ADDR": "10.0.0.9"}, "10.0.0.9"),
        ({"VLLM_HOST_IP": "10.0.0.2"}, "10.0.0.2"),
    ],
)
def test_an_environment_for_another_rank(
    run: Run, config: Config, serve: Write, tmp_path: Path, values: dict[str, str], told: str
) -> None:
    env = fabric_env(tmp_path, **values)
    status, answer = run(
        "rank", "show", "--cluster", config(), "--serve", serve(SERVE), "--rank", 0, "--fabric-env", env
    )
    assert (status, codes(answer)) == (1, ["rank.fabric.stale"])
    assert told in message(answer, "rank.fabric.stale")


def test_files_that_contradict_each_other(run: Run, config: Config, serve: Write, tmp_path: Path) -> None:
    document = serve_document(api={"port": 9999}, tensor_parallel_size=3)
    arguments = ("--rank", 0, "--fabric-env", fabric_env(tmp_path))
    _, answer = run("rank", "show", "--cluster", config(), "--serve", serve(document), *arguments)
    assert codes(answer) == ["rank.api.port", "rank.size.uneven"]


@pytest.mark.parametrize(
    ("changes", "active", "matches"),
    [
        ({}, True, True),
        ({"start_ticks": 99}, False, False),
        ({"pid": 4243}, False, False),
        ({"boot_id": "another"}, False, False),
        ({"config_digest": "d0"}, True, False),
        ({"release": {"name": "lab-cpu", "digest": "ffff"}}, True, False),
    ],
)
def test_status(
    run: Run, tree: Tree, serve: Write, changes: dict[str, Any], active: bool, matches: bool
) -> None:
    tree.write("proc/sys/kernel/random/boot_id", "this-boot")
    tree.process(4242, name="vllm serve) (x")
    arguments = ("--state", state_file(tree, **changes), "--serve", serve(SERVE), "--root", tree.root)
    _, answer = run("rank", "status", *arguments)
    assert (answer["active"], answer["matches"]) == (active, matches)


def test_status_before_anything_was_started(run: Run, tree: Tree, serve: Write, tmp_path: Path) -> None:
    status, answer = run(
        "rank", "status", "--state", tmp_path / "none.json", "--serve", serve(SERVE), "--root", tree.root
    )
    assert (status, answer["active"], answer["matches"], answer["wanted_digest"]) == (0, False, False, "d1")
    assert not [name for name in ("running_digest", "pid", "rank") if answer[name] is not None]
