"""What two hosts' fabrics must have in common; pure functions over what ``fabric discover`` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem.checks.findings import Finding, error, warning

Document = dict[str, Any]


def compare(documents: dict[str, Document]) -> list[Finding]:
    """What the hosts disagree on; ``documents`` maps a host's inventory name to its document.

    Only differences are told: what is wrong on one host alone is told there. An MTU that differs is an
    error. The rest are warnings: they cost bandwidth or a reboot, and what the rails carry is measured.
    """
    questions: list[tuple[str, str, Callable[[Document], str], str]] = [
        (
            "pair.iommu.differs",
            "how the IOMMU translates the network card's memory accesses",
            _iommu,
            "RDMA reads may lose most of their rate: give both hosts the same iommu.passthrough in "
            "/etc/default/grub.d, update-grub, reboot both.",
        ),
        (
            "pair.hotplug.differs",
            "the marker /etc/nvidia/cx7-hotplug-enabled",
            _hotplug,
            "rename it on both to cx7-hotplug-disabled and reboot both together.",
        ),
        (
            "pair.firmware.differs",
            "the firmware of the network card",
            _firmware,
            "bring both to the same release of DGX OS, which updates the card at boot, and reboot both.",
        ),
        (
            "pair.pcie.differs",
            "the PCIe links of the network card",
            _pcie,
            "the lesser one halves the rate: update that host's BIOS, take its power away for a minute.",
        ),
    ]
    return [*_mtu(documents), *(item for question in questions for item in _differs(documents, *question))]


def fabric_netdevs(document: Document) -> list[dict[str, Any]]:
    """The interfaces that matter: those of the rails, or while there are none, those with an HCA."""
    every = document.get("netdevs", [])
    rails = [item for item in every if item["rail"] is not None]
    return sorted(rails, key=lambda item: int(item["rail"])) or [item for item in every if item["hcas"]]


def _differs(
    documents: dict[str, Document], code: str, what: str, answer: Callable[[Document], str], fix: str
) -> list[Finding]:
    """A warning when the known answers are not the same; a host that does not know has no part in it."""
    answers = {name: answer(document) for name, document in documents.items()}
    known = {name: value for name, value in answers.items() if value}
    if len(set(known.values())) < 2:  # noqa: PLR2004
        return []
    listing = ", ".join(f"{name} has {value}" for name, value in known.items())
    return [warning(code, f"the hosts differ in {what}: {listing}.", fix)]


def _known(values: list[Any]) -> str:
    return " and ".join(sorted({str(value) for value in values if value is not None}))


def _iommu(document: Document) -> str:
    return _known([item["iommu"] for item in fabric_netdevs(document)])


def _hotplug(document: Document) -> str:
    return "it" if document["hotplug_marker"] else "none"


def _firmware(document: Document) -> str:
    return _known([hca["firmware"] for item in fabric_netdevs(document) for hca in item["hcas"]])


def _pcie(document: Document) -> str:
    links = [item["pcie"] for item in fabric_netdevs(document) if item["pcie"]]
    return _known([_link(link) for link in links if link["width"] or link["speed"]])


def _link(link: dict[str, Any]) -> str:
    speed = f"{link['speed']:g}" if link["speed"] else "?"
    return f"x{link['width'] or '?'} at {speed} GT/s"


def _mtu(documents: dict[str, Document]) -> list[Finding]:
    """An error for each rail whose ends have different MTUs."""
    ends: dict[int, dict[str, tuple[str, int]]] = {}
    for name, document in documents.items():
        for item in fabric_netdevs(document):
            if item["rail"] is not None and item["mtu"] is not None:
                ends.setdefault(int(item["rail"]), {})[name] = (str(item["netdev"]), int(item["mtu"]))
    found = []
    for rail, hosts in sorted(ends.items()):
        if len({mtu for _netdev, mtu in hosts.values()}) > 1:
            listing = ", ".join(f"{name} has {mtu} on {netdev}" for name, (netdev, mtu) in hosts.items())
            found.append(
                error(
                    "pair.mtu.differs",
                    f"the ends of rail {rail} have different MTUs: {listing}.",
                    "run site.yml; a firmware update or NetworkManager may have set one back to 1500.",
                )
            )
    return found
