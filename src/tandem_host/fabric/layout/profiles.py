"""The rails in NetworkManager's keyfiles, networkd's .network files and ifupdown's interfaces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tandem_host.fabric.layout.claims import (
    IFUPDOWN,
    NETWORKD,
    NETWORKMANAGER,
    Claim,
    Rail,
    Reading,
    Setting,
)
from tandem_host.findings import error
from tandem_host.host import Host

KEYFILES = ("/etc/NetworkManager/system-connections", "/run/NetworkManager/system-connections")
NETWORKS = ("/etc/systemd/network", "/run/systemd/network")
INTERFACES = "/etc/network/interfaces"
_OF_NETPLAN = re.compile(r"(10-)?netplan-.*")
_STANDING = frozenset({"Bond", "Bridge", "VLAN", "MACVLAN", "IPVLAN", "VRF", "Xfrm", "Tunnel"})
_ADDRESS = re.compile(r"address\d*|addresses")


@dataclass(frozen=True)
class _Entry:
    """One ``key=value`` with its section and line."""

    section: str
    key: str
    value: str
    line: int


@dataclass(frozen=True)
class _Ini:
    path: str
    text: str
    entries: tuple[_Entry, ...]

    def values(self, section: str, key: str) -> list[_Entry]:
        """All entries of this name, in order."""
        return [item for item in self.entries if (item.section, item.key) == (section, key)]

    def value(self, key: str, *sections: str) -> str:
        """The last value of a key in one of these sections; empty where there is none."""
        found = [item.value for section in sections for item in self.values(section, key)]
        return found[-1] if found else ""


def _ini_files(host: Host, folders: Sequence[str], endings: tuple[str, ...]) -> Iterator[_Ini]:
    """The files that a person or a program wrote, without those that netplan makes of its own."""
    for folder in folders:
        for name in host.names(folder):
            path = f"{folder}/{name}"
            if name.startswith(".") or not name.endswith(endings) or _OF_NETPLAN.fullmatch(name):
                continue
            try:
                text = host.path(path).read_bytes().decode("utf-8", errors="replace")
            except OSError:
                continue  # a folder, or a file that goes as it is looked at
            yield _Ini(path, text, tuple(_entries(text)))


def _entries(text: str) -> Iterator[_Entry]:
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if bare.startswith("[") and bare.endswith("]"):
            section = bare[1:-1]
        elif "=" in bare and not bare.startswith(("#", ";")):
            key, _, value = bare.partition("=")
            yield _Entry(section, key.strip(), value.strip(), number)


def keyfiles(host: Host, rails: Sequence[Rail]) -> Reading:
    """NetworkManager's own profiles; those that netplan made are netplan's."""
    reading = Reading()
    names = {rail.netdev for rail in rails}
    every = list(_ini_files(host, KEYFILES, ("",)))
    mine: dict[str, tuple[_Ini, list[str]]] = {}
    for item in every:
        bound = item.value("interface-name", "connection")
        parent = item.value("parent", "vlan", "macvlan", "ip-tunnel")
        if parent in names:
            fix = f"nmcli connection delete '{item.value('id', 'connection')}'"
            reading.unclear(host, item.path, 1, f"stands on {parent}, which is a rail", fix)
        elif bound in names:
            mine[item.path] = (item, [bound])
        elif not bound and (covered := _unbound(item, rails)):
            if len(covered) == 1 and item.value("mac-address", "ethernet", "802-3-ethernet"):
                mine[item.path] = (item, covered)
                continue
            what = f"is for any interface that fits: {', '.join(covered)} included"
            fix = f"nmcli connection modify '{item.value('id', 'connection')}' connection.interface-name NAME"
            reading.unclear(host, item.path, 1, what, fix)
    _masters(host, every, mine, reading)
    for item, netdevs in mine.values():
        settings = tuple(_keyfile_setting(item, netdev) for netdev in netdevs)
        link = () if netdevs else (item.value("interface-name", "connection"),)
        reading.claims.append(Claim(item.path, NETWORKMANAGER, settings, item.text, links=link))
    return reading


def _unbound(item: _Ini, rails: Sequence[Rail]) -> list[str]:
    """The rails that a profile without an interface's name may take."""
    if item.value("type", "connection") not in ("ethernet", "802-3-ethernet"):
        return []
    mac = item.value("mac-address", "ethernet", "802-3-ethernet")
    patterns = [word for word in re.split(r"[;\s]+", item.value("interface-name", "match")) if word]
    return [
        rail.netdev
        for rail in rails
        if (not mac or rail.has_mac(mac)) and (not patterns or rail.is_named(patterns))
    ]


