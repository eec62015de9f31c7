"""A whole measurement from a tree with recorded outputs: figures, class, findings, baseline, result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hosttree import TWINS, Config, Run, Tree, codes, ipv4_gid, message, v1_v2_pair

BENCH = "tandem-fixture/bench"
BASELINE = "var/lib/tandem/state/fabric-baseline.json"
RESULT = "/run/tandem/fabric-bench.json"
HEALTHY = {"write": 111.7, "read": 108.9}


def table(gbps: float) -> str:
    heading = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
    return f"RDMA Test\n{heading}\n 65536      1278720          0.00               {gbps}   \t\t   0.2\n"


def latency(microseconds: float) -> str:
    heading = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
    return f"{heading}\n 8       1000          1.30           9.99      {microseconds}   \t       1.60"


def iperf(gbps: float) -> str:
    return json.dumps({"end": {"sum_received": {"bits_per_second": gbps * 1e9}}})


class Recorded:
    """A pair of healthy Sparks as spark-a's tree holds it."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        tree.write("proc/sys/kernel/random/boot_id", "boot-a")
        for rail, (netdev, hca) in enumerate(TWINS.items()):
            tree.interface(netdev, f"10.0.{rail}.1/24")
            tree.hca(hca, netdev, v1_v2_pair(2, ipv4_gid(f"10.0.{rail}.1")))
            (tree.root / f"sys/class/infiniband/{hca}/device/net/{netdev}").mkdir(parents=True)
            self.device(netdev)
            tree.write(f"{BENCH}/latency-out-{rail}-{rail}.txt", latency(1.47))
            for way in ("out", "in"):
                for test, gbps in HEALTHY.items():
                    self.alone(test, way, rail, gbps)
                    self.both(test, way, rail, 96.0)
        self.peer()

    def device(self, netdev: str, speed: int = 200000, width: int = 4, iommu: str = "identity") -> None:
        base = f"sys/class/net/{netdev}"
        self.tree.write(f"{base}/speed", str(speed))
        self.tree.write(f"{base}/device/current_link_width", str(width))
        self.tree.write(f"{base}/device/iommu_group/type", iommu)

    def peer(self, **changes: Any) -> None:
        rail = {"mtu": 9000, "speed": 200000, "pcie": 4, "iommu": "identity"}
        rails = [{"netdev": netdev, "hca": hca, **rail, **changes} for netdev, hca in TWINS.items()]
        facts = {"host": "spark-b", "boot_id": "boot-b", "tools": [], "rails": rails}
        self.tree.write(f"{BENCH}/peer.json", json.dumps(facts))

    def alone(self, test: str, way: str, rail: int, gbps: float) -> None:
        self.tree.write(f"{BENCH}/{test}-{way}-{rail}-{rail}.txt", table(gbps))

    def both(self, test: str, way: str, rail: int, gbps: float) -> None:
        self.tree.write(f"{BENCH}/{test}-{way}-0+1-{rail}.txt", table(gbps))

    def all_together(self, gbps: float) -> None:
        for test in HEALTHY:
            for way in ("out", "in"):
                for rail in (0, 1):
                    self.both(test, way, rail, gbps)


@pytest.fixture
def recorded(tree: Tree) -> Recorded:
    return Recorded(tree)


