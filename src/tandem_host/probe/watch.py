"""The unit that must run for an answer to come: whether it still does, and what it said when it does not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tandem_host import units
from tandem_host.findings import BadInputError, Finding, error, warning
from tandem_host.host import Host

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9:_.@\\-]*")
_LINES = 15


class Watch:
    """Watches one unit; call ``begin`` once, then ``stopped`` after each attempt without an answer."""

    def __init__(self, host: Host, name: str) -> None:
        if not _NAME.fullmatch(name):
            text = f"--while-unit {name} is not the name of a unit."
            fix = "Give one like tandem-rank.service."
            raise BadInputError([error("usage.unit.invalid", text, fix)])
        self._host = host
        self._name = name
        self._restarts: int | None = None
        self._last: units.Unit | None = None
        self._journal: list[str] = []

    def begin(self) -> Sequence[Finding]:
        """Note how often the unit was restarted before; a warning when systemd cannot be asked."""
        self._last = units.show(self._host, self._name)
        if self._last is not None:
            self._restarts = self._last.restarts
            return []
        text = f"{self._host.name}: systemd does not say what {self._name} does; only the deadline counts."
        return [warning("probe.unit.unknown", text, f"systemctl show {self._name}")]

    def stopped(self, waited: str, secret: str | None) -> Finding | None:
        """An error when the unit is down or was restarted; ``waited`` says what was waited for in vain.

        ``secret`` is kept out of what the journal says.
        """
        unit = units.show(self._host, self._name)
        if unit is None:
            return None
        self._last = unit
        if self._restarts is None:  # systemd could not be asked before
            self._restarts = unit.restarts
        again = unit.restarts - self._restarts
        if unit.going and again <= 0:
            return None
        self._journal = units.last_words(self._host, self._name, _LINES)
        if secret:
            self._journal = [line.replace(secret, "(the key)") for line in self._journal]
        what = f"is {unit.in_words()}"
        if again > 0:
            what = f"was restarted {again} time{'s' if again > 1 else ''} meanwhile and {what}"
        said = "".join(f"\n  {line}" for line in self._journal) or " nothing that this user may read"
        text = f"{self._host.name}: {self._name} {what}; {waited}. It said last:{said}"
        return error("probe.unit.stopped", text, self._fix(unit))

    def _fix(self, unit: units.Unit) -> str:
        start = "ansible-playbook site.yml starts the pair"
        if unit.load == "not-found":
            return f"There is no {unit.name} on this host; {start} and writes its units."
        if unit.never_ran:
            return f"systemctl list-dependencies {unit.name} shows what it needs; mend that; {start}."
        if unit.result == "oom-kill":
            return f"free -h; give the engine less memory (vllm_server_engine_args); {start}."
        return f"journalctl -u {unit.name} -n 100 --no-pager; mend the cause; {start}."

    def as_json(self) -> dict[str, Any]:
        """The unit at the last look, with its last words if it was down."""
        seen = self._last.as_json() if self._last else {"name": self._name, "active": None}
        return seen | {"journal": self._journal}
