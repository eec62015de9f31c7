"""Variables that name interfaces and addresses: each must be there, here, and reachable for others."""

from __future__ import annotations

import re
from ipaddress import ip_address

from tandem_host.fabric.lint import selectors
from tandem_host.fabric.lint.settings import Setting
from tandem_host.fabric.lint.situation import Situation
from tandem_host.findings import Finding, error

_SELECTED = frozenset({"NCCL_SOCKET_IFNAME"})
_LISTED = frozenset(
    {
        "GLOO_SOCKET_IFNAME",
        "MN_IF_NAME",
        "OMPI_MCA_btl_tcp_if_include",
        "OMPI_MCA_oob_tcp_if_include",
        "TP_SOCKET_IFNAME",
        "UCX_NET_DEVICES",
    }
)
# Addresses that other ranks connect to.
_REACHED = frozenset({"HOST_IP", "MASTER_ADDR", "NODE_IP_ADDRESS", "RAY_ADDRESS", "VLLM_HOST_IP"})
_HOST_LIST = re.compile(r"(^|_)(HOSTS|NODES|PEERS|IPS|WORKERS)$")


def findings(seen: Situation, setting: Setting) -> list[Finding]:
    """Everything about one variable that names interfaces, HCAs of UCX, or addresses."""
    if setting.name in _SELECTED:
        return _selected(seen, setting)
    if setting.name in _LISTED:
        names = [part.strip() for part in setting.value.split(",") if part.strip()]
        return [item for name in names for item in _named(seen, setting, name)]
    if setting.name in _REACHED or _HOST_LIST.search(setting.name.upper()):
        return _addresses(seen, setting)
    return []


def _named(seen: Situation, setting: Setting, name: str) -> list[Finding]:
    if setting.name == "UCX_NET_DEVICES":
        known = {f"{port.hca}:{port.port}" for port in seen.ports}
        if name == "all" or name in known:
            return []
    interface = seen.interface(name)
    if name == "lo":
        return [_loopback(seen, setting, name)]
    if interface is None:
        return [_unknown(seen, setting, name)]
    return [] if interface.addresses else [_bare(seen, setting, [name])]


def _selected(seen: Situation, setting: Setting) -> list[Finding]:
    """NCCL reads the names as beginnings, and takes of the interfaces found those with an address."""
    selector = selectors.parse(setting.value)
    if selector.exclude:
        return []
    found = []
    for item in selector.items:
        matched = [one for one in seen.interfaces if selector.fits((item[0], None), one.name)]
        if not matched:
            found.append(_unknown(seen, setting, item[0]))
        elif not any(one.addresses for one in matched):
            found.append(_bare(seen, setting, [one.name for one in matched]))
    return found


def _unknown(seen: Situation, setting: Setting, name: str) -> Finding:
    known = ", ".join(item.name for item in seen.interfaces if item.name != "lo") or "none"
    text = f"{seen.name}: {setting.name} names {name}, which this host does not have (it has {known})."
    fix = f"Leave {setting.name} out: Tandem sets it at every start; by hand take a name from `ip -br addr`."
    return error("fabric.lint.interface", text, fix)


def _bare(seen: Situation, setting: Setting, names: list[str]) -> Finding:
    text = f"{seen.name}: {setting.name} names {', '.join(names)}, which has no address."
    return error(
        "fabric.lint.address", text, "ip -br addr; name the interface that holds the rail's address."
    )


def _addresses(seen: Situation, setting: Setting) -> list[Finding]:
    found = []
    for part in re.split(r"[\s,;]+", setting.value):
        place = _host_of(part)
        try:
            address = ip_address(place)
        except ValueError:
            if place == "localhost":
                found.append(_loopback(seen, setting, place))
            continue
        if address.is_loopback or address.is_unspecified:
            found.append(_loopback(seen, setting, place))
        elif setting.name == "VLLM_HOST_IP" and not any(
            own.ip == address for item in seen.interfaces for own in item.addresses
        ):
            text = f"{seen.name}: VLLM_HOST_IP is {address}, which no interface of this host holds."
            fix = "It is each host's own address: never copy it from another host."
            found.append(error("fabric.lint.foreign_address", text, fix))
    return found


def _host_of(part: str) -> str:
    """The host of ``host``, ``host:port``, ``[v6]:port`` or ``user@host:port``."""
    rest = part.rpartition("@")[2].partition("://")[2] or part.rpartition("@")[2]
    if rest.startswith("["):
        return rest[1:].partition("]")[0]
    return rest if rest.count(":") > 1 else rest.partition(":")[0]


def _loopback(seen: Situation, setting: Setting, place: str) -> Finding:
    text = f"{seen.name}: {setting.name} holds {place}, where other hosts find only themselves."
    return error("fabric.lint.loopback", text, "Give each host's address on the first rail.")
