"""netplan's YAML as nodes: read, compared and cut without changing what remains.

netplan takes every scalar as the text that it is, so nothing here is turned into numbers or booleans and
back: PyYAML would write the hardware address 10:22:33:44:55:16 as a number.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from tandem_host.findings import UnusableError, error

#: Where Debian and Ubuntu keep python3-yaml, which netplan.io depends on. The program itself runs without it.
DISTRIBUTION = "/usr/lib/python3/dist-packages"
Pair = tuple[Any, Any]


def yaml() -> Any:
    """PyYAML; raises UnusableError where this host has none."""
    try:
        import yaml as module
    except ImportError:
        sys.path.append(DISTRIBUTION)
        try:
            import yaml as module
        except ImportError:
            text = "This host's Python has no module yaml, without which netplan's files cannot be read."
            raise UnusableError(
                [error("fabric.tool.no_yaml", text, "sudo apt-get install python3-yaml")]
            ) from None
        finally:
            sys.path.remove(DISTRIBUTION)
    return module


def compose(text: str) -> Any:
    """The root node of a document, None for an empty one; raises ValueError with the line."""
    module = yaml()
    try:
        root = module.compose(text, Loader=module.SafeLoader)
        meaning(root)  # an alias may hold itself
    except RecursionError:
        raise LineError(1, "is nested too deep") from None
    except module.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        what = getattr(problem, "problem", None) or "is no YAML"
        raise LineError(line, f"is no YAML that netplan takes ({what})") from problem
    return root


class LineError(ValueError):
    """A text that cannot be understood, with the number of its line."""

    def __init__(self, line: int, what: str) -> None:
        self.line, self.what = line, what
        super().__init__(f"line {line} {what}")


def line_of(node: Any) -> int:
    """The number of the line that a node begins on."""
    return int(node.start_mark.line) + 1


def pairs(node: Any) -> list[Pair]:
    """Keys and values of a mapping, one given twice included; empty for any other node."""
    return list(node.value) if node is not None and node.id == "mapping" else []


def get(node: Any, key: str) -> Any:
    """The last value of a key in a mapping, as netplan takes it; None where there is none."""
    found = [value for name, value in pairs(node) if name.id == "scalar" and name.value == key]
    return found[-1] if found else None


def text_of(node: Any) -> str | None:
    """A scalar's text; None for any other node."""
    return str(node.value) if node is not None and node.id == "scalar" else None


def texts(node: Any) -> list[str]:
    """The texts of a sequence's scalars, or of the one scalar."""
    if node is None:
        return []
    items = node.value if node.id == "sequence" else [node]
    return [str(item.value) for item in items if item.id == "scalar"]


def meaning(node: Any) -> Any:
    """What a document says, without its form: nested lists of texts, to be compared."""
    if node is None:
        return None
    if node.id == "mapping":
        return ["mapping", [[meaning(key), meaning(value)] for key, value in node.value]]
    if node.id == "sequence":
        return ["sequence", [meaning(item) for item in node.value]]
    # Without quotes an empty text is nothing; netplan does not look at any other tag.
    return ["scalar", str(node.value), node.tag.endswith(":null")]


def without(text: str, doomed: Sequence[tuple[Any, Any]]) -> str:
    """The text without some pairs, given as (mapping, key) nodes of its own composition.

    Lines are cut where every pair has lines of its own, so that comments and form of the rest stay; otherwise
    the rest is written anew. Either way it means the same, which is checked.
    """
    root = compose(text)
    wanted = _pruned(root, {_place(key) for _, key in doomed})
    cut = _cut_lines(text, doomed)
    if cut is not None:
        try:
            if meaning(compose(cut)) == meaning(wanted):
                return cut
        except LineError:
            pass  # an anchor went with the lines
    return str(yaml().serialize(wanted, allow_unicode=True, width=1000))


def shown(given: Sequence[Pair]) -> str:
    """Pairs as the text of a block mapping."""
    module = yaml()
    node = module.MappingNode("tag:yaml.org,2002:map", list(given), flow_style=False)
    return str(module.serialize(node, allow_unicode=True, width=1000))


def _place(node: Any) -> tuple[int, int]:
    return node.start_mark.line, node.start_mark.column


def _pruned(node: Any, places: set[tuple[int, int]]) -> Any:
    """The node without the pairs whose keys are at these places, and without mappings that this empties."""
    if node.id != "mapping":
        return node
    kept = []
    for key, value in node.value:
        if _place(key) in places:
            continue
        full = bool(pairs(value))
        inner = _pruned(value, places)
        if not full or pairs(inner):
            kept.append((key, inner))
    node.value = kept
    return node


def _cut_lines(text: str, doomed: Sequence[tuple[Any, Any]]) -> str | None:
    """The text without the lines of these pairs; None where one does not have lines of its own."""
    lines = text.splitlines(keepends=True)
    places = {_place(key) for _, key in doomed}
    gone: set[int] = set()
    for span in _spans(compose(text), places, len(lines)):
        if span is None:
            return None
        first, last = span
        column = len(lines[first]) - len(lines[first].lstrip())
        while last - 1 > first and _is_for_what_follows(lines[last - 1], column):
            last -= 1
        gone |= set(range(first, last))
    return "".join(line for number, line in enumerate(lines) if number not in gone)


def _is_for_what_follows(line: str, column: int) -> bool:
    """Whether a line between two pairs is blank or a comment at the depth of the next one."""
    bare = line.strip()
    return not bare or (bare.startswith("#") and len(line) - len(line.lstrip()) <= column)


def _spans(node: Any, places: set[tuple[int, int]], end: int) -> Iterator[tuple[int, int] | None]:
    """First line and line after the last of every pair to cut; None for one that shares its line."""
    held = pairs(node)
    for number, (key, value) in enumerate(held):
        after = held[number + 1][0].start_mark.line if number + 1 < len(held) else end
        doomed = _place(key) in places or (pairs(value) and not pairs(_copy_pruned(value, places)))
        if not doomed:
            yield from _spans(value, places, after)
        elif node.flow_style or after == key.start_mark.line:
            yield None
        else:
            yield key.start_mark.line, after


def _copy_pruned(node: Any, places: set[tuple[int, int]]) -> Any:
    """Like ``_pruned``, but leaves the node as it is."""
    module = yaml()
    kept = []
    for key, value in node.value:
        if _place(key) in places:
            continue
        if pairs(value):
            inner = _copy_pruned(value, places)
            if not pairs(inner):
                continue
        kept.append((key, value))
    return module.MappingNode(node.tag, kept)
