"""The command line and environment of one rank."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tandem_host.cluster import Cluster, Node
from tandem_host.findings import Finding, error
from tandem_host.rank.serve import Serve

# Left over from a shell or a unit these would change which interface, library or key a rank uses.
_NOT_INHERITED = (
    "GLOO_",
    "LD_",
    "MASTER_",
    "NCCL_",
    "OMPI_",
    "PYTHON",
    "TP_SOCKET_",
    "UCX_",
    "VLLM_API_KEY",
    "VLLM_HOST_IP",
    "VIRTUAL_ENV",
)
# No rank looks anything up on the internet, and none reports its use.
_OFFLINE = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONUNBUFFERED": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SECRET = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)($|_)")


def executable(serve: Serve) -> str:
    """The engine's program inside the release."""
    return f"{serve.release.path}/bin/vllm"


def argv(serve: Serve, cluster: Cluster, node: Node) -> list[str]:
    """The command line of a rank: what Tandem decides first, then the engine's options by name."""
    command = [
        executable(serve),
        "serve",
        serve.model.path,
        "--served-model-name",
        serve.model.served_name,
        "--tensor-parallel-size",
        str(serve.tensor_parallel_size),
        "--nnodes",
        str(len(cluster.nodes)),
        "--node-rank",
        str(node.rank),
        "--master-addr",
        str(cluster.master_address),
        "--master-port",
        str(cluster.rendezvous_port),
        "--distributed-executor-backend",
        "mp",
    ]
    if node.rank == 0:
        command += ["--host", serve.api_host, "--port", str(serve.api_port)]
    else:
        command.append("--headless")
    for name, value in sorted(serve.arguments.items()):
        command += option(name, value)
    return command


def option(name: str, value: Any) -> list[str]:
    """One option of the engine as arguments.

    true is the flag alone, false its ``--no-`` form, a list is repeated values, an object is JSON with sorted
    keys, anything else is its text.
    """
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return [flag]
    if value is False:
        return [f"--no-{flag.removeprefix('--')}"]
    if isinstance(value, list):
        return [flag, *(str(item) for item in value)]
    if isinstance(value, dict):
        return [flag, json.dumps(value, sort_keys=True, separators=(",", ":"))]
    return [flag, str(value)]


def environment(
    serve: Serve, node: Node, fabric: Mapping[str, str], inherited: Mapping[str, str], api_key: str | None
) -> dict[str, str]:
    """The whole environment of a rank, sorted by name.

    Later ones win: what was inherited (without network settings), offline switches, the engine's own with
    ``{rank}`` filled in, the fabric's. The key is only set on rank 0.
    """
    values = {name: value for name, value in inherited.items() if not name.startswith(_NOT_INHERITED)}
    values |= _OFFLINE
    values["PATH"] = f"{serve.release.path}/bin:{_SYSTEM_PATH}"
    values |= {name: value.replace("{rank}", str(node.rank)) for name, value in serve.environment.items()}
    values |= fabric
    if node.rank == 0 and api_key is not None:
        values["VLLM_API_KEY"] = api_key
    return dict(sorted(values.items()))


def without_secrets(values: Mapping[str, str]) -> dict[str, str]:
    """The environment for people to read: every value whose name says it is secret is ``(set)``."""
    return {name: "(set)" if _SECRET.search(name.upper()) else value for name, value in values.items()}


def contradictions(serve: Serve, cluster: Cluster, node: Node, fabric: Mapping[str, str]) -> list[Finding]:
    """Where the three files that a rank is started from do not agree."""
    found = []
    again = "systemctl restart tandem-fabric.service"
    for name, wanted in (
        ("TANDEM_RANK", str(node.rank)),
        ("TANDEM_MASTER_ADDR", str(cluster.master_address)),
        ("TANDEM_MASTER_PORT", str(cluster.rendezvous_port)),
        ("VLLM_HOST_IP", str(node.rails[0].address.ip)),
    ):
        held = fabric.get(name)
        if held != wanted:
            text = (
                f"{node.name}: the fabric's environment has {name}={held}, rank {node.rank} needs {wanted}."
            )
            found.append(error("rank.fabric.stale", text, again))
    if serve.api_port != cluster.api_port:
        text = (
            f"{node.name}: api.port is {serve.api_port} in serve.json and {cluster.api_port} in cluster.json."
        )
        found.append(error("rank.api.port", text, "ansible-playbook site.yml writes both files"))
    nodes = len(cluster.nodes)
    if serve.tensor_parallel_size % nodes:
        text = f"{node.name}: tensor_parallel_size {serve.tensor_parallel_size} does not fit {nodes} hosts."
        found.append(error("rank.size.uneven", text, f"Set it to {nodes}: one rank a host."))
    return found
