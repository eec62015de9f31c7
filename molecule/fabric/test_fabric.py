"""The fabric of two virtual machines after the playbooks: what was found, real RDMA, a reboot, and faults.

The cases stand in the order of the pair's life: later ones go on with what earlier ones left.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
TOOL = "/opt/tandem/libexec/tandem-host fabric {} --config /etc/tandem/cluster.json"
UNIT = "tandem-fabric.service"
ENV_FILE = "/run/tandem/fabric.env"
BOOT = "cat /proc/sys/kernel/random/boot_id"
INVENTORY = PROJECT / "molecule/fabric/inventory"


def both(ask: Callable[[str], Any]) -> dict[str, Any]:
    """What both hosts answer, asked at the same time."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(HOSTS, pool.map(ask, HOSTS), strict=True))


def fabric(host: str, command: str) -> dict[str, Any]:
    """The document of ``tandem-host fabric`` with this command."""
    document: dict[str, Any] = json.loads(on(host, TOOL.format(command)))
    return document


def table(host: str) -> list[tuple[str, int, str, str]]:
    """Every GID that an HCA of the host has: HCA, index, GID, type."""
    # An empty entry has no type to read, and there are a thousand of them.
    look = """cd /sys/class/infiniband; grep -Hv '^[0:]*$' */ports/1/gids/* | while IFS=: read -r file gid
        do echo "$(cat "${file%/gids/*}/gid_attrs/types/${file##*/}"):${file%%/*}:${file##*/}:$gid"; done"""
    rows = [line.split(":", 3) for line in on(host, look).splitlines()]
    return [(hca, int(index), gid, kind) for kind, hca, index, gid in rows]


def mapped(address: str) -> str:
    """An IPv4 address as the kernel writes its GID."""
    return ipaddress.IPv6Address(f"::ffff:{address}").exploded


def right_indexes(host: str) -> list[int]:
    """For each rail the index of the one RoCE v2 entry that is its address, read from the kernel's table."""
    entries = table(host)
    found = []
    for hca, address in zip(HCAS[host], ADDRESSES[host], strict=True):
        wanted = (hca, mapped(address), "RoCE v2")
        [index] = [index for own, index, gid, kind in entries if (own, gid, kind) == wanted]
        found.append(index)
    return found


def each_host_resolves_its_own_rails() -> None:
    """Netdevs, HCAs, addresses and GIDs of each host are its own, the GIDs as the kernel's table has them."""
    documents = both(lambda host: fabric(host, "resolve"))
    indexes = both(right_indexes)
    for host, document in documents.items():
        assert document["findings"] == []
        assert [rail["netdev"] for rail in document["rails"]] == list(NETDEVS[host])
        assert [rail["hca"] for rail in document["rails"]] == list(HCAS[host])
        assert [rail["address"].partition("/")[0] for rail in document["rails"]] == list(ADDRESSES[host])
        assert [rail["gid_index"] for rail in document["rails"]] == indexes[host]
        assert {(rail["mtu"], rail["state"]) for rail in document["rails"]} == {(9000, "ACTIVE")}
        assert document["env"]["NCCL_IB_HCA"] == ",".join(HCAS[host])
        assert "NCCL_IB_GID_INDEX" not in document["env"]


def rdma_passes() -> None:
    """Writes by ``ib_write_bw`` and a ping by ``rping`` on both rails, as resolved on each host now."""
    rails = both(lambda host: fabric(host, "resolve")["rails"])
    for rail, address in enumerate(ADDRESSES["spark-b"]):
        words = {host: f"-d {rails[host][rail]['hca']} -x {rails[host][rail]['gid_index']}" for host in HOSTS}
        write = "timeout 60 ib_write_bw --report_gbits -F -s 65536 -n 100"
        on(
            "spark-b",
            f"systemd-run -q --collect --unit=bandwidth{rail} {write} {words['spark-b']}\n"
            f"systemd-run -q --collect --unit=ping{rail} timeout 60 rping -s -a {address} -C 3\n"
            "for i in $(seq 40); do ss -Hltn sport = :18515 | grep -q . && break; sleep 0.25; done",
        )
        said = on(
            "spark-a",
            f"{write} {words['spark-a']} {address}\n"
            f"timeout 30 rping -c -v -a {address} -I {ADDRESSES['spark-a'][rail]} -C 3",
        )
        [measured] = [line.split() for line in said.splitlines() if line.strip().startswith("65536")]
        assert float(measured[3]) > 0, said
        assert said.count("ping data: rdma-ping-") == 3, said


