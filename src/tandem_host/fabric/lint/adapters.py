"""Variables that choose HCAs and GIDs: what they select must be there, up, and lead to the peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tandem_host.fabric import gids, hcas
from tandem_host.fabric.hcas import HcaPort
from tandem_host.fabric.lint import selectors
from tandem_host.fabric.lint.settings import Setting
from tandem_host.fabric.lint.situation import Situation
from tandem_host.findings import Finding, error, warning

_RENDERED = "Leave NCCL_IB_HCA out: Tandem sets it at every start; by hand: NCCL_IB_HCA={}"


def findings(seen: Situation, values: Mapping[str, Setting]) -> list[Finding]:
    """Everything about ``NCCL_IB_HCA`` and ``NCCL_IB_GID_INDEX`` together."""
    hca, index = values.get("NCCL_IB_HCA"), values.get("NCCL_IB_GID_INDEX")
    selector = selectors.parse(hca.value) if hca and hca.value else None
    found = _selection(seen, selector) if selector else []
    if index and index.value:
        chosen = selector.chosen(seen.ports) if selector else seen.ports
        found += _pinned(seen, index.value, [port for port in chosen if port.active])
    return found


def _selection(seen: Situation, selector: selectors.Selector) -> list[Finding]:
    found = []
    fix = _RENDERED.format(_right(seen))
    if not selector.exclude:
        for item in selector.items:
            found += _item(seen, selector, item, fix)
    chosen = selector.chosen(seen.ports)
    if chosen and not any(port.active for port in chosen):
        text = f"{seen.name}: all that NCCL_IB_HCA selects is down: {_names(chosen)}."
        found.append(error("fabric.lint.hca_down", text, fix))
    elif not chosen and selector.exclude:
        text = f"{seen.name}: NCCL_IB_HCA excludes every HCA of this host ({_names(seen.ports)})."
        found.append(error("fabric.lint.hca_unknown", text, fix))
    if seen.cluster is None or not seen.rails or len(seen.rail_ports) != len(seen.rails):
        return found  # a rail without its HCA has its own finding
    foreign = [port for port in chosen if port.active and port not in seen.rail_ports]
    if foreign:
        peers = ", ".join(peer.name for peer in seen.cluster.peers(seen.node.rank if seen.node else 0))
        text = f"{seen.name}: NCCL_IB_HCA selects {_names(foreign)}, which does not lead to {peers}."
        found.append(error("fabric.lint.hca_foreign", text, fix))
    missing = [port for port in seen.rail_ports if port not in chosen]
    if missing and chosen:
        text = f"{seen.name}: NCCL_IB_HCA leaves out {_names(missing)}: a part of the bandwidth is not used."
        found.append(warning("fabric.lint.hca_incomplete", text, fix))
    return found


def _item(
    seen: Situation, selector: selectors.Selector, item: tuple[str, int | None], fix: str
) -> list[Finding]:
    matched = [port for port in seen.ports if selector.fits(item, port.hca, port.port)]
    shown = item[0] if item[1] is None else f"{item[0]}:{item[1]}"
    if not matched:
        known = _names(seen.ports) or "none"
        text = f"{seen.name}: {shown} in NCCL_IB_HCA matches no HCA of this host (it has {known})."
        return [error("fabric.lint.hca_unknown", text, fix)]
    down = [port for port in matched if not port.active]
    if not down:
        return []
    states = ", ".join(f"{port.hca}:{port.port} is {port.state or 'in an unknown state'}" for port in down)
    text = f"{seen.name}: {shown} in NCCL_IB_HCA matches ports that cannot carry: {states}."
    return [warning("fabric.lint.hca_down", text, fix)]


def _names(ports: Sequence[HcaPort]) -> str:
    return ", ".join(f"{port.hca}:{port.port}" for port in ports)


def _right(seen: Situation) -> str:
    """The value that fits this host: its rails where they are known, else what is up."""
    ports = seen.rail_ports or tuple(port for port in seen.ports if port.active)
    return (
        hcas.selector(ports, seen.ports)
        or "the HCAs of the rails (/opt/tandem/libexec/tandem-host fabric discover)"
    )


def _pinned(seen: Situation, value: str, ports: Sequence[HcaPort]) -> list[Finding]:
    fix = "Leave NCCL_IB_GID_INDEX out altogether: NCCL then finds the entry on each HCA by itself."
    try:
        index = int(value)
    except ValueError:
        text = f"{seen.name}: NCCL_IB_GID_INDEX is {value!r}, which is no number."
        return [error("fabric.lint.gid_index", text, fix)]
    if index == -1:  # NCCL's own default
        return []
    found = []
    for port in ports:
        table = gids.read_table(seen.host, port.hca, port.port)
        wrong = _wrong_entry(seen, table, index, port)
        if wrong:
            text = f"{seen.name}: GID index {index} is {wrong} on {port.hca}."
            found.append(error("fabric.lint.gid_index", text, fix))
    return found


def _wrong_entry(seen: Situation, table: tuple[gids.GidEntry, ...], index: int, port: HcaPort) -> str | None:
    """Why the entry at ``index`` is not the rail's; None when it is."""
    entry = next((item for item in table if item.index == index), None)
    if entry is None:
        return "EMPTY"
    shown = gids.describe(table, index)
    if entry.gid.is_link_local:
        return f"the link-local {shown}"
    if entry.kind != gids.ROCE_V2:
        return f"{shown}, not {gids.ROCE_V2}"
    rail = next((item for item in seen.rails if item.rdma == port), None)
    if rail is not None and index not in rail.candidates:
        return f"{shown}, not {rail.address.ip}"
    return None
