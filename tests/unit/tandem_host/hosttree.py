"""A host as a directory tree, described in a few lines."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RAILS_A = ("10.0.0.1/24", "10.0.1.1/24")
RAILS_B = ("10.0.0.2/24", "10.0.1.2/24")
TWINS = {"enp1s0f0np0": "rocep1s0f0", "enP2p1s0f0np0": "roceP2p1s0f0"}


def cluster_document(kind: str = "roce", **changes: Any) -> dict[str, Any]:
    """The cluster of the design; ``changes`` replace top-level keys."""

    def node(rank: int, name: str, rails: Sequence[str]) -> dict[str, Any]:
        return {
            "rank": rank,
            "name": name,
            "rails": [{"address": text, "netdev": None, "hca": None} for text in rails],
        }

    return {
        "schema": 1,
        "nodes": [node(0, "spark-a", RAILS_A), node(1, "spark-b", RAILS_B)],
        "fabric": {"kind": kind, "mtu": 9000, "gid_policy": "auto"},
        "rendezvous": {"port": 29521},
        "api": {"port": 8888},
        **changes,
    }


@dataclass
class Tree:
    """Builds what ``--root`` reads."""

    root: Path
    interfaces: list[dict[str, Any]] = field(default_factory=list)

    def write(self, path: str, text: str) -> Path:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
        return file

    def interface(
        self,
        name: str,
        *addresses: str,
        mtu: int = 9000,
        carrier: str = "1",
        operstate: str = "up",
        port: str = "",
    ) -> None:
        """An interface with its addresses; sysfs and the recorded ``ip -j addr`` agree."""
        info = [
            {
                "family": "inet6" if ":" in text else "inet",
                "local": text.split("/")[0],
                "prefixlen": int(text.split("/")[1]),
            }
            for text in addresses
        ]
        flags = ["BROADCAST", "MULTICAST", "UP", *(["LOWER_UP"] if carrier == "1" else [])]
        self.interfaces.append(
            {"ifname": name, "flags": flags, "mtu": mtu, "operstate": operstate.upper(), "addr_info": info}
        )
        self.write("tandem-fixture/ip-addr.json", json.dumps(self.interfaces))
        base = f"sys/class/net/{name}"
        self.write(f"{base}/mtu", str(mtu))
        self.write(f"{base}/operstate", operstate)
        self.write(f"{base}/carrier", carrier)
        if port:
            self.write(f"{base}/phys_port_name", port)

    def hca(
        self,
        name: str,
        netdev: str,
        gids: Mapping[int, tuple[str, str] | None],
        state: str = "4: ACTIVE",
        port: int = 1,
        layer: str = "Ethernet",
    ) -> None:
        """An RDMA port with its GID table; None is an empty slot, of which the kernel says nothing more."""
        verbs = f"uverbs{len(list(self.root.glob('dev/infiniband/uverbs*')))}"
        self.write(f"sys/class/infiniband_verbs/{verbs}/ibdev", name)
        for file in (verbs, "rdma_cm"):
            self.write(f"dev/infiniband/{file}", "")
        base = f"sys/class/infiniband/{name}/ports/{port}"
        self.write(f"{base}/state", state)
        self.write(f"{base}/link_layer", layer)
        for index, entry in gids.items():
            gid, kind = entry or ("0000:0000:0000:0000:0000:0000:0000:0000", "")
            self.write(f"{base}/gids/{index}", gid)
            if kind:
                self.write(f"{base}/gid_attrs/types/{index}", kind)
                self.write(f"{base}/gid_attrs/ndevs/{index}", netdev)

    def process(
        self,
        pid: int,
        parent: int = 1,
        name: str = "vllm",
        ticks: int = 100,
        unit: str = "",
        sockets: Sequence[int] = (),
    ) -> None:
        """A process with its start time, unit and the sockets it holds."""
        fields = ["S", str(parent), *["0"] * 17, str(ticks), *["0"] * 10]
        self.write(f"proc/{pid}/stat", f"{pid} ({name}) {' '.join(fields)}")
        self.write(f"proc/{pid}/cgroup", f"0::/system.slice/{unit}" if unit else "0::/")
        directory = self.root / f"proc/{pid}/fd"
        directory.mkdir(parents=True)
        for number, inode in enumerate(sockets, start=3):
            (directory / str(number)).symlink_to(f"socket:[{inode}]")

    def tcp(self, *lines: str, table: str = "tcp") -> None:
        """``/proc/net/tcp``: lines of ``LOCAL REMOTE STATE INODE`` in the kernel's own notation."""
        heading = (
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
        )
        rows = []
        for number, line in enumerate(lines):
            local, remote, state, inode = line.split()
            rows.append(f"   {number}: {local} {remote} {state} 0:0 0:0 0 0 0 {inode} 1 0")
        self.write(f"proc/net/{table}", "\n".join([heading, *rows]))


