"""Safetensors files without loading them: headers, offsets, and the index that says which shard has what."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tandem_host.findings import Finding, error
from tandem_host.strict import parse, read_text
from tandem_host.weights.manifest import unreadable

INDEX = "model.safetensors.index.json"
_LENGTH_BYTES = 8
# The format's own limit; a larger number means that the file is not one.
_LARGEST_HEADER = 100_000_000
_DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F4": 4,
    "F6_E2M3": 6, "F6_E3M2": 6, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
_COPY_AGAIN = "Copy the file again from the source: it is cut or damaged."


def read_header(path: Path) -> tuple[frozenset[str], list[Finding]]:
    """Names of the tensors in a file, and what is wrong with its header.

    Every tensor must lie inside the file, be as long as its type and shape say, and the tensors must cover
    the data without holes or overlaps, as the format demands. Raises OSError.
    """

    def wrong(problem: str, what: str) -> tuple[frozenset[str], list[Finding]]:
        return frozenset(), [error(f"weights.header.{problem}", f"{path} {what}.", _COPY_AGAIN)]

    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        if size < _LENGTH_BYTES or length > min(size - _LENGTH_BYTES, _LARGEST_HEADER):
            return wrong("cut", f"has {size} bytes and says that its header has {length}")
        text = stream.read(length)
    try:
        header = parse(text)
        header.pop("__metadata__", None)
        spans = sorted(_span(item["data_offsets"], name) for name, item in header.items())
        lengths = {name: _bytes(item) for name, item in header.items()}
    except (ValueError, LookupError, TypeError, AttributeError) as problem:
        return wrong("invalid", f"has a header that cannot be understood: {type(problem).__name__} {problem}")
    expected = 0
    for begin, end, name in spans:
        if begin != expected or end < begin:
            return wrong("offsets", f": {name} begins at {begin}, wanted {expected}")
        if lengths[name] is not None and end - begin != lengths[name]:
            return wrong(
                "offsets", f": {name} has {end - begin} bytes, its type and shape need {lengths[name]}"
            )
        expected = end
    if _LENGTH_BYTES + length + expected != size:
        needed = _LENGTH_BYTES + length + expected
        return wrong("size", f"has {size} bytes, its tensors need {needed}")
    return frozenset(header), []


def _span(offsets: Any, name: str) -> tuple[int, int, str]:
    begin, end = map(int, offsets)
    return begin, end, name


def _bytes(item: Mapping[str, Any]) -> int | None:
    """How many bytes a tensor takes; None for a type that is newer than this program."""
    bits = _DTYPE_BITS.get(item["dtype"])
    if bits is None:
        return None
    for dimension in item["shape"]:
        bits *= int(dimension)
    return bits // 8


def check(directory: Path, present: Iterable[str]) -> tuple[int, list[Finding]]:
    """How many tensors the shards of a directory hold, and all that is wrong with them and the index."""
    shards = sorted(name for name in present if name.endswith(".safetensors"))
    findings: list[Finding] = []
    held: dict[str, list[str]] = {}
    damaged = set()
    for shard in shards:
        try:
            tensors, found = read_header(directory / shard)
        except OSError as problem:
            tensors, found = frozenset(), [unreadable(directory / shard, problem)]
        findings += found
        if found:
            damaged.add(shard)
        for tensor in tensors:
            held.setdefault(tensor, []).append(shard)
    if (directory / INDEX).is_file():
        findings += _compare(directory / INDEX, shards, held, damaged)
    return len(held), findings


def _compare(
    file: Path, shards: list[str], held: Mapping[str, list[str]], damaged: set[str]
) -> list[Finding]:
    findings: list[Finding] = []

    def add(problem: str, what: str, fix: str) -> None:
        findings.append(error(f"weights.index.{problem}", f"{file}: {what}.", fix))

    try:
        wanted: dict[str, str] = parse(read_text(file))["weight_map"]
        if not all(isinstance(shard, str) for shard in wanted.values()):
            raise TypeError("weight_map holds something other than names")  # noqa: TRY301
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as problem:
        add("invalid", f"it cannot be understood: {type(problem).__name__} {problem}", _COPY_AGAIN)
        return findings
    named = set(wanted.values())
    missing = sorted(named - set(shards))
    if missing:
        what = f"{len(missing)} of {len(named)} shards are missing: {_some(missing)}"
        add("shard_missing", what, "Copy the missing shards, all from the same revision.")
    unreadable = damaged | set(missing)
    lost = sorted(
        tensor for tensor, shard in wanted.items() if shard not in [*held.get(tensor, ()), *unreadable]
    )
    if lost:
        what = f"{len(lost)} tensors are not in the shard that it names: {_some(lost)}"
        add("tensor_missing", what, "The index and the shards are of different revisions: copy all of one.")
    twice = sorted(
        tensor for tensor in wanted if len([name for name in held.get(tensor, ()) if name in named]) > 1
    )
    if twice:
        what = f"{len(twice)} tensors are in more than one shard: {_some(twice)}"
        add("tensor_twice", what, "Shards of different revisions are mixed: copy all of one.")
    unknown = sorted(tensor for tensor, where in held.items() if tensor not in wanted and named & set(where))
    if unknown:
        what = f"{len(unknown)} tensors of the shards are not in it: {_some(unknown)}"
        add("tensor_unknown", what, "The index and the shards are of different revisions: copy all of one.")
    return findings


def _some(names: list[str]) -> str:
    shown = 3
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
