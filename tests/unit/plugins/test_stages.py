"""The table of stages."""

from __future__ import annotations

from types import SimpleNamespace

from callback import tandem_stages as stages


def test_the_last_line_is_the_sum() -> None:
    lines = stages.table([stages.Stage("Hosts", 1.5, 4, 1, 0), stages.Stage("Fabric", 2.0, 6, 0, 1)])
    assert lines[-1].split() == ["all", "3.5", "10", "1", "1"]
    assert len({len(line) for line in lines}) == 1


def test_plays_of_one_name_are_one_stage() -> None:
    callback = stages.CallbackModule()
    play = SimpleNamespace(get_name=lambda: "Hosts")
    result = SimpleNamespace(_result={"changed": True})
    for _ in range(2):
        callback.v2_playbook_on_play_start(play)
        callback.v2_runner_on_ok(result)
    assert list(callback._stages) == ["Hosts"]
    assert (callback._stages["Hosts"].ran, callback._stages["Hosts"].changed) == (2, 2)