def test_the_cage_with_the_cable_was_found_on_each_host() -> None:
    files = both(lambda host: on(host, "cat /etc/netplan/60-tandem-fabric.yaml /etc/tandem/cluster.json"))
    for host, text in files.items():
        named = {name for pair in NETDEVS.values() for name in pair if f"{name}:" in text}
        assert named == set(NETDEVS[host]), text
        assert '"netdev": null' in text, "the inventory names no interface"


def test_each_host_has_its_own_hcas_and_gids() -> None:
    each_host_resolves_its_own_rails()


def test_discover_sees_cages_the_cable_hcas_and_the_peer() -> None:
    documents = both(lambda host: fabric(host, "discover"))
    for host, document in documents.items():
        assert {(cage["cage"], *cage["netdevs"]): cage["cabled"] for cage in document["cages"]} == {
            (CAGES[other], *NETDEVS[other]): other == host for other in HOSTS
        }
        netdevs = {item["netdev"]: item for item in document["netdevs"]}
        for other in HOSTS:
            for netdev, hca in zip(NETDEVS[other], HCAS[other], strict=True):
                assert [item["hca"] for item in netdevs[netdev]["hcas"]] == [hca]
        reached = [
            (peer["peer"], peer["reached"]) for name in NETDEVS[host] for peer in netdevs[name]["reaches"]
        ]
        assert reached == [(HOSTS[host == "spark-a"], True)] * 2


def test_rdma_passes_on_both_rails() -> None:
    rdma_passes()


def proved(host: str) -> dict[str, str]:
    """What systemd says of the unit that proves the rails, and whether there is an environment for a rank."""
    properties = "-p ActiveState -p Result -p ExecMainStatus -p ExecMainStartTimestampMonotonic"
    look = f"systemctl show {UNIT} {properties}; [ ! -e {ENV_FILE} ] || echo Environment=there"
    return dict(line.split("=", 1) for line in on(host, look).splitlines())


def test_both_hosts_reboot_and_everything_comes_back_by_itself(tmp_path: Path) -> None:
    before = both(lambda host: on(host, BOOT))
    lab("reboot", *HOSTS)
    after = both(lambda host: on(host, BOOT))
    for host, state in both(proved).items():
        assert before[host] != after[host]
        assert (state["Result"], state["ExecMainStatus"]) == ("success", "0"), state
        assert int(state["ExecMainStartTimestampMonotonic"]) > 0, "it ran at this boot"
        # /run is new with each boot, so what is there is of this one.
        assert state["Environment"] == "there"
    each_host_resolves_its_own_rails()
    rdma_passes()
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
        # networkd takes the address of a link that loses its carrier.
        (f"tandem lab unplug {RAIL}", f"tandem lab plug {RAIL}", "fabric.address.missing", "ip addr add"),
    ],
    ids=["MTU of one side", "an address removed", "an HCA removed", "the cable pulled"],
)
@pytest.mark.usefixtures("impatient")
def test_a_fault_fails_closed_and_is_told(harm: str, mend: str, code: str, fix: str) -> None:
    happens(harm)
    said = on(
        "spark-b",
        f"if systemctl start {UNIT}; then echo it started; exit 1; fi; [ ! -e {ENV_FILE} ]\n"
        f"journalctl -o cat _SYSTEMD_INVOCATION_ID=$(systemctl show -p InvocationID --value {UNIT})",
    )
    document = json.loads(said[said.index("{") : said.rindex("}") + 1])
    finding = next(item for item in document["findings"] if item["level"] == "error")
    assert finding["code"] == code, said
    assert finding["message"].startswith("spark-b: ")
    assert fix in finding["fix"]
    happens(mend)
    on(
        "spark-b",
        f"for i in $(seq 20); do systemctl start {UNIT} && break; systemctl reset-failed {UNIT}; sleep 0.5; "
        f"done; [ -e {ENV_FILE} ]",
    )


def happens(event: str) -> None:
    """Something done to the worker, or to the cable."""
    if event.startswith("tandem lab "):
        lab(*event.split()[2:])
    else:
        on("spark-b", event)
