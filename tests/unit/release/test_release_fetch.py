"""``tandem release fetch``: a wheelhouse is filled from an index on this machine, each wheel by its hash."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest
from releasetree import ARM, X86, Index, Tandem, served, sha256

from tandem.release import download
from tandem.release.download import BATCH, BIG, batches, index_from_uv, pip_tags
from tandem.release.lockfile import Pin, Wheel
from tandem.release.schema import load_release
from tandem.release.wheelhouse import INDEX, PARTIAL, Wanted, exclusive, read_index

ENGINE = f"engine-2.0-cp311-cp311-{X86}.whl"
INSTALLER = f"installer-1.0-py3-none-{X86}.whl"
PLAIN = "plain-1.5-py3-none-any.whl"


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Where ``tandem("fetch")`` puts the wheels."""
    return tmp_path / "wheels"


def wheels_in(house: Path) -> list[str]:
    return sorted(path.name for path in house.glob("*.whl"))


def spoil(path: Path) -> str:
    """Other bytes of the same length; returns their hash."""
    path.write_bytes(b"x" * path.stat().st_size)
    return sha256(path)


def test_a_wheelhouse_is_filled(tandem: Tandem, index: Index, house: Path) -> None:
    result = tandem("fetch")
    assert result.exit_code == 0, result.output
    assert "3 wheels" in result.output
    assert wheels_in(house) == [ENGINE, INSTALLER, PLAIN]
    assert all(sha256(house / file) == sha256(index.wheels / file) for file in wheels_in(house))
    assert not (house / PARTIAL).exists()


def test_a_second_fetch_asks_nobody(tandem: Tandem, index: Index) -> None:
    tandem("fetch")
    index.asked.clear()
    result = tandem("fetch")
    assert (result.exit_code, index.asked) == (0, [])
    assert "all there" in result.output


def test_the_other_machine_from_this_one(tandem: Tandem, house: Path) -> None:
    assert tandem("fetch", "--machine", "aarch64").exit_code == 0
    assert wheels_in(house) == [
        f"engine-2.0-cp311-cp311-{ARM}.whl",
        f"installer-1.0-py3-none-{ARM}.whl",
        PLAIN,
    ]


def test_a_spoiled_wheel_is_fetched_again(tandem: Tandem, index: Index, house: Path) -> None:
    tandem("fetch")
    index.asked.clear()
    actual, wanted = spoil(house / ENGINE), sha256(index.wheels / ENGINE)
    result = tandem("fetch")
    assert result.exit_code == 0, result.output
    assert f"removed {ENGINE}: it has SHA-256 {actual}, the lock says {wanted}" in result.output
    assert sha256(house / ENGINE) == wanted
    assert [path for path in index.asked if path.startswith("/wheels")] == [f"/wheels/{ENGINE}"]


def test_a_spoiled_wheel_that_nobody_has(tandem: Tandem, index: Index, house: Path) -> None:
    tandem("fetch")
    actual, wanted = spoil(house / ENGINE), sha256(index.wheels / ENGINE)
    (index.wheels / ENGINE).unlink()
    result = tandem("fetch")
    assert result.exit_code == 1
    assert f"removed {ENGINE}: it has SHA-256 {actual}, the lock says {wanted}" in result.output
    assert f"pip could not get {ENGINE}" in result.output
    assert f"put the file into {house} yourself" in result.output
    assert wheels_in(house) == [INSTALLER, PLAIN]


def test_an_index_with_other_bytes(tandem: Tandem, release: Path, index: Index, house: Path) -> None:
    wanted = sha256(index.wheels / PLAIN)
    actual = spoil(index.wheels / PLAIN)
    result = tandem("fetch")
    assert result.exit_code == 1
    for text in (PLAIN, actual, wanted, "Fix: "):
        assert text in result.output
    assert PLAIN not in wheels_in(house)
    assert not (house / PARTIAL).exists()