def bench(run: Run, tree: Tree, config: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    return run("fabric", "bench", "--root", tree.root, "--config", config, *arguments)


def figures(document: Mapping[str, Any]) -> dict[tuple[str, str, str], float]:
    return {
        (item["test"], "+".join(map(str, item["rails"])), item["from"]): item.get(
            "gbps", item.get("microseconds")
        )
        for item in document["figures"]
    }


def test_a_healthy_pair(run: Run, recorded: Recorded, config: Config) -> None:
    status, document = bench(run, recorded.tree, config())
    assert (status, document["class"], codes(document, "info")) == (0, "good", ["fabric.baseline.missing"])
    found = figures(document)
    assert len(found) == 14
    assert {item["class"] for item in document["figures"]} == {"good"}
    assert found["write", "0", "spark-a"] == 111.7
    assert found["read", "1", "spark-b"] == 108.9
    assert found["write", "0+1", "spark-b"] == 192.0
    assert found["latency", "1", "spark-a"] == 1.47
    assert [facts["host"] for facts in document["facts"]] == ["spark-a", "spark-b"]
    assert not (recorded.tree.root / BASELINE).exists()


def test_every_light_is_green_and_a_rail_is_slow(run: Run, recorded: Recorded, config: Config) -> None:
    for test in HEALTHY:
        for way in ("out", "in"):
            recorded.alone(test, way, 1, 13.2)
    status, document = bench(run, recorded.tree, config())
    assert (status, document["class"], codes(document)) == (1, "degraded", ["fabric.bench.degraded"])
    text = message(document, "fabric.bench.degraded")
    assert text.startswith("spark-a: rail 1, enP2p1s0f0np0 (roceP2p1s0f0): write spark-a -> spark-b 13.20")


def test_what_can_be_seen_stands_beside_it(run: Run, recorded: Recorded, config: Config) -> None:
    for test in HEALTHY:
        for way in ("out", "in"):
            recorded.alone(test, way, 1, 40.0)
    recorded.device("enP2p1s0f0np0", speed=100000, width=2)
    recorded.peer(mtu=1500)
    _, document = bench(run, recorded.tree, config())
    text = message(document, "fabric.bench.low")
    assert "Seen: spark-a enP2p1s0f0np0 has a link of 100000 Mb/s" in text
    assert "spark-a enP2p1s0f0np0 has PCIe x2" in text
    assert "spark-b enP2p1s0f0np0 has MTU 1500" in text


def test_data_that_leaves_one_host_is_slow(run: Run, recorded: Recorded, config: Config) -> None:
    """One host's IOMMU translates: reads from it 13 to 15 Gb/s, writes towards it fine."""
    for rail in (0, 1):
        recorded.alone("read", "in", rail, 14.1)
    recorded.peer(iommu="DMA-FQ")
    status, document = bench(run, recorded.tree, config())
    assert (status, document["class"], codes(document)) == (1, "degraded", ["fabric.bench.asymmetric"])
    text = message(document, "fabric.bench.asymmetric")
    assert text.startswith("spark-b: data that leaves it")
    assert "read spark-b -> spark-a 14.10" in text
    assert "the IOMMU differs: spark-a identity, spark-b DMA-FQ" in text
    assert "iommu.passthrough=0" in document["findings"][0]["fix"]


def test_both_rails_carry_what_one_does(run: Run, recorded: Recorded, config: Config) -> None:
    recorded.all_together(55.0)
    status, document = bench(run, recorded.tree, config())
    assert (status, document["class"], codes(document)) == (1, "one_rail", ["fabric.bench.one_rail"])
    assert "110.00" in message(document, "fabric.bench.one_rail")
    assert {item["class"] for item in document["figures"] if len(item["rails"]) > 1} == {"one_rail"}


def test_a_slow_message_is_a_warning(run: Run, recorded: Recorded, config: Config) -> None:
    recorded.tree.write(f"{BENCH}/latency-out-0-0.txt", latency(7.2))
    status, document = bench(run, recorded.tree, config())
    assert (status, codes(document, "warning")) == (0, ["fabric.bench.latency"])
    assert [item["class"] for item in document["figures"] if item["test"] == "latency"] == ["low", "good"]
    assert "7.20 us to spark-b" in message(document, "fabric.bench.latency")


def test_a_program_that_failed_is_no_figure(run: Run, recorded: Recorded, config: Config) -> None:
    (recorded.tree.root / f"{BENCH}/read-in-0+1-1.txt").write_text("Failed to modify QP to RTR\n")
    status, document = bench(run, recorded.tree, config())
    assert (status, codes(document)) == (1, ["fabric.bench.failed"])
    assert "read spark-b -> spark-a on rail 1 (roceP2p1s0f0)" in message(document, "fabric.bench.failed")
    assert ("read", "0+1", "spark-b") not in figures(document)


def test_a_lab_is_not_rated(run: Run, recorded: Recorded, config: Config) -> None:
    for rails, rail in (("0", 0), ("1", 1), ("0+1", 0), ("0+1", 1)):
        for way in ("out", "in"):
            recorded.tree.write(f"{BENCH}/tcp-{way}-{rails}-{rail}.txt", iperf(20))
    file = config(kind="ethernet")
    status, document = bench(run, recorded.tree, file)
    assert (status, document["class"], len(document["figures"])) == (0, "unrated", 6)
    assert "fabric.bench.unrated" in codes(document, "info")
    status, document = bench(run, recorded.tree, file, "--expect-gbps", "20")
    assert (status, document["class"]) == (0, "good")
    status, document = bench(run, recorded.tree, file, "--expect-gbps", "20.5")
    assert (status, document["class"]) == (1, "low")
    assert codes(document) == ["fabric.bench.low", "fabric.bench.low"]
    assert "20.00 Gb/s, wanted 20.5" in message(document, "fabric.bench.low")


def test_tcp_beside_verbs_is_shown_and_not_judged(run: Run, recorded: Recorded, config: Config) -> None:
    for rails, rail in (("0", 0), ("1", 1), ("0+1", 0), ("0+1", 1)):
        for way in ("out", "in"):
            recorded.tree.write(f"{BENCH}/tcp-{way}-{rails}-{rail}.txt", iperf(20))
    status, document = bench(run, recorded.tree, config(), "--tcp")
    assert (status, document["class"]) == (0, "good")
    assert figures(document)["tcp", "0+1", "spark-a"] == 40
    assert {item["class"] for item in document["figures"] if item["test"] == "tcp"} == {"unrated"}


def test_nothing_is_measured_over_rails_that_are_not_right(
    run: Run, recorded: Recorded, config: Config
) -> None:
    recorded.tree.write("sys/class/infiniband/rocep1s0f0/ports/1/state", "1: DOWN")
    status, document = bench(run, recorded.tree, config())
    assert (status, codes(document)) == (1, ["fabric.hca.down"])
    assert "figures" not in document


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"host": "spark-b", "boot_id": "b", "tools": [], "rails": []}', "[" * 2000],
)
def test_a_peer_that_was_recorded_badly(run: Run, recorded: Recorded, config: Config, text: str) -> None:
    recorded.tree.write(f"{BENCH}/peer.json", text)
    status, document = bench(run, recorded.tree, config())
    assert (status, codes(document)) == (1, ["host.fixture.invalid"])


