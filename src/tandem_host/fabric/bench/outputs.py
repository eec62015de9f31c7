"""Reading what perftest and iperf3 print.

perftest's own JSON (``--out_json``) is left alone: it is written to a file on the measuring side only, and
before 24.07 it is not always valid JSON. The table that people read has kept its form since 4.4.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tandem_host.fabric.bench.figures import LATENCY, TCP

_ERROR_CHARACTERS = 500
_CELLS = re.compile(r"\s{2,}|\t+")


def value(test: str, text: str) -> float:
    """The figure in a client's output: Gb/s, or microseconds for latency; raises ValueError saying why."""
    found = _iperf(text) if test == TCP else _table(text, "t_typical[usec]" if test == LATENCY else None)
    if not 0 < found < 1e6:  # noqa: PLR2004 - no link of this century, no answer either
        raise ValueError(f"the result {found} cannot be")
    return found


def _table(text: str, column: str | None) -> float:
    """The value of the last complete row below the heading ``#bytes …``, by the heading's own order.

    Without ``column`` it is the average bandwidth, which must be in Gb/s.
    """
    heading: list[str] = []
    row: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#bytes"):
            heading = [
                item for item in _CELLS.split(stripped.replace(" #iterations", "  #iterations")) if item
            ]
        elif heading and re.match(r"\d+\s+\d+\s", stripped):
            row = stripped.split()
    if not heading:
        raise ValueError("there is no table of results")
    if not row:
        raise ValueError("the table of results is empty")
    wanted = column or next((name for name in heading if name.startswith("BW average")), "")
    if wanted not in heading:
        raise ValueError(f"the table has no column {wanted or 'BW average'}")
    if column is None and "[gb/sec]" not in wanted.lower():
        raise ValueError(f"the table is in another unit: {wanted}")
    position = heading.index(wanted)
    if len(row) <= position:
        raise ValueError("the last row of the table is cut off")
    return float(row[position])


def printable(text: str) -> str:
    """What a program or another host said, as printable text of bounded length."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:_ERROR_CHARACTERS]).strip()


def complaint(test: str, text: str) -> str:
    """The error that a program's output tells of, where that has a form; else nothing."""
    if test != TCP:
        return ""
    try:
        return printable(str(_document(text).get("error", "")))
    except ValueError:
        return ""


def _document(text: str) -> dict[str, Any]:
    try:
        # Not strictly: with several streams iperf3 gives the key sock_bufsize once for each.
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"iperf3 printed no JSON: {problem}") from None
    if not isinstance(document, dict):
        raise ValueError("iperf3 printed no JSON object")  # noqa: TRY004 - one kind of damage for callers
    return document


def _iperf(text: str) -> float:
    """Gb/s that arrived, from the JSON of ``iperf3 -J``."""
    document = _document(text)
    try:
        return float(document["end"]["sum_received"]["bits_per_second"]) / 1e9
    except (LookupError, TypeError, ValueError):
        raise ValueError("iperf3's JSON has no end.sum_received.bits_per_second") from None