def test_bytes_that_pip_let_pass_are_hashed_again(
    tandem: Tandem, index: Index, house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(group: list[Wanted], _platform: object, scratch: Path, _extra: object) -> None:
        for item in group:
            (scratch / item.wheel.file).write_bytes(b"anything")

    monkeypatch.setattr(download, "_pip_download", careless)
    result = tandem("fetch")
    assert result.exit_code == 1
    assert (
        "has SHA-256 ee0874170b7f6f32b8c2ac9573c428d35b575270a66b757c2c0185d2bd09718d, the lock"
        in result.output
    )
    assert "It was not kept. Fix: " in result.output
    assert wheels_in(house) == []


def test_a_download_that_breaks_off(tandem: Tandem, index: Index, house: Path) -> None:
    big = index.wheels / PLAIN
    index.cut.add(PLAIN)
    result = tandem("fetch")
    assert result.exit_code == 1
    assert PLAIN in result.output
    assert PLAIN not in wheels_in(house)
    assert not (house / PARTIAL).exists()
    index.cut.clear()
    assert tandem("fetch").exit_code == 0
    assert sha256(house / PLAIN) == sha256(big)


def test_what_came_before_a_failure_stays(
    tandem: Tandem, index: Index, house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "BIG", 1)  # each wheel is a download of its own
    index.cut.add(PLAIN)
    assert tandem("fetch").exit_code == 1
    assert wheels_in(house) == [ENGINE, INSTALLER]
    index.cut.clear()
    index.asked.clear()
    assert tandem("fetch").exit_code == 0
    assert [path for path in index.asked if path.startswith("/wheels")] == [f"/wheels/{PLAIN}"]


def test_a_fetch_that_was_killed_is_finished(tandem: Tandem, index: Index, house: Path) -> None:
    (house / PARTIAL / "tmp").mkdir(parents=True)
    (house / PARTIAL / "tmp" / ENGINE).write_bytes(b"half")
    shutil.copy(index.wheels / INSTALLER, house)  # in place, not yet in the index
    index.asked.clear()
    assert tandem("fetch").exit_code == 0
    assert wheels_in(house) == [ENGINE, INSTALLER, PLAIN]
    assert not (house / PARTIAL).exists()
    assert f"/wheels/{INSTALLER}" not in index.asked


def test_a_damaged_index_costs_hashing_and_no_download(tandem: Tandem, index: Index, house: Path) -> None:
    tandem("fetch")
    index.asked.clear()
    (house / INDEX).write_text("{")
    assert tandem("fetch").exit_code == 0
    assert index.asked == []
    assert set(read_index(house)) == {ENGINE, INSTALLER, PLAIN}


def test_wheels_that_the_lock_dropped_go_and_others_stay(tandem: Tandem, release: Path, house: Path) -> None:
    tandem("fetch")
    (house / "mine-1.0-py3-none-any.whl").write_bytes(b"by hand")
    lock = release / "x86_64.lock"
    lock.write_text(lock.read_text().partition("plain==")[0])
    result = tandem("fetch")
    assert f"removed {PLAIN}: the lock does not name it any more" in result.output
    assert wheels_in(house) == [ENGINE, INSTALLER, "mine-1.0-py3-none-any.whl"]


def test_an_index_cannot_name_files_elsewhere(tandem: Tandem, tmp_path: Path, house: Path) -> None:
    tandem("fetch")
    precious = tmp_path / "precious"
    precious.write_text("keep")
    document = json.loads((house / INDEX).read_text())
    document["files"]["../precious"] = {}
    (house / INDEX).write_text(json.dumps(document))
    assert tandem("fetch").exit_code == 0
    assert precious.read_text() == "keep"


def test_check_of_a_complete_wheelhouse(tandem: Tandem, index: Index, house: Path) -> None:
    tandem("fetch")
    index.asked.clear()
    result = tandem("fetch", "--check")
    assert (result.exit_code, index.asked) == (0, [])
    assert f"tiny linux-x86_64-cpu-py311: 3 wheels, complete in {house}" in result.output


def test_check_names_what_is_missing_and_what_changed(tandem: Tandem, index: Index, house: Path) -> None:
    tandem("fetch")
    (house / ENGINE).unlink()
    spoil(house / PLAIN)
    index.asked.clear()
    result = tandem("fetch", "--check")
    assert (result.exit_code, index.asked) == (1, [])
    assert f"2 of 3 wheels are missing or changed: {ENGINE}, {PLAIN}." in result.output
    assert f"Fix: tandem release fetch tiny --machine x86_64 --dest {house}" in result.output


def test_check_of_nothing(tandem: Tandem, house: Path) -> None:
    result = tandem("fetch", "--check")
    assert result.exit_code == 1
    assert "3 of 3 wheels are missing or changed" in result.output
    assert not house.exists()


def test_a_lock_without_a_wheel_for_the_machine(tandem: Tandem, release: Path) -> None:
    shutil.copy(release / "aarch64.lock", release / "x86_64.lock")
    result = tandem("fetch", "--check")
    assert result.exit_code == 2
    assert "x86_64.lock: engine==2.0 has no wheel for linux-x86_64-cpu-py311. Fix: " in result.output


def test_a_machine_that_the_release_does_not_know(tandem: Tandem) -> None:
    result = tandem("fetch", "--machine", "riscv64")
    assert result.exit_code == 2
    assert "tiny: no platform for 'riscv64'. Fix: choose one by name: linux-x86_64-cpu-py311" in result.output


def test_a_destination_that_is_a_file(tandem: Tandem, house: Path) -> None:
    house.write_text("")
    result = tandem("fetch")
    assert result.exit_code == 1
    assert f"release fetch: {house}: File exists. Fix: " in result.output


def test_a_second_fetch_waits_for_the_first(house: Path) -> None:
    entered = threading.Event()

    def second() -> None:
        with exclusive(house):
            entered.set()

    other = threading.Thread(target=second)
    with exclusive(house):
        other.start()
        assert not entered.wait(0.3)
    assert entered.wait(30)
    other.join()


def test_a_wheel_that_only_its_makers_index_has(
    tandem: Tandem, release: Path, index: Index, house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = release / "release.yml"
    lines = ["external:", "  - name: engine", '    version: "2.0"', "    reason: test", "    requires: []"]
    lines += ["    uv_torch_backend: cpu", "    wheels: {}", "minimum:"]
    source.write_text(source.read_text().replace("minimum:", "\n".join(lines)))
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    shutil.move(index.wheels / ENGINE, theirs)
    with served(Index(theirs)) as maker:
        monkeypatch.setattr(
            download, "torch_index", lambda _pin, backend: maker.url if backend == "cpu" else None
        )
        result = tandem("fetch")
    assert result.exit_code == 0, result.output
    assert f"/wheels/{ENGINE}" in maker.asked
    assert wheels_in(house) == [ENGINE, INSTALLER, PLAIN]


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("torch==2.13.0\n    # from https://wheels.example/whl/cpu\n", "https://wheels.example/whl/cpu"),
        ("  cause: Failed to fetch: https://wheels.example/whl/cpu/torch/", "https://wheels.example/whl/cpu"),
        ("error: unexpected argument '--torch-backend'", None),
    ],
)
def test_the_index_that_uv_knows(output: str, found: str | None) -> None:
    assert index_from_uv(output, "torch") == found


