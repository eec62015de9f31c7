"""RDMA devices (HCAs) and the network interfaces they belong to."""

from __future__ import annotations

from dataclasses import dataclass

from tandem_host.host import Host


@dataclass(frozen=True)
class HcaPort:
    """One port of an HCA, which has ``ports`` of them; ``state`` is the kernel's word (ACTIVE, DOWN …)."""

    hca: str
    port: int
    state: str | None
    link_layer: str | None
    netdevs: frozenset[str]
    ports: int = 1

    @property
    def active(self) -> bool:
        """Whether the port can carry traffic."""
        return self.state == "ACTIVE"


def read(host: Host) -> tuple[HcaPort, ...]:
    """Every RDMA port of the host, in order of name and port."""
    found = []
    for hca in host.names("/sys/class/infiniband"):
        base = f"/sys/class/infiniband/{hca}"
        numbers = sorted(int(name) for name in host.names(f"{base}/ports") if name.isdecimal())
        for port in numbers:
            state = host.read(f"{base}/ports/{port}/state")
            found.append(
                HcaPort(
                    hca=hca,
                    port=port,
                    state=state.partition(":")[2].strip() or None if state else None,
                    link_layer=host.read(f"{base}/ports/{port}/link_layer"),
                    netdevs=_netdevs(host, base, port, len(numbers)),
                    ports=len(numbers),
                )
            )
    return tuple(found)


def _netdevs(host: Host, base: str, port: int, ports: int) -> frozenset[str]:
    """Interfaces of a port: from the device, else from its GID entries (up to 1024 files, so last).

    mlx5 has ``device/net``; soft-RoCE has no ``device`` but names its interface in ``parent``.
    With several ports on one device only the GID entries tell them apart.
    """
    if ports == 1:
        found = set(host.names(f"{base}/device/net"))
        parent = host.read(f"{base}/parent")
        if parent:
            found.add(parent)
        if found:
            return frozenset(found)
    attributes = f"{base}/ports/{port}/gid_attrs/ndevs"
    named = {host.read(f"{attributes}/{index}") for index in host.names(attributes)}
    return frozenset(name for name in named if name)


def of_netdev(ports: tuple[HcaPort, ...], netdev: str) -> tuple[HcaPort, ...]:
    """The RDMA ports of an interface."""
    return tuple(item for item in ports if netdev in item.netdevs)


def selector(chosen: tuple[HcaPort, ...], every: tuple[HcaPort, ...]) -> str:
    """The value of ``NCCL_IB_HCA`` for these ports.

    NCCL reads names as prefixes; where one is the beginning of another HCA's name, ``=`` asks for exact ones.
    """
    names = [f"{item.hca}:{item.port}" if item.ports > 1 else item.hca for item in chosen]
    taken = {item.hca for item in chosen}
    clash = any(
        other.hca.startswith(item.hca) for item in chosen for other in every if other.hca not in taken
    )
    return ("=" if clash else "") + ",".join(names)
