"""One change of the rails' configuration: made, proved or put back, and whole after a kill at any moment.

Order is what makes it safe. The copies are on the disk before ``pending.json`` is, that before the timer, the
timer before the first file. Putting back ends by removing ``pending.json``, so a kill in between is mended by
the timer, by the unit at the next boot, or by the next run.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tandem_host.fabric.layout import disk, machine
from tandem_host.fabric.layout.changes import Change, diff
from tandem_host.fabric.layout.disk import Look
from tandem_host.fabric.layout.machine import Machine
from tandem_host.fabric.layout.plan import Plan, Wish, make
from tandem_host.fabric.layout.store import Entry, Store
from tandem_host.findings import Finding, UnusableError, as_json, error, has_errors, info, warning
from tandem_host.host import Host

_LOCK = "lock"


def apply(host: Host, wish: Wish, state_dir: Path, seconds: int) -> dict[str, Any]:
    """Bring the host to what is wished; unless it is confirmed within ``seconds``, it goes back by itself."""
    store, on = Store(host, state_dir), machine.of(host)
    with disk.alone(store.at(_LOCK)):
        undone = _undo_pending(store)
        plan = make(host, wish)
        document = plan.as_json(wish) | {"applied": False, "deadline": None}
        if undone and (not plan.changes or has_errors(plan.findings)):
            _bring(on, [])  # the files of a change that was never proved are gone, its addresses are not
        if has_errors(plan.findings) or not plan.changed:
            return store.say(document)
        findings = list(plan.findings)
        deadline = None
        if plan.changes:
            deadline = time.time() + seconds
            findings += _change(store, on, plan, deadline, seconds)
        elif problem := _bring(on, []):
            findings.append(_netplan(host, problem, "the files were not changed"))
        applied = not has_errors(findings)
        return store.say(
            document
            | {
                "applied": applied,
                "deadline": deadline if applied else None,
                "findings": as_json(findings),
            }
        )


def confirm(host: Host, state_dir: Path) -> dict[str, Any]:
    """The rails are proved: what is pending stays, and nothing is put back any more."""
    store, on = Store(host, state_dir), machine.of(host)
    with disk.alone(store.at(_LOCK)):
        waiting = store.pending()
        if waiting is not None:
            store.set_current(waiting["number"], {"confirmed_at": time.time()})
            store.clear_pending()
        on.disarm()
    return {"host": host.name, "changed": waiting is not None, "number": store.current(), "findings": []}


def restore(host: Host, state_dir: Path, to: str, boot: bool = False) -> dict[str, Any]:
    """Put files back: ``to`` is pending, previous or original. A second time it finds nothing to do.

    A damaged copy stops it before anything is replaced. What waits to be proved goes back as far as it can.
    With ``boot`` nothing is applied: the network has yet to be brought up from the files.
    """
    store, on = Store(host, state_dir), machine.of(host)
    with disk.alone(store.at(_LOCK)):
        waiting = store.pending()
        number, entries = _wanted(store, to, waiting)
        kept, damaged = _kept(store, entries)
        if damaged and to != "pending":
            raise UnusableError(damaged)
        findings = damaged if to == "pending" else _edited(store, entries)
        restored = [path for path, wanted in kept.items() if _put_back(host, path, wanted)]
        if to != "pending" and entries:
            store.set_current(number, {"restored_at": time.time()})
        problem = None
        if restored or waiting is not None:
            problem = on.generate() if boot else _bring(on, [])
        if not damaged:
            store.clear_pending()
            if waiting is not None and to == "pending":
                store.forget(waiting["number"])
        if not boot:
            on.disarm()
        if problem:
            findings.append(_netplan(host, problem, "the files are back as they were"))
        if not entries and to != "pending":
            text = f"{host.name}: Tandem has changed nothing here that could be put back."
            findings.append(info("fabric.backup.none", text, "Nothing to do."))
        document = {
            "host": host.name,
            "to": to,
            "restored": restored,
            "changed": bool(restored or waiting),
            "number": store.current(),
            "at": time.time(),
            "findings": as_json(findings),
        }
        return store.say(document) if document["changed"] else document


def would_restore(host: Host, state_dir: Path, to: str) -> dict[str, Any]:
    """What ``restore`` would put back, with a diff for people; changes nothing."""
    store = Store(host, state_dir)
    waiting = store.pending()
    kept, damaged = _kept(store, _wanted(store, to, waiting)[1])
    seen = {path: disk.look(host.path(path)) for path in kept}
    changes = [
        Change(path, wanted.content if wanted else None, _text(seen[path]), _text(wanted), "was before")
        for path, wanted in kept.items()
        if wanted != seen[path]
    ]
    return {
        "host": host.name,
        "to": to,
        "restored": [change.path for change in changes],
        "changed": bool(changes or waiting),
        "number": store.current(),
        "diff": diff(changes),
        "findings": as_json(damaged),
    }


def _text(seen: Look | None) -> str:
    return seen.content.decode("utf-8", errors="replace") if seen else ""


def _change(store: Store, on: Machine, plan: Plan, deadline: float, seconds: int) -> list[Finding]:
    """Write what is planned; on an error everything is as it was."""
    host = store.host
    after = {
        item.path: None if item.content is None else hashlib.sha256(item.content).hexdigest()
        for item in plan.changes
    }
    number = store.keep([item.path for item in plan.changes], after)
    store.set_pending(number, deadline)
    if problem := on.arm(seconds, store.folder):
        store.clear_pending()
        text = f"{host.name}: the timer that puts things back cannot be set ({problem}); nothing was changed."
        return [error("fabric.revert.unarmed", text, "systemctl status; systemd must run on this host.")]
    for item in plan.changes:
        _write(host, item)
    if problem := on.generate():
        _undo_pending(store)
        on.generate()
    elif problem := on.apply(plan.links):
        _undo_pending(store)
        _bring(on, [])
    if not problem:
        return []
    on.disarm()
    return [_netplan(host, problem, "everything was put back as it was")]


def _write(host: Host, change: Change) -> None:
    path = host.path(change.path)
    if change.content is None:
        disk.remove(path)
        return
    before = disk.look(path)
    owner = (os.geteuid(), os.getegid())
    mode = change.mode or (0o600 if before is None else before.mode)
    if change.mode is None and before is not None:
        owner = (before.uid, before.gid)
    disk.write(path, Look(change.content, mode, *owner, 0), keep_time=False)


def _bring(on: Machine, gone: Sequence[str]) -> str | None:
    return on.generate() or on.apply(gone)


def _undo_pending(store: Store) -> bool:
    """Put back what waits to be proved; returns whether there was something."""
    waiting = store.pending()
    if waiting is None:
        return False
    kept, damaged = _kept(store, store.copy(waiting["number"]).entries)
    for path, wanted in kept.items():
        _put_back(store.host, path, wanted)
    if damaged:
        raise UnusableError(damaged)
    store.clear_pending()
    store.forget(waiting["number"])
    return True


def _kept(store: Store, entries: Sequence[Entry]) -> tuple[dict[str, Look | None], list[Finding]]:
    """What each file was, None for one that was not there; and a finding for each copy that is damaged."""
    kept: dict[str, Look | None] = {}
    damaged: list[Finding] = []
    for entry in entries:
        try:
            kept[entry.path] = store.content(entry)
        except UnusableError as problem:
            damaged += problem.findings
    return kept, damaged


def _wanted(store: Store, to: str, waiting: dict[str, Any] | None) -> tuple[int, list[Entry]]:
    """The state to go back to, and every file as it was then."""
    numbers: list[int] = []
    current = store.current()
    number = current
    if to == "original":
        # Each file as it was when Tandem came upon it first, even if that was in a later change.
        numbers = store.numbers() if current or waiting else []
        number = 0
    elif to == "previous" and current:
        numbers, number = [current], store.copy(current).before
    if waiting is not None and waiting["number"] not in numbers:
        numbers.append(waiting["number"])
    found: dict[str, Entry] = {}
    for each in numbers:
        for entry in store.copy(each).entries:
            found.setdefault(entry.path, entry)
    return number, list(found.values())


def _put_back(host: Host, file: str, wanted: Look | None) -> bool:
    """Make one file what it was, which is checked; returns whether it was something else."""
    path = host.path(file)
    seen = disk.look(path)
    disk.tidy(path)
    if wanted == seen:
        return False
    if wanted is None:
        disk.remove(path)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        disk.write(path, wanted)
    if disk.look(path) != wanted:
        raise OSError(5, "is not what was written to it", str(path))
    return True


def _edited(store: Store, entries: Sequence[Entry]) -> list[Finding]:
    """Files that somebody has changed since: they are copied before they are replaced."""
    after: dict[str, set[str | None]] = {}
    for number in store.numbers():
        copy = store.copy(number)
        for entry in copy.entries:
            known = after.setdefault(entry.path, set())
            known |= {copy.after.get(entry.path), entry.kept["sha256"] if entry.kept else None}
    edited = []
    for entry in entries:
        seen = disk.look(store.host.path(entry.path))
        if seen is not None and seen.sha256 not in after[entry.path]:
            edited.append(entry.path)
    if not edited:
        return []
    number = store.keep(edited, {})
    text = f"{store.host.name}: {', '.join(edited)} had been changed by hand since Tandem wrote it."
    return [
        warning("fabric.backup.edited", text, f"The changed file is in {store.folder}/backups/{number:04d}.")
    ]


def _netplan(host: Host, problem: str, outcome: str) -> Finding:
    text = f"{host.name}: {problem}; {outcome}."
    fix = "`sudo netplan generate`, then `sudo netplan apply`, show it; mend it and run site.yml again."
    return error("fabric.netplan.failed", text, fix)