def _masters(
    host: Host, every: Sequence[_Ini], mine: dict[str, tuple[_Ini, list[str]]], reading: Reading
) -> None:
    """The bond or bridge of profiles that go, if all its members do."""

    def master(item: _Ini) -> str:
        return item.value("master", "connection") or item.value("controller", "connection")

    for wanted in sorted({master(item) for item, _ in mine.values()} - {""}):
        members = [item for item in every if master(item) == wanted]
        others = [item.path for item in members if item.path not in mine]
        for item in every:
            marks = {item.value(word, "connection") for word in ("interface-name", "uuid", "id")}
            if wanted not in marks or item.path in mine:
                continue
            if others:
                what = f"joins rails with what {', '.join(others)} configures"
                fix = "take the rails out of this bond or bridge by hand"
                reading.unclear(host, item.path, 1, what, fix)
            else:
                mine[item.path] = (item, [])


def _keyfile_setting(item: _Ini, netdev: str) -> Setting:
    addresses = [
        entry.value.split(",")[0]
        for entry in item.entries
        if entry.section in ("ipv4", "ipv6") and _ADDRESS.fullmatch(entry.key)
    ]
    method = {"manual": "static", "auto": "dhcp", "link-local": "link-local"}.get(
        item.value("method", "ipv4"), "none"
    )
    if item.value("master", "connection") or item.value("controller", "connection"):
        method = "bond"
    mtu = item.value("mtu", "ethernet", "802-3-ethernet")
    return Setting(netdev, method, tuple(addresses), mtu or None)


def networks(host: Host, rails: Sequence[Rail]) -> Reading:
    """networkd's files, without those that netplan makes at each boot."""
    reading = Reading()
    names = {rail.netdev for rail in rails}
    for item in _ini_files(host, NETWORKS, (".network",)):
        asked = [entry for entry in item.entries if entry.section == "Match"]
        named = [word for entry in item.values("Match", "Name") for word in entry.value.split()]
        covered = [rail.netdev for rail in rails if _matches(item, named, rail)]
        standing = [entry for entry in item.entries if entry.section == "Network" and entry.key in _STANDING]
        if not covered or not asked:
            continue
        if {entry.key for entry in asked} != {"Name"} or not set(named) <= names:
            what = "matches " + " and ".join(f"{entry.key}={entry.value}" for entry in asked)
            what += f": {', '.join(covered)} included"
            fix = f"in {item.path}, name the interfaces that it is for, the rails left out"
            reading.unclear(host, item.path, asked[0].line, what, fix)
        elif standing:
            what = f"puts {standing[0].key}={standing[0].value} on {', '.join(covered)}"
            fix = f"remove this and what makes {standing[0].value} by hand; the rails carry nothing else"
            reading.unclear(host, item.path, standing[0].line, what, fix)
        else:
            settings = tuple(_network_setting(item, netdev) for netdev in covered)
            reading.claims.append(Claim(item.path, NETWORKD, settings, item.text))
    return reading


def _matches(item: _Ini, named: Sequence[str], rail: Rail) -> bool:
    refused = [word[1:] for word in named if word.startswith("!")]
    wanted = [word for word in named if not word.startswith("!")]
    macs = [word for entry in item.values("Match", "MACAddress") for word in entry.value.split()]
    drivers = [word for entry in item.values("Match", "Driver") for word in entry.value.split()]
    return (
        (not wanted or rail.is_named(wanted))
        and not rail.is_named(refused)
        and (not macs or any(rail.has_mac(mac) for mac in macs))
        and (not drivers or rail.has_driver(drivers))
    )


def _network_setting(item: _Ini, netdev: str) -> Setting:
    addresses = [
        entry.value
        for entry in item.entries
        if entry.section in ("Network", "Address") and entry.key == "Address"
    ]
    dhcp = item.value("DHCP", "Network") in ("yes", "true", "ipv4", "ipv6", "both")
    local = item.value("LinkLocalAddressing", "Network") in ("yes", "true", "ipv4")
    method = "static" if addresses else "dhcp" if dhcp else "link-local" if local else "none"
    return Setting(netdev, method, tuple(addresses), item.value("MTUBytes", "Link") or None)


def interfaces(host: Host, rails: Sequence[Rail]) -> Reading:
    """ifupdown's files: they are never changed, only told."""
    reading = Reading()
    for path in (INTERFACES, *(f"{INTERFACES}.d/{name}" for name in host.names(f"{INTERFACES}.d"))):
        for number, line in enumerate(_lines(host, path), start=1):
            words = line.split()
            if not words or not (words[0] in ("iface", "auto", "mapping") or words[0].startswith("allow-")):
                continue
            asked = words[1:2] if words[0] == "iface" else words[1:]
            named = [rail.netdev for rail in rails if rail.is_named([word.lstrip("/") for word in asked])]
            if named:
                text = f"{host.name}: {path}:{number} configures {', '.join(named)} through ifupdown."
                fix = f"sudo ifdown {' '.join(named)}; remove its lines from {path}; then run this again"
                reading.findings.append(error("fabric.layout.ifupdown", text, fix))
                claim = Claim(path, IFUPDOWN, tuple(Setting(netdev, "none") for netdev in named), line)
                reading.claims.append(claim)
    return reading


def _lines(host: Host, path: str) -> list[str]:
    try:
        return host.path(path).read_bytes().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []
