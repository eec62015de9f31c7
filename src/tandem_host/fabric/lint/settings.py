"""Lines of ``NAME=value`` as people paste them: from a shell, a container's options, a unit."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from tandem_host.findings import Finding, warning

# What stands before a variable in a shell, a Dockerfile, a container's options, a list.
_MARKERS = frozenset({"export", "ENV", "-e", "--env", "-"})
_SETTING = re.compile(r"(?:Environment=|--env=)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")


@dataclass(frozen=True)
class Setting:
    """One variable and the number of its line."""

    line: int
    name: str
    value: str


def parse(text: str) -> tuple[list[Setting], list[Finding]]:
    """The variables of a text, and a warning for each line that sets none. The last of one name counts."""
    found: dict[str, Setting] = {}
    odd = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip().removesuffix("\\").strip()
        if not line or line.startswith(("#", ";")):
            continue
        pairs = _pairs(line)
        if not pairs:  # the line is not shown: it may hold a secret
            message = f"Line {number} is not NAME=value and was not looked at."
            odd.append(warning("fabric.lint.line", message, "Write one NAME=value a line."))
        found |= {name: Setting(number, name, value) for name, value in pairs}
    return list(found.values()), odd


def _pairs(line: str) -> list[tuple[str, str]]:
    """The variables of a line: several as a shell reads them, else one whose value is all the rest."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # a quote that is not closed
        words = line.split()
    while words and words[0] in _MARKERS:
        words = words[1:]
    matches = [_SETTING.fullmatch(word) for word in words if word not in _MARKERS]
    if matches and all(matches):
        return [(match[1], match[2]) for match in matches if match]
    first = _SETTING.fullmatch(" ".join(words))
    return [(first[1], first[2])] if first else []
