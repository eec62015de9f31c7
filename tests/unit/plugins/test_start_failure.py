"""What a person reads when the pair does not come up: once, with the cause and both ranks' last words."""

from __future__ import annotations

import json
from typing import Any

from filter.tandem import tandem_start_failure

HOSTS: dict[str, dict[str, Any]] = {
    "spark-a": {"__vllm_server_journal": {"stdout_lines": ["ValueError: max_model_len"]}},
    "spark-b": {"__vllm_server_journal": {"stdout_lines": ["waiting for rank 0"]}},
}
FINDING = {
    "level": "error",
    "code": "probe.unit.stopped",
    "message": "tandem-rank.service is failed.",
    "fix": "systemctl status tandem-rank",
}


def test_the_probes_finding_comes_first_and_each_line_names_its_host() -> None:
    ready = {"stdout": json.dumps({"findings": [FINDING]}), "rc": 1}
    hosts = {**HOSTS, "spark-a": {**HOSTS["spark-a"], "__vllm_server_ready": ready}}
    lines = tandem_start_failure(["spark-a", "spark-b"], hosts, "spark-a").splitlines()
    assert lines[0].startswith("serve.start.failed: spark-a: the pair did not come up and was stopped.")
    assert "probe.unit.stopped: spark-a: tandem-rank.service is failed." in lines[0]
    assert lines[1:3] == ["spark-a | ValueError: max_model_len", "spark-b | waiting for rank 0"]
    assert lines[-1].startswith("Fix: `journalctl -u tandem-rank` on both hosts")


def test_a_pair_whose_unit_did_not_start_was_never_asked() -> None:
    lines = tandem_start_failure(["spark-a", "spark-b"], HOSTS, "spark-a").splitlines()
    assert lines[0] == "serve.start.failed: spark-a: the pair did not come up and was stopped."
    assert "spark-b | waiting for rank 0" in lines
