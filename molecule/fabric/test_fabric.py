"""The fabric of two virtual machines after the playbooks: what was found, real RDMA, a reboot, and faults.

The cases stand in the order of the pair's life: later ones go on with what earlier ones left.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from shared.runs import PROJECT, lab, on, play

HOSTS = ("spark-a", "spark-b")
ADDRESSES = {
    "spark-a": ("192.168.200.1", "192.168.201.1"),
    "spark-b": ("192.168.200.2", "192.168.201.2"),
}
#: The cable joins cage 0 of one host to cage 1 of the other: what is right on one is wrong on the other.
NETDEVS = {"spark-a": ("enp1s0f0np0", "enP2p1s0f0np0"), "spark-b": ("enp1s0f1np1", "enP2p1s0f1np1")}
HCAS = {"spark-a": ("rocep1s0f0", "roceP2p1s0f0"), "spark-b": ("rocep1s0f1", "roceP2p1s0f1")}
CAGES = {"spark-a": "p0", "spark-b": "p1"}
INVENTORY = PROJECT / "molecule/fabric/inventory"
UNIT = "tandem-fabric.service"
ENV_FILE = "/run/tandem/fabric.env"
TOOL = "/opt/tandem/libexec/tandem-host fabric {} --config /etc/tandem/cluster.json"

#: One look at a host, since an emulated one takes seconds for each connection. A part a line of ``=``.
LOOK = f"""cat /proc/sys/kernel/random/boot_id; echo =
cat /etc/netplan/60-tandem-fabric.yaml /etc/tandem/cluster.json; echo =
{TOOL.format("resolve")}; echo =
{TOOL.format("discover")}; echo =
# Every GID; an empty entry has no type to read, and there are a thousand of them.
cd /sys/class/infiniband; grep -Hv '^[0:]*$' */ports/1/gids/* | while IFS=: read -r file gid
do echo "${{file%%/*}} ${{file##*/}} $gid $(cat "${{file%/gids/*}}/gid_attrs/types/${{file##*/}}")"; done
echo =
systemctl show {UNIT} -p Result -p ExecMainStatus -p ExecMainStartTimestampMonotonic
[ ! -e {ENV_FILE} ] || echo Environment=there"""


@dataclass(frozen=True)
class Seen:
    """A host at one moment. ``table``: each GID of its HCAs as the kernel has it (HCA, index, GID, type)."""

    boot: str
    files: str
    resolved: dict[str, Any]
    discovered: dict[str, Any]
    table: list[list[str]]
    unit: dict[str, str]

    def index(self, hca: str, address: str) -> int:
        """Where the table has the one RoCE v2 entry of an HCA that is this IPv4 address."""
        gid = ipaddress.IPv6Address(f"::ffff:{address}").exploded
        [index] = [entry[1] for entry in self.table if (entry[0], *entry[2:]) == (hca, gid, "RoCE v2")]
        return int(index)


def look(host: str) -> Seen:
    boot, files, resolved, discovered, table, unit = on(host, LOOK).split("\n=\n")
    return Seen(
        boot,
        files,
        json.loads(resolved),
        json.loads(discovered),
        [line.split(maxsplit=3) for line in table.splitlines()],
        dict(line.split("=", 1) for line in unit.splitlines()),
    )


def both() -> dict[str, Seen]:
    """Both hosts, looked at in the same moment."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(HOSTS, pool.map(look, HOSTS), strict=True))


@pytest.fixture(scope="module")
def pair() -> dict[str, Seen]:
    """The hosts as the playbooks left them."""
    return both()


