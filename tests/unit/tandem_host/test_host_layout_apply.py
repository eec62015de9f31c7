"""``fabric apply``, ``confirm`` and ``restore`` on a tree: byte for byte back, after a kill too."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hosttree import Config, Run, Tree, codes
from layouts import LAYOUTS, NP0, OWN, Layout, furnish, named, put, snapshot

from tandem_host.fabric.layout import transaction
from tandem_host.fabric.layout.machine import Copied
from tandem_host.fabric.layout.plan import Wish
from tandem_host.host import Host

STATE = Path("/var/lib/tandem/fabric")
Call = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def fabric(run: Run, tree: Tree, config: Config) -> Call:
    """``fabric WORD`` on the tree; ``apply`` for rank 0 of the described cluster."""

    def call(word: str, *more: object, netdevs: tuple[str, str] = NP0) -> tuple[int, dict[str, Any]]:
        wish = ("--config", config(named(*netdevs)), "--rank", 0) if word in ("plan", "apply") else ()
        return run("fabric", word, "--root", tree.root, *wish, *more)

    return call


@pytest.mark.parametrize("letter", LAYOUTS)
def test_there_and_back(fabric: Call, tree: Tree, letter: str) -> None:
    layout = LAYOUTS[letter]
    furnish(tree, layout)
    before = snapshot(tree)
    status, answer = fabric("apply", netdevs=layout.rails)
    assert (status, answer["applied"]) == (0, True)
    for path in layout.gone:
        assert not (tree.root / path[1:]).exists()
    for path in layout.rewritten:
        assert (tree.root / path[1:]).stat().st_mode & 0o777 == 0o600
    assert (tree.root / OWN[1:]).read_text() == answer["file"]["text"]
    assert (tree.root / OWN[1:]).stat().st_mode & 0o777 == 0o600
    assert fabric("confirm")[1]["changed"]
    assert not fabric("plan", netdevs=layout.rails)[1]["replaces"], "a second run finds nothing to write"
    assert fabric("restore", "--to", "original")[0] == 0
    assert snapshot(tree) == before
    assert fabric("restore", "--to", "original")[1]["changed"] is False


def test_what_nobody_confirms_is_put_back(fabric: Call, tree: Tree) -> None:
    furnish(tree, LAYOUTS["f"])
    before = snapshot(tree)
    fabric("apply")
    assert snapshot(tree) != before
    status, answer = fabric("restore", "--pending")
    assert (status, answer["changed"], snapshot(tree)) == (0, True, before)
    assert fabric("restore", "--pending", "--boot")[1]["changed"] is False
    assert fabric("confirm")[1]["changed"] is False


def test_what_was_undone_is_nobodys_original(fabric: Call, tree: Tree) -> None:
    """A file that was mended after a change that came to nothing comes back mended."""
    furnish(tree, LAYOUTS["b"])
    fabric("apply")
    fabric("restore", "--pending")
    path = (*LAYOUTS["b"].gone, *LAYOUTS["b"].rewritten)[0]
    file = tree.root / path[1:]
    file.write_text(file.read_text() + "# mended\n")
    mended = snapshot(tree)
    fabric("apply")
    fabric("confirm")
    fabric("restore", "--to", "original")
    assert snapshot(tree) == mended


def test_what_would_come_back_is_said_and_left_alone(fabric: Call, tree: Tree) -> None:
    layout = LAYOUTS["b"]
    furnish(tree, layout)
    fabric("apply")
    fabric("confirm")
    after = snapshot(tree)
    status, answer = fabric("restore", "--to", "original", "--check")
    assert (status, answer["changed"]) == (0, True)
    assert {OWN, *layout.gone, *layout.rewritten} == set(answer["restored"])
    assert f"--- {OWN}" in answer["diff"]
    assert snapshot(tree) == after
    fabric("restore", "--to", "original")
    assert fabric("restore", "--to", "original", "--check")[1]["changed"] is False


def test_what_was_confirmed_stays(fabric: Call, tree: Tree) -> None:
    furnish(tree, LAYOUTS["a"])
    fabric("apply")
    fabric("confirm")
    after = snapshot(tree)
    assert fabric("restore", "--pending")[1]["changed"] is False
    assert snapshot(tree) == after


def test_one_step_back_and_the_original(fabric: Call, tree: Tree) -> None:
    furnish(tree, LAYOUTS["b"])
    states = [snapshot(tree)]
    for renderer in ("networkd", "NetworkManager"):
        fabric("apply", "--renderer", renderer)
        fabric("confirm")
        states.append(snapshot(tree))
    fabric("restore", "--to", "previous")
    assert snapshot(tree) == states[1]
    fabric("restore", "--to", "previous")
    assert snapshot(tree) == states[0]
    status, answer = fabric("restore", "--to", "previous")
    assert (status, codes(answer, "info")) == (0, ["fabric.backup.none"])
    fabric("apply")
    fabric("confirm")
    fabric("restore", "--to", "original")
    assert snapshot(tree) == states[0]


def test_a_change_by_hand_is_kept_aside_when_the_original_comes_back(fabric: Call, tree: Tree) -> None:
    furnish(tree, LAYOUTS["b"])
    before = snapshot(tree)
    fabric("apply")
    fabric("confirm")
    put(tree, OWN, "network: {version: 2}  # mine\n")
    status, answer = fabric("restore", "--to", "original")
    assert (status, codes(answer, "warning")) == (0, ["fabric.backup.edited"])
    assert snapshot(tree) == before
    kept = sorted((tree.root / "var/lib/tandem/fabric/backups/0002").glob("0*"))
    assert [file.read_text() for file in kept] == ["network: {version: 2}  # mine\n"]


def test_the_original_is_never_overwritten(fabric: Call, tree: Tree) -> None:
    furnish(tree, LAYOUTS["b"])
    fabric("apply")
    fabric("confirm")
    original = tree.root / "var/lib/tandem/fabric/backups/0001"
    before = {file.name: file.read_bytes() for file in original.iterdir()}
    for _ in range(2):
        fabric("restore", "--to", "original")
        fabric("apply")
        fabric("confirm")
    assert {file.name: file.read_bytes() for file in original.iterdir()} == before


def test_only_root_may_read_the_copies(fabric: Call, tree: Tree) -> None:
    furnish(tree, LAYOUTS["b"])
    fabric("apply")
    folder = tree.root / "var/lib/tandem/fabric"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.rglob("*") if file.is_file()} == {0o600}


def spoil_a_copy(tree: Tree) -> None:
    """One of several copies is not what it was."""
    copies = sorted((tree.root / "var/lib/tandem/fabric/backups/0001").glob("000*"))
    assert copies
    copies[0].write_text("rubbish")


@pytest.mark.parametrize("to", ["original", "previous"])
def test_with_a_damaged_copy_nothing_is_put_back(fabric: Call, tree: Tree, to: str) -> None:
    furnish(tree, LAYOUTS["b"])
    fabric("apply")
    fabric("confirm")
    after = snapshot(tree)
    spoil_a_copy(tree)
    status, answer = fabric("restore", "--to", to)
    assert (status, codes(answer)) == (1, ["fabric.backup.damaged"])
    assert snapshot(tree) == after


def test_what_is_on_trial_goes_back_as_far_as_it_can(fabric: Call, tree: Tree) -> None:
    """The new file may be what cut the host off."""
    furnish(tree, LAYOUTS["b"])
    fabric("apply")
    spoil_a_copy(tree)
    status, answer = fabric("restore", "--pending")
    assert (status, codes(answer)) == (1, ["fabric.backup.damaged"])
    assert OWN in answer["restored"]
    assert not (tree.root / OWN.lstrip("/")).exists()
    assert (tree.root / "var/lib/tandem/fabric/pending.json").exists()


def test_a_plan_that_stops_changes_nothing(fabric: Call, tree: Tree) -> None:
    furnish(tree, LAYOUTS["b"])
    put(tree, "/etc/network/interfaces", "iface enp1s0f0np0 inet dhcp\n")
    before = snapshot(tree)
    status, answer = fabric("apply")
    assert (status, answer["applied"], codes(answer)) == (1, False, ["fabric.layout.ifupdown"])
    assert snapshot(tree) == before
    assert not (tree.root / "var/lib/tandem/fabric/backups").exists()


class Refusing(Copied):
    """A host on which one program fails."""

    def __init__(self, what: str) -> None:
        object.__setattr__(self, "what", what)

    def _answer(self, what: str) -> str | None:
        return "no such thing" if what == self.what else None  # type: ignore[attr-defined]

    def generate(self) -> str | None:
        return self._answer("generate")

    def apply(self, *_: Any) -> str | None:
        return self._answer("apply")

    def arm(self, *_: Any) -> str | None:
        return self._answer("arm")


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("generate", "fabric.netplan.failed"),
        ("apply", "fabric.netplan.failed"),
        ("arm", "fabric.revert.unarmed"),
    ],
)
def test_what_fails_leaves_everything_as_it_was(
    fabric: Call, tree: Tree, monkeypatch: pytest.MonkeyPatch, what: str, code: str
) -> None:
    furnish(tree, LAYOUTS["b"])
    before = snapshot(tree)
    monkeypatch.setattr(transaction.machine, "of", lambda _: Refusing(what))
    status, answer = fabric("apply")
    assert (status, answer["applied"], codes(answer)) == (1, False, [code])
    assert snapshot(tree) == before
    assert not (tree.root / "var/lib/tandem/fabric/pending.json").exists()


CALLS = ("open", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "utime")


def killed_at(number: int, action: Callable[[], Any]) -> bool:
    """Do this in a process that is killed before its ``number``th call; whether it came there."""
    child = os.fork()
    if child == 0:
        left = [number]

        def counted(original: Any) -> Any:
            def call(*arguments: Any, **named: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return original(*arguments, **named)

            return call

        for name in CALLS:
            setattr(os, name, counted(getattr(os, name)))
        try:
            action()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("letter", ["c", "f"])
def test_a_kill_at_any_moment_of_apply(tree: Tree, config: Config, letter: str) -> None:
    """Whatever was reached, putting back gives the old bytes, and the next run the new ones."""
    layout = LAYOUTS[letter]
    host, wish = prepared(tree, config, layout)
    before = snapshot(tree)
    moments = 0
    while killed_at(moments, lambda: transaction.apply(host, wish, STATE, 60)):
        transaction.restore(host, STATE, "pending")
        assert snapshot(tree) == before, moments
        moments += 1
    assert moments > 40
    transaction.restore(host, STATE, "pending")
    assert snapshot(tree) == before


def test_a_kill_at_any_moment_and_then_another_run(tree: Tree, config: Config) -> None:
    host, wish = prepared(tree, config, LAYOUTS["f"])
    before = snapshot(tree)
    moments = 0
    while killed_at(moments, lambda: transaction.apply(host, wish, STATE, 60)):
        assert transaction.apply(host, wish, STATE, 60)["applied"], moments
        assert (tree.root / OWN[1:]).exists()
        transaction.restore(host, STATE, "pending")
        assert snapshot(tree) == before, moments
        moments += 5
    assert moments > 40


@pytest.mark.parametrize("to", ["pending", "original", "previous"])
def test_a_kill_at_any_moment_of_restore(tree: Tree, config: Config, to: str) -> None:
    host, wish = prepared(tree, config, LAYOUTS["f"])
    before = snapshot(tree)
    moments, killed = 0, True
    while killed:
        assert transaction.apply(host, wish, STATE, 60)["applied"]
        if to != "pending":
            transaction.confirm(host, STATE)
        killed = killed_at(moments, lambda: transaction.restore(host, STATE, to))
        transaction.restore(host, STATE, to)
        assert snapshot(tree) == before, moments
        moments += 1
    assert moments > 20


def prepared(tree: Tree, config: Config, layout: Layout) -> tuple[Host, Wish]:
    furnish(tree, layout)
    return Host(tree.root), Wish(config(named(*layout.rails)), 0, OWN, "")
