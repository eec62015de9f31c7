"""Which transport NCCL took, from its own log (``NCCL_DEBUG=INFO``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tandem_host.fabric.lint.situation import Situation
from tandem_host.findings import Finding, error

_FROM = re.compile(r"(?P<host>[\w.-]+):\d+:\d+ \[\d+\] NCCL ")
_USING = re.compile(r"NET/(?P<net>IB|Socket) *: Using (?P<devices>.*)")
_DEVICE = re.compile(r"\[\d+\](?P<name>[^\s:\[\]]+):(?P<rest>[^\s;]+)")
_OOB = re.compile(r"OOB (?P<netdev>[^\s:]+):(?P<address>\S+?)<\d+>")
_NETWORK = re.compile(r"Using network (?P<name>\w+)")


@dataclass(frozen=True)
class Transport:
    """What one host's lines say.

    ``network`` is what NCCL ended with (``IB``, ``Socket``), ``devices`` the HCAs with their ports; with
    ``netdev`` and ``address`` it first contacted the other ranks.
    """

    network: str | None
    devices: tuple[tuple[str, int], ...] = ()
    netdev: str | None = None
    address: str | None = None

    def as_json(self) -> dict[str, object]:
        """The transport as ``fabric lint`` shows it."""
        return {
            "network": self.network,
            "devices": [f"{name}:{port}" for name, port in self.devices],
            "oob_netdev": self.netdev,
            "oob_address": self.address,
        }


def parse(text: str, host: str) -> Transport:
    """What the lines of ``host`` say; where only one host speaks under another name, it is meant."""
    lines = text.splitlines()
    speakers = {_speaker(line) for line in lines} - {None}
    name = host.partition(".")[0]  # as NCCL writes it
    if name not in speakers and speakers:
        if len(speakers) > 1:
            return Transport(None)
        name = str(speakers.pop())
    network: str | None = None
    netdev: str | None = None
    address: str | None = None
    devices: tuple[tuple[str, int], ...] = ()
    for line in lines:
        if _speaker(line) not in (None, name):
            continue
        using, ended = _USING.search(line), _NETWORK.search(line)
        if using:
            network = network if using["net"] == "Socket" and devices else using["net"]
        if using and using["net"] == "IB":
            devices = _devices(using["devices"])
            oob = _OOB.search(using["devices"])
            netdev, address = (oob["netdev"], oob["address"]) if oob else (None, None)
        if ended:
            network = ended["name"]
    return Transport(network, devices, netdev, address)


def _speaker(line: str) -> str | None:
    match = _FROM.search(line)
    return match["host"] if match else None


def _devices(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for match in _DEVICE.finditer(text):
        port = match["rest"].partition("/")[0]
        if port.isdecimal():
            found.append((match["name"], int(port)))
    return tuple(found)


def findings(seen: Situation, used: Transport) -> list[Finding]:
    """An error unless NCCL used RDMA over exactly the host's rails."""
    wanted = sorted((port.hca, port.port) for port in seen.rail_ports)
    shown = ", ".join(f"{hca}:{port}" for hca, port in wanted) or "no RDMA port"
    if used.network is None:
        text = f"{seen.name}: the log does not say which network NCCL used."
        return [
            error("fabric.transport.unknown", text, "Start with NCCL_DEBUG=INFO and keep the whole output.")
        ]
    if used.network != "IB" and seen.cluster is not None and not seen.cluster.fabric.rdma:
        return []
    if used.network != "IB":
        text = f"{seen.name}: NCCL fell back to {used.network}, wanted RDMA over {shown}."
        fix = "Read NCCL's WARN lines; ls /dev/infiniband; /opt/tandem/libexec/tandem-host fabric check"
        return [error("fabric.transport.socket", text, fix)]
    if sorted(used.devices) != wanted:
        held = ", ".join(f"{name}:{port}" for name, port in used.devices) or "none"
        text = f"{seen.name}: NCCL used {held}, the rails are {shown}."
        fix = "Compare NCCL_IB_HCA with: /opt/tandem/libexec/tandem-host fabric resolve"
        return [error("fabric.transport.devices", text, fix)]
    return []