def resolves_what_is_its_own(host: str, seen: Seen) -> None:
    document = seen.resolved
    assert document["findings"] == []
    assert [rail["netdev"] for rail in document["rails"]] == list(NETDEVS[host])
    assert [rail["hca"] for rail in document["rails"]] == list(HCAS[host])
    assert [rail["address"].partition("/")[0] for rail in document["rails"]] == list(ADDRESSES[host])
    wanted = [seen.index(hca, own) for hca, own in zip(HCAS[host], ADDRESSES[host], strict=True)]
    assert [rail["gid_index"] for rail in document["rails"]] == wanted
    assert {(rail["mtu"], rail["state"]) for rail in document["rails"]} == {(9000, "ACTIVE")}
    assert document["env"]["NCCL_IB_HCA"] == ",".join(HCAS[host])
    assert "NCCL_IB_GID_INDEX" not in document["env"]


def rdma_passes(seen: dict[str, Seen]) -> None:
    """Writes by ``ib_write_bw`` and pings by ``rping`` on both rails, with what each host resolved."""
    serve, ask = [], []
    for rail, (own, peer) in enumerate(zip(*ADDRESSES.values(), strict=True)):
        here, there = (
            "timeout 240 ib_write_bw --report_gbits -F -s 65536 -n 100 -p {} -d {hca} -x {gid_index}".format(
                18515 + rail, **seen[host].resolved["rails"][rail]
            )
            for host in HOSTS
        )
        serve += [
            f"systemd-run -q --collect --unit=bandwidth{rail} {there}",
            f"systemd-run -q --collect --unit=ping{rail} timeout 240 rping -s -a {peer} -C 3",
            f"for i in $(seq 99); do ss -Hltn sport = :{18515 + rail} | grep -q . && break; sleep 0.5; done",
        ]
        ask += [f"{here} {peer}", f"timeout 120 rping -c -v -a {peer} -I {own} -C 3"]
    on("spark-b", "\n".join(serve))
    said = on("spark-a", "\n".join(ask))
    measured = [line.split() for line in said.splitlines() if line.strip().startswith("65536")]
    assert [float(fields[3]) > 0 for fields in measured] == [True, True], said
    assert said.count("ping data: rdma-ping-") == 6, said


@pytest.mark.parametrize("host", HOSTS)
def test_the_cage_with_the_cable_was_found(host: str, pair: dict[str, Seen]) -> None:
    text = pair[host].files
    named = {name for names in NETDEVS.values() for name in names if f"{name}:" in text}
    assert named == set(NETDEVS[host]), text
    assert text.count('"netdev": null') == 4, "the inventory names no interface"


@pytest.mark.parametrize("host", HOSTS)
def test_each_host_has_its_own_hcas_and_gids(host: str, pair: dict[str, Seen]) -> None:
    resolves_what_is_its_own(host, pair[host])


@pytest.mark.parametrize("host", HOSTS)
def test_discover_sees_cages_the_cable_hcas_and_the_peer(host: str, pair: dict[str, Seen]) -> None:
    document = pair[host].discovered
    assert {(cage["cage"], *cage["netdevs"]): cage["cabled"] for cage in document["cages"]} == {
        (CAGES[other], *NETDEVS[other]): other == host for other in HOSTS
    }
    netdevs = {item["netdev"]: item for item in document["netdevs"]}
    for other in HOSTS:
        for netdev, hca in zip(NETDEVS[other], HCAS[other], strict=True):
            assert [item["hca"] for item in netdevs[netdev]["hcas"]] == [hca]
    reached = [(peer["peer"], peer["reached"]) for name in NETDEVS[host] for peer in netdevs[name]["reaches"]]
    assert reached == [(HOSTS[host == "spark-a"], True)] * 2


def test_rdma_passes_on_both_rails(pair: dict[str, Seen]) -> None:
    rdma_passes(pair)


def test_rails_that_carry_less_than_they_should_stop_the_run(tmp_path: Path) -> None:
    """Measured with perftest on both rails and in both directions, from both sides."""
    wanted = {"rdma_fabric_expected_gbps": 100}
    run = play("playbooks/fabric_bench.yml", tmp_path, wanted, None, "-i", str(INVENTORY))
    assert run.status != 0
    for rail in "01":
        for way in ("spark-a spark-b", "spark-b spark-a"):
            run.says(f"write {rail} {way}", f"read {rail} {way}")
    run.says("fabric.bench.low: spark-a: ")
    assert on("spark-b", "systemctl is-active tandem-bench", check=False) == "inactive"


