"""What RDMA needs of the operating system: device files, memory that may be locked, whole PCIe links."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tandem_host.cluster import Node
from tandem_host.fabric import adapters, devices
from tandem_host.fabric.rails import RailState
from tandem_host.findings import Finding, error, warning
from tandem_host.host import Host

# What NCCL registers for two rails is some hundred MiB; systemd's usual limit is 8 MiB.
MEMLOCK_BYTES = 1024**3
_IPC_LOCK = 1 << 14  # the capability that the kernel's limit does not hold for
# All that a Spark wires to one function of its card: 4 lanes of PCIe 5. The card itself could do 16.
_SPARK_CARD, _SPARK_LANES, _SPARK_SPEED = "15b3:1021", 4, 32.0
# RoCE packets carry at most 4096 bytes, in powers of two, below the headers.
_RDMA_MTUS = (4096, 2048, 1024, 512, 256)
_RDMA_HEADERS = 96


def device_files(host: Host, node: Node, rails: Sequence[RailState]) -> list[Finding]:
    """An error for each HCA whose verbs cannot be opened, a warning without the connection manager."""
    present = set(host.names("/dev/infiniband"))
    classes = host.names("/sys/class/infiniband_verbs")
    own = {host.read(f"/sys/class/infiniband_verbs/{name}/ibdev"): name for name in classes}
    found = []
    for rail in rails:
        if rail.rdma is None:
            continue
        file = own.get(rail.rdma.hca)
        if file is not None and file not in present:
            text = f"{node.name}: /dev/infiniband/{file} of {rail.rdma.hca} is missing."
        elif file is None and not any(name.startswith("uverbs") for name in present):
            text = f"{node.name}: there is no /dev/infiniband/uverbs* for {rail.rdma.hca}."
        else:
            continue
        fix = "sudo modprobe ib_uverbs; ls -l /dev/infiniband (a container needs the directory passed in)"
        found.append(error("fabric.device.missing", text, fix))
    if any(rail.rdma for rail in rails) and "rdma_cm" not in present:
        text = f"{node.name}: there is no /dev/infiniband/rdma_cm: UCX and rping cannot make connections."
        found.append(warning("fabric.device.rdma_cm", text, "sudo modprobe rdma_ucm"))
    return found


def memlock(host: Host, node: Node) -> list[Finding]:
    """An error when this process may lock too little memory for RDMA; a privileged one is not held to it.

    What a privileged one starts as another user is held to a limit of its own: that of the rank's unit.
    """
    match = re.search(r"^Max locked memory +(\S+)", host.read("/proc/self/limits") or "", re.MULTILINE)
    if match is None or not match[1].isdecimal() or int(match[1]) >= MEMLOCK_BYTES:
        return []
    mask = re.search(r"^CapEff:\s+([0-9a-f]+)", host.read("/proc/self/status") or "", re.MULTILINE)
    if mask is not None and int(mask[1], 16) & _IPC_LOCK:
        return []
    size = f"{int(match[1]) / 1024**2:.0f} MiB"
    text = f"{node.name}: this process may lock {size} of memory; RDMA registers {MEMLOCK_BYTES >> 30} GiB."
    fix = "LimitMEMLOCK=infinity in a unit; `ulimit -l unlimited` or /etc/security/limits.d in a session"
    return [error("fabric.memlock.small", text, fix)]


def pcie(host: Host, node: Node, rails: Sequence[RailState]) -> list[Finding]:
    """A warning for each rail whose PCIe link runs below what it could."""
    found = []
    for rail in rails:
        netdev = devices.read_one(host, rail.netdev) if rail.netdev else None
        if netdev is None or netdev.link is None:
            continue
        link = netdev.link
        lanes, speed = link.max_width, link.max_speed
        if netdev.device_id == _SPARK_CARD:
            lanes = min(lanes or _SPARK_LANES, _SPARK_LANES)
            speed = min(speed or _SPARK_SPEED, _SPARK_SPEED)
        short = lanes is not None and link.width is not None and link.width < lanes
        slow = speed is not None and link.speed is not None and link.speed < speed
        if short or slow:
            text = (
                f"{node.name}: the PCIe link of {netdev.name} ({netdev.pci or 'no PCI address'}) is "
                f"{_shown(link.width, link.speed)}, it could be {_shown(lanes, speed)}."
            )
            fix = (
                f"Update the BIOS, take the power away for a minute; sudo lspci -vvs {netdev.pci} | grep Lnk"
            )
            found.append(warning("fabric.pcie.reduced", text, fix))
    return found


def _shown(lanes: int | None, speed: float | None) -> str:
    return f"x{lanes or '?'} at {f'{speed:g}' if speed else '?'} GT/s"


def rdma_mtu(host: Host, node: Node, rails: Sequence[RailState]) -> list[Finding]:
    """A warning for each HCA that sends smaller packets than its interface's MTU allows."""
    active: dict[tuple[str, int], int] | None = None
    found = []
    for rail in rails:
        if rail.rdma is None or rail.mtu is None:
            continue
        active = adapters.active_mtus(host) if active is None else active
        held = active.get((rail.rdma.hca, rail.rdma.port))
        wanted = next((size for size in _RDMA_MTUS if size <= rail.mtu - _RDMA_HEADERS), _RDMA_MTUS[-1])
        if held is not None and held < wanted:
            text = (
                f"{node.name}: {rail.rdma.hca} port {rail.rdma.port} has an active MTU of {held}, "
                f"MTU {rail.mtu} of {rail.netdev} allows {wanted}."
            )
            fix = f"sudo ip link set {rail.netdev} down; sudo ip link set {rail.netdev} up; ibv_devinfo"
            found.append(warning("fabric.mtu.active", text, fix))
    return found
