"""What files become, and how a person is shown it: the rails' parts only, and no secret of any kind."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

#: Keys of netplan, NetworkManager and wpa_supplicant whose values nobody may read in a log.
_SECRET = re.compile(
    r"^(?P<key>\s*[\"']?[\w.-]*(?:password|psk|secret|passphrase|wep-key|private-key|pin|sae)[\w.-]*[\"']?\s*[:=])"
    r"\s*\S.*$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Change:
    """One file: ``content`` None removes it; ``mode`` None keeps the mode (new files: 0600).

    ``before`` and ``after`` are the texts to show, which may be only a part of the file.
    """

    path: str
    content: bytes | None
    before: str
    after: str
    why: str
    mode: int | None = None

    @property
    def action(self) -> str:
        """``remove``, ``write`` or ``rewrite``."""
        if self.content is None:
            return "remove"
        return "write" if self.mode is not None else "rewrite"

    def as_json(self) -> dict[str, Any]:
        """The change without its content."""
        return {"path": self.path, "action": self.action, "why": self.why}


def diff(changes: Iterable[Change]) -> str:
    """A unified diff of all changes."""
    found: list[str] = []
    for change in changes:
        part = " (the rails' part)" if change.action == "rewrite" else ""
        found += difflib.unified_diff(
            _lines(change.before),
            _lines(change.after),
            fromfile=f"{change.path}{part}" if change.before else "/dev/null",
            tofile=f"{change.path}{part}" if change.after else "/dev/null",
            n=2,
        )
    return "".join(found)


def _lines(text: str) -> list[str]:
    return [f"{_SECRET.sub(_hidden, line)}\n" for line in text.splitlines()]


def _hidden(match: re.Match[str]) -> str:
    return f"{match['key']} (hidden)"