def test_a_peer_with_another_name(run: Run, recorded: Recorded, config: Config) -> None:
    text = (recorded.tree.root / f"{BENCH}/peer.json").read_text().replace("spark-b", "spark-c")
    recorded.tree.write(f"{BENCH}/peer.json", text)
    _, document = bench(run, recorded.tree, config())
    assert "it calls itself spark-c" in message(document, "host.fixture.invalid")


def test_a_baseline_is_kept_only_when_asked_and_compared_later(
    run: Run, recorded: Recorded, config: Config
) -> None:
    file = config()
    _, document = bench(run, recorded.tree, file, "--save-baseline")
    assert document["baseline"] == {
        "file": "/" + BASELINE,
        "saved": True,
        "compared": False,
    }
    recorded.alone("write", "out", 0, 93.0)
    status, document = bench(run, recorded.tree, file)
    assert (status, codes(document, "warning")) == (0, ["fabric.bench.slower"])
    text = message(document, "fabric.bench.slower")
    assert text.startswith("spark-a: write to spark-b on rail 0 is 93.00 Gb/s, the baseline 111.70: 83%")
    assert next(item for item in document["figures"] if item["gbps"] == 93.0)["of_baseline"] == 0.833
    assert bench(run, recorded.tree, file, "--baseline-share", "0.8")[1]["findings"] == []


def test_a_slower_figure_stops_a_pair_that_is_not_good_by_itself(
    run: Run, recorded: Recorded, config: Config
) -> None:
    for rails, rail in (("0", 0), ("1", 1), ("0+1", 0), ("0+1", 1)):
        for way in ("out", "in"):
            recorded.tree.write(f"{BENCH}/tcp-{way}-{rails}-{rail}.txt", iperf(20))
    file = config(kind="ethernet")
    bench(run, recorded.tree, file, "--save-baseline")
    recorded.tree.write(f"{BENCH}/tcp-in-1-1.txt", iperf(5))
    status, document = bench(run, recorded.tree, file)
    assert (status, codes(document)) == (1, ["fabric.bench.slower"])
    status, document = bench(run, recorded.tree, file, "--save-baseline")
    assert (status, document["baseline"]["saved"], codes(document)) == (0, True, [])


