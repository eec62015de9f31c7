"""Names for the layouts that people have: what is there before Tandem comes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_interface

from tandem_host.addresses import InterfaceAddress
from tandem_host.fabric.layout.claims import NETPLAN, NETWORKMANAGER, Claim, Setting

#: What NetworkManager of Ubuntu writes into netplan's folder.
_WRITTEN_BY_NM = re.compile(r".*/90-NM-[^/]*\.yaml")

IN_WORDS = {
    "tandem": "Tandem's own file",
    "none": "nobody configures them",
    "bond": "both functions of the cage in a bond, through which RDMA uses only one",
    "networkmanager_netplan": "profiles that NetworkManager keeps in netplan's folder",
    "link_local_and_networkmanager": "one rail link-local, the other a profile of NetworkManager",
    "link_local_ipv4": "link-local IPv4, another address at every boot",
    "one_subnet": "both rails in one subnet, which confuses ARP and halves the bandwidth",
    "static_two_subnets": "a static address in a subnet of its own on each rail",
    "static_two_subnets_mtu_unset": "a static address on each rail, at the default MTU",
    "static_two_subnets_uneven": "a static address on each rail that ends differently: one may be mistyped",
    "networkmanager": "profiles of NetworkManager",
    "other": "a layout of its own",
}


def name(claims: Sequence[Claim], own: bool) -> str:
    """The layout's name, a key of ``IN_WORDS``; ``own``: Tandem's file is there."""
    if not claims:
        return "tandem" if own else "none"
    settings = [setting for claim in claims for setting in claim.settings]
    methods = {setting.method for setting in settings}
    kinds = {claim.kind for claim in claims}
    if "bond" in methods or any(claim.links for claim in claims):
        return "bond"
    if any(_WRITTEN_BY_NM.fullmatch(claim.path) for claim in claims):
        return "networkmanager_netplan"
    if "link-local" in methods:
        return "link_local_and_networkmanager" if kinds == {NETPLAN, NETWORKMANAGER} else "link_local_ipv4"
    if methods == {"static"}:
        return _static(settings)
    return "networkmanager" if kinds == {NETWORKMANAGER} else "other"


def _static(settings: Sequence[Setting]) -> str:
    parsed: dict[str, list[InterfaceAddress]] = {}
    for setting in settings:
        for text in setting.addresses:
            try:
                parsed.setdefault(setting.netdev, []).append(ip_interface(text))
            except ValueError:
                return "other"
    first, *rest = [held[0] for held in parsed.values()]
    if any(first.version == other.version and first.network.overlaps(other.network) for other in rest):
        return "one_subnet"
    if any(int(first.ip) % 256 != int(other.ip) % 256 for other in rest):
        return "static_two_subnets_uneven"
    if not all(setting.mtu for setting in settings):
        return "static_two_subnets_mtu_unset"
    return "static_two_subnets"
