"""Facts that prove the cluster from outside: processes, TCP sockets and interface counters of the rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tandem_host import addresses, cluster, processes
from tandem_host.addresses import Interface
from tandem_host.fabric import hcas
from tandem_host.findings import as_json, error
from tandem_host.host import Host
from tandem_host.processes import Process, Socket
from tandem_host.rank import state
from tandem_host.rank.traffic import CLASSES, classify_sockets

UNIT = "tandem-rank.service"
_COUNTERS = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets")


def facts(host: Host, state_file: Path, cluster_file: Path) -> dict[str, Any]:
    """What the rank of this host is doing now; an error when no process of a rank runs."""
    described = cluster.read(cluster_file)
    interfaces = addresses.read(host)
    started, findings = state.read(state_file)
    every = processes.processes(host)
    main = started.pid if started and state.alive(host, started) else None
    mine = _processes(every, main)
    if not mine:
        text = f"{host.name}: no process of a rank runs (state {state_file}, unit {UNIT})."
        findings.append(error("rank.process.missing", text, f"systemctl status {UNIT}; journalctl -u {UNIT}"))
    elif main is None:
        names = ", ".join(f"{item.name} ({item.pid})" for item in mine)
        text = f"{host.name}: the rank's main process is gone, but {names} still run."
        findings.append(error("rank.process.orphaned", text, f"systemctl stop {UNIT}"))
    held, unreadable = _sockets(host, mine)
    if unreadable:
        text = f"{host.name}: the files of processes {', '.join(map(str, unreadable))} may not be read."
        findings.append(error("rank.process.unreadable", text, "Run this as root."))
    node = next((node for node in described.nodes if started and node.rank == started.rank), None)
    rdma = _rdma_counters(host)
    rails = [rail.address for rail in (node.rails if node else described.nodes[0].rails)]
    classes = classify_sockets(held, rails, described.api_port)
    return {
        "host": node.name if node else host.name,
        "rank": started.rank if started else None,
        "pid": main,
        "processes": [
            {"pid": item.pid, "parent": item.parent, "name": item.name, "unit": item.unit} for item in mine
        ],
        "sockets": [
            _socket_json(item, held[item], name, interfaces) for name in CLASSES for item in classes[name]
        ],
        "counts": {name: len(classes[name]) for name in CLASSES},
        "rails": [item.name for rail in rails for item in addresses.holders(interfaces, rail.ip)[:1]],
        "interfaces": {
            item.name: _counters(host, item.name) | rdma.get(item.name, {}) for item in interfaces
        },
        "findings": as_json(findings),
    }


def _processes(every: dict[int, Process], main: int | None) -> list[Process]:
    """The main process, its descendants, and all of the rank's unit: a worker may outlive its parent."""
    numbers = processes.tree(every, main) if main is not None else set()
    numbers |= {item.pid for item in every.values() if item.unit == UNIT}
    return [every[number] for number in sorted(numbers)]


def _sockets(host: Host, mine: list[Process]) -> tuple[dict[Socket, int], list[int]]:
    """TCP sockets of the processes with the first process that holds each, and processes that hide theirs."""
    found: dict[Socket, int] = {}
    unreadable = []
    table = processes.sockets(host, mine[0].pid) if mine else []
    by_inode = {item.inode: item for item in table if item.inode}
    for process in mine:
        if not _readable(host, process.pid):
            unreadable.append(process.pid)
            continue
        for inode in processes.inodes(host, process.pid):
            if inode in by_inode:
                found.setdefault(by_inode[inode], process.pid)
    ordered = sorted(found.items(), key=lambda pair: (pair[0].local_port, pair[0].remote_port, pair[0].inode))
    return dict(ordered), unreadable


def _readable(host: Host, pid: int) -> bool:
    directory = host.path(f"/proc/{pid}/fd")
    try:
        next(directory.iterdir(), None)
    except FileNotFoundError:
        return True  # it ended meanwhile, or the tree has no files of it
    except OSError:
        return False
    return True


def _socket_json(item: Socket, pid: int, kind: str, interfaces: tuple[Interface, ...]) -> dict[str, Any]:
    owners = addresses.holders(interfaces, item.local)
    return {
        "pid": pid,
        "state": item.state,
        "class": kind,
        "local": {"address": str(item.local), "port": item.local_port},
        "remote": {"address": str(item.remote), "port": item.remote_port},
        "netdev": owners[0].name if owners else None,
    }


def _counters(host: Host, netdev: str) -> dict[str, int | None]:
    """Counters since the interface exists. RDMA bytes are not in them: HCAs count those."""
    return {name: host.read_int(f"/sys/class/net/{netdev}/statistics/{name}") for name in _COUNTERS}


def _rdma_counters(host: Host) -> dict[str, dict[str, int]]:
    """By interface: bytes that its HCA port moved, where there is one.

    ``port_rcv_data`` and ``port_xmit_data`` count in units of four octets (InfiniBand PortCounters).
    """
    found: dict[str, dict[str, int]] = {}
    for port in hcas.read(host):
        base = f"/sys/class/infiniband/{port.hca}/ports/{port.port}/counters"
        words = [host.read_int(f"{base}/{name}") or 0 for name in ("port_rcv_data", "port_xmit_data")]
        for netdev in port.netdevs:
            found[netdev] = {"rdma_rx_bytes": 4 * words[0], "rdma_tx_bytes": 4 * words[1]}
    return found
