"""How long `tandem-host fabric resolve` takes as a whole process, since every start of a rank waits for it.

    .venv/bin/python scripts/bench_fabric_resolve.py [--runs N]

Two hosts: a tree with four HCAs whose GID tables have 256 slots each, and this machine's own /sys. Prints the
quickest, the middle and the slowest run in milliseconds; ends with 1 when a middle one is not below the bar.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tandem.host_tool import build
from tandem_host import addresses
from tandem_host.host import Host

BAR_MS = 100.0
SLOTS = 256
EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"
# Interface and HCA of each function, with the rail's address where it carries one.
FUNCTIONS = (
    ("enp1s0f0np0", "rocep1s0f0", "10.0.0.1"),
    ("enP2p1s0f0np0", "roceP2p1s0f0", "10.0.1.1"),
    ("enp1s0f1np1", "rocep1s0f1", None),
    ("enP2p1s0f1np1", "roceP2p1s0f1", None),
)


def write(file: Path, text: str) -> None:
    """Write a file and the directories that lead to it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n", encoding="utf-8")


def spark(root: Path) -> None:
    """A Spark with full-size GID tables, of which a few slots hold something."""
    interfaces = []
    for netdev, hca, address in FUNCTIONS:
        own = [{"family": "inet", "local": address, "prefixlen": 24}] if address else []
        up = {"ifname": netdev, "flags": ["UP", "LOWER_UP"], "mtu": 9000, "operstate": "UP", "addr_info": own}
        interfaces.append(up)
        for name, text in (("mtu", "9000"), ("operstate", "up"), ("carrier", "1")):
            write(root / f"sys/class/net/{netdev}/{name}", text)
        (root / f"sys/class/infiniband/{hca}/device/net/{netdev}").mkdir(parents=True)
        port = root / f"sys/class/infiniband/{hca}/ports/1"
        write(port / "state", "4: ACTIVE")
        write(port / "link_layer", "Ethernet")
        table = dict.fromkeys((0, 1), "fe80:0000:0000:0000:0000:5eff:fe10:0001")
        if address:
            first, second, third, fourth = (int(part) for part in address.split("."))
            gid = f"0000:0000:0000:0000:0000:ffff:{first:02x}{second:02x}:{third:02x}{fourth:02x}"
            table |= {2: gid, 3: gid}
        for index in range(SLOTS):
            write(port / f"gids/{index}", table.get(index, EMPTY))
            if index in table:
                write(port / f"gid_attrs/types/{index}", "RoCE v2" if index % 2 else "IB/RoCE v1")
                write(port / f"gid_attrs/ndevs/{index}", netdev)
    write(root / "tandem-fixture/ip-addr.json", json.dumps(interfaces))
    write(root / "etc/hostname", "spark-a")


def cluster(*own: str, kind: str = "roce", mtu: int = 9000) -> dict[str, Any]:
    """A cluster.json for a host with these addresses and nobody else."""
    rails = [{"address": address, "netdev": None, "hca": None} for address in own]
    return {
        "schema": 1,
        "nodes": [{"rank": 0, "name": "spark-a", "rails": rails}],
        "fabric": {"kind": kind, "mtu": mtu, "gid_policy": "auto"},
        "rendezvous": {"port": 29521},
        "api": {"port": 8888},
    }


def own_cluster() -> dict[str, Any]:
    """The same for an address that this machine holds."""
    for interface in addresses.read(Host()):
        for own in interface.addresses:
            if own.version == 4 and not own.ip.is_loopback:  # noqa: PLR2004
                # RDMA, so that the HCAs of /sys and their tables are read where there are any.
                return cluster(str(own), kind="roce", mtu=interface.mtu or 1500)
    sys.exit("this machine has no IPv4 address")


def measure(what: str, command: list[str], runs: int) -> bool:
    """Print the times of a command; returns whether the middle one is below the bar."""
    times: list[float] = []
    bare: list[float] = []
    for _ in range(runs):
        answer = timed(command, times)
        timed(["/usr/bin/python3", "-IS", "-c", "pass"], bare)
    document = json.loads(answer.stdout)
    found = sum(1 for rail in document["rails"] if rail["gid_index"] is not None)
    middle = statistics.median(times)
    print(
        f"{what}: {min(times):.0f} / {middle:.0f} / {max(times):.0f} ms (least, middle, most of {runs}), "
        f"{min(times) / min(bare):.1f} times an empty program of Python, {found} GIDs, bar {BAR_MS:.0f} ms"
    )
    return middle < BAR_MS


def timed(command: list[str], times: list[float]) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a whole process and add its milliseconds."""
    started = time.perf_counter()
    answer = subprocess.run(command, capture_output=True, check=False)
    times.append((time.perf_counter() - started) * 1000)
    return answer


def main() -> int:
    """Measure both hosts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=21)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        program = directory / "tandem-host"
        program.write_bytes(build())
        program.chmod(0o755)
        spark(directory / "root")
        write(directory / "tree.json", json.dumps(cluster("10.0.0.1/24", "10.0.1.1/24")))
        write(directory / "own.json", json.dumps(own_cluster()))
        resolve = [str(program), "fabric", "resolve", "--config"]
        tree = [*resolve, str(directory / "tree.json"), "--root", str(directory / "root")]
        fit = [
            measure(f"a tree, 4 HCAs with {SLOTS} slots each", tree, runs),
            measure("this machine's /sys", [*resolve, str(directory / "own.json")], runs),
        ]
    return 0 if all(fit) else 1


if __name__ == "__main__":
    sys.exit(main())