def test_both_hosts_reboot_and_everything_comes_back_by_itself(pair: dict[str, Seen], tmp_path: Path) -> None:
    lab("reboot", *HOSTS)
    now = both()
    for host, seen in now.items():
        assert seen.boot != pair[host].boot
        assert (seen.unit["Result"], seen.unit["ExecMainStatus"]) == ("success", "0")
        assert int(seen.unit["ExecMainStartTimestampMonotonic"]) > 0, "it ran at this boot"
        # /run is new with each boot, so what is there is of this one.
        assert seen.unit["Environment"] == "there"
        resolves_what_is_its_own(host, seen)
    rdma_passes(now)
    run = play("molecule/fabric/converge.yml", tmp_path, None, None, "-i", str(INVENTORY))
    assert run.status == 0, run.text
    assert run.changed == {"spark-a": 0, "spark-b": 0}, run.text


@pytest.fixture(scope="module")
def impatient() -> Iterator[None]:
    """The unit does not wait for what may come by itself: at a boot that is right, here it is only time."""
    unit = f"/etc/systemd/system/{UNIT}"
    on(
        "spark-b",
        f"cp {unit} /run/patient; sed -i 's/--peer-wait [0-9]*/--peer-wait 1/' {unit}\n"
        "systemctl daemon-reload",
    )
    yield
    on("spark-b", f"mv /run/patient {unit}; systemctl daemon-reload")


RAIL, HCA = NETDEVS["spark-b"][0], HCAS["spark-b"][0]


@pytest.mark.parametrize(
    ("harm", "mend", "code", "fix"),
    [
        (
            f"ip link set {RAIL} mtu 1500",
            f"ip link set {RAIL} mtu 9000",
            "fabric.mtu.mismatch",
            f"ip link set {RAIL} mtu 9000",
        ),
        (
            f"ip address flush dev {RAIL}",
            f"networkctl reconfigure {RAIL}",
            "fabric.address.missing",
            "ip addr add 192.168.200.2/24 dev",
        ),
        (
            f"rdma link delete {HCA}",
            "systemctl restart lab-hcas",
            "fabric.hca.missing",
            f"rdma link add NAME type rxe netdev {RAIL}",
        ),
        (
            f"tandem lab unplug {RAIL}",
            f"tandem lab plug {RAIL}",
            "fabric.link.down",
            "Look at the cable and at the other host",
        ),
    ],
    ids=["MTU of one side", "an address removed", "an HCA removed", "the cable pulled"],
)
@pytest.mark.usefixtures("impatient")
def test_a_fault_fails_closed_and_is_told(harm: str, mend: str, code: str, fix: str) -> None:
    said = happens(
        harm,
        f"""if systemctl start {UNIT}; then echo it started; exit 1; fi; [ ! -e {ENV_FILE} ]
        journalctl -o cat _SYSTEMD_INVOCATION_ID=$(systemctl show -p InvocationID --value {UNIT})""",
    )
    document = json.loads(said[said.index("{") : said.rindex("}") + 1])
    finding = next(item for item in document["findings"] if item["level"] == "error")
    assert finding["code"] == code, said
    assert finding["message"].startswith("spark-b: ")
    assert fix in finding["fix"]
    happens(
        mend,
        f"""for i in $(seq 60); do systemctl start {UNIT} && break; systemctl reset-failed {UNIT}; sleep 0.5
        done; [ -e {ENV_FILE} ]""",
    )


def happens(event: str, then: str) -> str:
    """Something is done to the worker, or to the cable; what the worker says to a script afterwards."""
    if event.startswith("tandem lab "):
        lab(*event.split()[2:])
        return on("spark-b", then)
    return on("spark-b", f"{event}\n{then}")