def test_what_is_faulty_does_not_become_the_baseline(run: Run, recorded: Recorded, config: Config) -> None:
    recorded.all_together(55.0)
    status, document = bench(run, recorded.tree, config(), "--save-baseline")
    assert (status, document["baseline"]["saved"]) == (1, False)
    assert not (recorded.tree.root / BASELINE).exists()


FIGURE = {"test": "write", "rails": [0], "from": "spark-a", "to": "spark-b", "gbps": 100.0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"schema": 2, "figures": []}',
        '{"schema": 1, "figures": {}}',
        '{"schema": 1, "figures": [1]}',
        '{"schema": 1, "figures": [{}]}',
        *(
            json.dumps({"schema": 1, "figures": [FIGURE | change]})
            for change in (
                {"test": "speed"},
                {"test": ["write"]},
                {"rails": []},
                {"rails": ["0"]},
                {"rails": 0},
                {"gbps": 0},
                {"gbps": -1},
                {"gbps": "fast"},
                {"gbps": None},
                {"gbps": True},
                {"from": None},
            )
        ),
    ],
)
def test_a_damaged_baseline_is_told_and_stops_nothing(
    run: Run, recorded: Recorded, config: Config, text: str
) -> None:
    recorded.tree.write(BASELINE, text)
    status, document = bench(run, recorded.tree, config())
    assert (status, codes(document, "warning")) == (0, ["fabric.baseline.invalid"])
    assert BASELINE in message(document, "fabric.baseline.invalid")


def measured(run: Run, tree: Tree, config: Path, *arguments: str) -> str | None:
    call = ["fabric", "measured", "--root", tree.root, "--config", config, "--peer-boot-id", "boot-b"]
    status, document = run(*call, *arguments)
    assert status == 0
    assert document["measured"] == (document["reason"] is None)
    return document["reason"]


def test_a_result_holds_until_something_changes(run: Run, recorded: Recorded, config: Config) -> None:
    tree, file = recorded.tree, config()
    assert measured(run, tree, file) == "nothing was measured since this boot"
    bench(run, tree, file, "--result", RESULT)
    assert measured(run, tree, file) is None
    assert "something else is expected" in str(measured(run, tree, file, "--expect-gbps", "100"))
    tree.write("proc/sys/kernel/random/boot_id", "boot-c")
    assert "a host was booted" in str(measured(run, tree, file))


def test_a_result_does_not_hold_for_another_boot_of_the_peer(
    run: Run, recorded: Recorded, config: Config
) -> None:
    file = config()
    bench(run, recorded.tree, file, "--result", RESULT)
    _, document = run(
        *("fabric", "measured", "--root", recorded.tree.root, "--config", file, "--peer-boot-id", "later")
    )
    assert "a host was booted" in document["reason"]


def test_a_result_with_errors_asks_for_another(run: Run, recorded: Recorded, config: Config) -> None:
    file = config()
    recorded.all_together(55.0)
    bench(run, recorded.tree, file, "--result", RESULT)
    assert measured(run, recorded.tree, file) == "the last measurement found something wrong"


def test_a_measurement_that_breaks_off_leaves_no_result(run: Run, recorded: Recorded, config: Config) -> None:
    file = config()
    bench(run, recorded.tree, file, "--result", RESULT)
    recorded.tree.write(f"{BENCH}/peer.json", "")
    bench(run, recorded.tree, file, "--result", RESULT)
    assert measured(run, recorded.tree, file) == "nothing was measured since this boot"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1}'])
def test_a_damaged_result_asks_for_another(run: Run, recorded: Recorded, config: Config, text: str) -> None:
    recorded.tree.write(RESULT, text)
    assert measured(run, recorded.tree, config()) is not None


def test_a_tree_cannot_serve(run: Run, recorded: Recorded, config: Config) -> None:
    status, document = bench(run, recorded.tree, config(), "--serve")
    assert (status, codes(document)) == (2, ["usage.root.serve"])