def wanted(name: str, size: int, tag: str = "any") -> Wanted:
    wheel = Wheel(f"{name}-1-py3-none-{tag}.whl", size, "a" * 64)
    return Wanted(Pin(name, "1", (wheel,)), wheel)


def test_big_and_external_wheels_are_downloads_of_their_own() -> None:
    small = [wanted(f"small-{number}", 10) for number in range(BATCH + 1)]
    big, bigger, outside = wanted("big", BIG), wanted("bigger", BIG + 1), wanted("outside", 10)
    groups = batches([big, *small, outside, bigger], {"outside"})
    assert groups == [[bigger], [big], [outside], small[:BATCH], small[BATCH:]]


def test_pip_is_asked_for_the_locked_tags(release: Path) -> None:
    platform = load_release(release).platform("aarch64")
    group = [wanted("a", 1), wanted("b", 1, "manylinux_2_17_aarch64.manylinux2014_aarch64")]
    assert pip_tags(group, platform)[-2:] == [
        "--platform=manylinux2014_aarch64",
        "--platform=manylinux_2_17_aarch64",
    ]
    assert pip_tags(group[:1], platform)[-1] == "--platform=linux_aarch64"
    assert {"--python-version=3.11", "--abi=cp311"} <= set(pip_tags(group, platform))
