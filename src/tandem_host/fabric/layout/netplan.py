"""The rails in netplan's files: which file configures them, and what remains of it without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tandem_host.fabric.layout import yamlnodes
from tandem_host.fabric.layout.claims import NETPLAN, Claim, Rail, Reading, Setting, is_glob
from tandem_host.fabric.layout.yamlnodes import LineError, Pair, get, line_of, pairs, text_of, texts
from tandem_host.host import Host
from tandem_host.strict import read_text

#: Where netplan looks; a name in a later folder hides the same name in an earlier one.
FOLDERS = ("/lib/netplan", "/etc/netplan", "/run/netplan")
_SETTINGS_OF_ALL = ("version", "renderer")
_JOINING = ("bonds", "bridges")
_BY_NAME = "give it the exact names of the interfaces that it is for, or move the rails' part out of it"


@dataclass
class _File:
    """One file: its text and, per definition, the section, the identifier and its nodes."""

    path: str
    text: str
    definitions: list[tuple[str, str, Any, Pair]] = field(default_factory=list)
    renderer: str | None = None
    other: bool = False
    doomed: list[tuple[Any, Any]] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    links: list[str] = field(default_factory=list)


def read(host: Host, rails: Sequence[Rail], own: str) -> Reading:
    """Every file but ``own`` that configures one of ``rails``; raises UnusableError without PyYAML."""
    reading = Reading()
    files = []
    for path in _paths(host):
        try:
            files.append(_file(path, read_text(host.path(path))))
        except LineError as problem:
            reading.unclear(host, path, problem.line, problem.what, f"sudoedit {path}; netplan generate")
        except (OSError, ValueError) as problem:
            reading.unclear(host, path, 1, f"cannot be read ({problem})", f"ls -l {path}")
    foreign = [item for item in files if item.path != own]
    for item in foreign:
        _ethernets(host, item, rails, reading)
    _joined(host, foreign, {rail.netdev for rail in rails}, reading)
    for item in foreign:
        if item.doomed:
            reading.claims.append(_claim(item, files))
    return reading


def _paths(host: Host) -> list[str]:
    """The files in the order in which netplan takes them."""
    by_name = {
        name: f"{folder}/{name}"
        for folder in FOLDERS
        for name in host.names(folder)
        if name.endswith(".yaml") and not name.startswith(".")
    }
    return [by_name[name] for name in sorted(by_name)]


def _file(path: str, text: str) -> _File:
    found = _File(path, text)
    for key, network in pairs(yamlnodes.compose(text)):
        if text_of(key) != "network":
            found.other = True
            continue
        for name, section in pairs(network):
            if text_of(name) in _SETTINGS_OF_ALL:
                found.renderer = text_of(section) if text_of(name) == "renderer" else found.renderer
                continue
            if not pairs(section):
                found.other = found.other or section.id != "mapping"
                continue
            found.definitions += [
                (str(text_of(name)), str(text_of(item[0])), section, item) for item in pairs(section)
            ]
    return found


def _ethernets(host: Host, item: _File, rails: Sequence[Rail], reading: Reading) -> None:
    for section, name, mapping, (key, value) in item.definitions:
        if section != "ethernets":
            continue
        covered = [rail for rail in rails if _covers(name, value, rail)]
        renamed = text_of(get(value, "set-name"))
        if renamed in {rail.netdev for rail in rails}:
            what = f"({name}) names an interface {renamed}, which is a rail"
            reading.unclear(
                host, item.path, line_of(key), what, f"remove set-name {renamed} from {item.path}"
            )
        elif covered and not _is_exact(value):
            what = (
                f"({name}) matches {_by_what(value)}: {', '.join(rail.netdev for rail in covered)} included"
            )
            reading.unclear(host, item.path, line_of(key), what, f"in {item.path}, {_BY_NAME}")
        elif covered:
            item.doomed.append((mapping, key))
            item.settings += [_setting(rail.netdev, value) for rail in covered]


def _bound(value: Any) -> str | None:
    """The one interface that NetworkManager itself bound a definition of its own to."""
    return text_of(get(get(get(value, "networkmanager"), "passthrough"), "connection.interface-name"))


def _covers(name: str, value: Any, rail: Rail) -> bool:
    """Whether a definition may mean this rail: by its own name, or all that its ``match`` asks holds."""
    match = get(value, "match")
    bound = _bound(value)
    if match is None or bound:
        return rail.netdev == (bound or name)
    names, mac, driver = (get(match, word) for word in ("name", "macaddress", "driver"))
    return (
        (names is None or rail.is_named(texts(names)))
        and (mac is None or rail.has_mac(str(text_of(mac))))
        and (driver is None or rail.has_driver(texts(driver)))
    )


def _is_exact(value: Any) -> bool:
    """Whether a definition is for one name and nothing else."""
    match = get(value, "match")
    if match is None or _bound(value):
        return True
    name = text_of(get(match, "name"))
    return [text_of(key) for key, _ in pairs(match)] == ["name"] and name is not None and not is_glob(name)


def _by_what(value: Any) -> str:
    asked = [f"{text_of(key)} {', '.join(texts(item))}" for key, item in pairs(get(value, "match"))]
    return " and ".join(asked) or "every interface"


def _setting(netdev: str, value: Any) -> Setting:
    addresses = []
    for item in getattr(get(value, "addresses"), "value", []):
        inner = pairs(item)
        addresses.append(str(text_of(inner[0][0]) if inner else text_of(item)))
    dhcp = any(text_of(get(value, word)) in ("true", "yes", "on", "y") for word in ("dhcp4", "dhcp6"))
    method = "static" if addresses else "dhcp" if dhcp else "none"
    if method == "none" and "ipv4" in texts(get(value, "link-local")):
        method = "link-local"
    return Setting(netdev, method, tuple(addresses), text_of(get(value, "mtu")))


def _joined(host: Host, files: Sequence[_File], rails: set[str], reading: Reading) -> None:
    """Bonds and bridges of rails alone go with them; whatever else stands on a rail is for a person."""
    taken = set(rails)
    grown = True
    while grown:
        grown = False
        for item in files:
            for section, name, mapping, (key, value) in item.definitions:
                members = texts(get(value, "interfaces")) if section in _JOINING else []
                if not members or name in taken or not set(members) <= taken:
                    continue
                grown = True
                taken.add(name)
                item.doomed.append((mapping, key))
                item.links.append(name)
                configured = _setting(name, value)
                item.settings += [
                    Setting(member, "bond", configured.addresses, configured.mtu)
                    for member in members
                    if member in rails
                ]
    for item in files:
        for section, name, _, (key, value) in item.definitions:
            if section == "ethernets" or name in taken - rails:
                continue
            uses = {*texts(get(value, "interfaces")), *texts(get(value, "link")), name} & taken
            if uses:
                what = f"({section[:-1] if section.endswith('s') else section} {name}) stands on "
                what += ", ".join(sorted(uses))
                fix = f"take {name} out of {item.path} by hand; the rails carry nothing else"
                reading.unclear(host, item.path, line_of(key), what, fix)


def _claim(item: _File, files: Sequence[_File]) -> Claim:
    doomed = {id(key) for _, key in item.doomed}
    part = [entry[3] for entry in item.definitions if id(entry[3][0]) in doomed]
    settings = tuple({setting.netdev: setting for setting in item.settings}.values())
    left = len(item.definitions) > len(part)
    rest = None
    if left or item.other or _sets_renderer(item, files):
        rest = yamlnodes.without(item.text, item.doomed)
    return Claim(item.path, NETPLAN, settings, yamlnodes.shown(part), rest, tuple(item.links))


def _sets_renderer(item: _File, files: Sequence[_File]) -> bool:
    """Whether this file says who renders what other files define: the last word on it counts."""
    before = [each.renderer for each in files if each.renderer]
    after = [each.renderer for each in files if each.renderer and each is not item]
    changes = before[-1:] != after[-1:]
    return changes and any(each.definitions for each in files if each is not item)
