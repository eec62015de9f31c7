"""Units of systemd: what one is doing now, and what it said last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tandem_host.host import Host
from tandem_host.system import ask

_PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "ExecMainCode",
    "ExecMainStatus",
    "NRestarts",
    "Job",
)
_GOING = frozenset({"active", "activating", "reloading", "refreshing"})
_BY_SIGNAL = frozenset({"2", "3"})  # CLD_KILLED, CLD_DUMPED
_SECONDS = 5.0


@dataclass(frozen=True)
class Unit:
    """One look at a unit; the words are systemd's own.

    ``exit_status`` is None when its main process has not ended; with ``by_signal`` it is a signal's number.
    ``queued``: systemd has a job for it, so a unit that is not active yet may become so.
    """

    name: str
    load: str
    active: str
    sub: str
    result: str
    exit_status: int | None
    by_signal: bool
    restarts: int
    queued: bool

    @property
    def going(self) -> bool:
        """Whether it runs, or is about to."""
        return self.active in _GOING or self.queued

    @property
    def never_ran(self) -> bool:
        """Whether it is down without having run: not started, or something that it requires failed."""
        return self.active == "inactive" and self.exit_status is None

    def in_words(self) -> str:
        """``failed (failed), result exit-code, exit status 1``."""
        words = f"{self.active} ({self.sub})"
        if self.load not in ("", "loaded"):
            words += f", {self.load}"
        if self.result not in ("", "success"):
            words += f", result {self.result}"
        if self.exit_status is not None:
            words += f", {'signal' if self.by_signal else 'exit status'} {self.exit_status}"
        return words

    def as_json(self) -> dict[str, Any]:
        """The unit for a document."""
        return {
            "name": self.name,
            "active": self.active,
            "sub": self.sub,
            "result": self.result,
            "exit_status": self.exit_status,
            "restarts": self.restarts,
        }


def show(host: Host, name: str) -> Unit | None:
    """What systemd says about a unit; None when it cannot be asked.

    Under a root from ``tandem-fixture/systemctl-show/NAME``, the output of ``systemctl show``.
    """
    if host.live:
        text = ask(["systemctl", "show", name, "-p", ",".join(_PROPERTIES)], _SECONDS)
    else:
        text = host.read(f"/tandem-fixture/systemctl-show/{name}")
    values = dict(line.split("=", 1) for line in (text or "").splitlines() if "=" in line)
    if not values.get("ActiveState"):
        return None
    code, status = values.get("ExecMainCode", ""), values.get("ExecMainStatus", "")
    ended = code != "0" and status.isdecimal() and values["ActiveState"] not in _GOING
    restarts, job = values.get("NRestarts", ""), values.get("Job", "")
    return Unit(
        name=name,
        load=values.get("LoadState", ""),
        active=values["ActiveState"],
        sub=values.get("SubState", ""),
        result=values.get("Result", ""),
        exit_status=int(status) if ended else None,
        by_signal=code in _BY_SIGNAL,
        restarts=int(restarts) if restarts.isdecimal() else 0,
        queued=job.isdecimal() and job != "0",
    )


def last_words(host: Host, name: str, lines: int) -> list[str]:
    """The last lines of a unit's journal; empty when there are none or they may not be read.

    Under a root from ``tandem-fixture/journalctl/NAME``.
    """
    if host.live:
        text = ask(["journalctl", "-u", name, "-n", str(lines), "-o", "cat", "--no-pager"], _SECONDS)
    else:
        text = host.read(f"/tandem-fixture/journalctl/{name}")
    return [line.rstrip() for line in (text or "").splitlines() if line.strip()][-lines:]