def v1_v2_pair(first: int, gid: str) -> dict[int, tuple[str, str] | None]:
    """An address as mlx5 lists it: RoCE v1, then v2."""
    return {first: (gid, "IB/RoCE v1"), first + 1: (gid, "RoCE v2")}


def ipv4_gid(address: str) -> str:
    """``10.0.0.1`` as the kernel writes its GID."""
    parts = [int(part) for part in address.split(".")]
    return f"0000:0000:0000:0000:0000:ffff:{parts[0]:02x}{parts[1]:02x}:{parts[2]:02x}{parts[3]:02x}"


FE80 = "fe80:0000:0000:0000:0000:5eff:fe10:0001"


def codes(document: Mapping[str, Any], level: str = "error") -> list[str]:
    """The codes of the findings of a level."""
    return [item["code"] for item in document["findings"] if item["level"] == level]


def message(document: Mapping[str, Any], code: str) -> str:
    """The message of the first finding with a code."""
    return str(next(item["message"] for item in document["findings"] if item["code"] == code))


Run = Callable[..., tuple[int, dict[str, Any]]]
Config = Callable[..., Path]


SERVE: dict[str, Any] = {
    "schema": 1,
    "release": {"name": "lab-cpu", "digest": "0123abcd", "path": "/opt/tandem/releases/lab-cpu-0123abcd"},
    "model": {"path": "/var/lib/tandem/models/tiny", "served_name": "tiny", "revision": None},
    "engine": {
        "args": {"max-model-len": 2048, "dtype": "bfloat16", "enforce-eager": True},
        "env": {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "{rank}"},
    },
    "api": {"host": "0.0.0.0", "port": 8888},
    "api_key_file": None,
    "tensor_parallel_size": 2,
    "config_digest": "d1",
}
FABRIC = {
    "GLOO_SOCKET_IFNAME": "enp1s0f0np0",
    "TANDEM_MASTER_ADDR": "10.0.0.1",
    "TANDEM_MASTER_PORT": "29521",
    "TANDEM_RANK": "0",
    "VLLM_HOST_IP": "10.0.0.1",
}


def serve_document(**parts: Any) -> dict[str, Any]:
    """The document with parts merged into it (objects one level deep)."""
    document = copy.deepcopy(SERVE)
    for name, value in parts.items():
        if isinstance(value, dict):
            document[name] |= value
        else:
            document[name] = value
    return document


def fabric_env(directory: Path, **values: str) -> Path:
    file = directory / "fabric.env"
    file.write_text(
        "# comment\n" + "".join(f"{name}={value}\n" for name, value in {**FABRIC, **values}.items())
    )
    return file


STATE: dict[str, Any] = {
    "rank": 0,
    "argv": ["vllm"],
    "started_at": "2026-12-01T12:00:00+00:00",
    "release": {"name": "lab-cpu", "digest": "0123abcd"},
    "config_digest": "d1",
    "boot_id": "this-boot",
    "pid": 4242,
    "start_ticks": 100,
}


def state_file(tree: Tree, **changes: Any) -> Path:
    return tree.write("run/tandem/rank.json", json.dumps(STATE | changes))
