from __future__ import annotations

import io
import lzma
import struct
import subprocess
import tarfile
from itertools import pairwise
from pathlib import Path

import pytest

from tandem.lab import record
from tandem.lab.client import Keys
from tandem.lab.furnish import own_files
from tandem.lab.qemu import machine, recipe, seed
from tandem.lab.qemu.accelerator import probe_command
from tandem.lab.qemu.kernel import unpacked
from tandem.lab.qemu.nics import NICS, link_file, rail_of, without_carrier
from tandem.lab.spec import Lab, LabError, parse_cable

STRAIGHT = Lab("fabric", "10.231.10", "qemu")
CROSSED = Lab("fabric", "10.231.10", "qemu", (0, 1))
IMAGE = Path("/image")


def options(argv: list[str], name: str) -> list[str]:
    return [value for option, value in pairwise(argv) if option == name]


def test_a_cable_is_the_heads_cage_and_the_workers() -> None:
    assert parse_cable("0:1") == (0, 1)
    for text in ("", "0", "0:2", "a:b", "0:0:0", "0:1\n"):
        with pytest.raises(LabError, match="a cable cannot be"):
            parse_cable(text)


def test_a_cable_joins_both_functions_of_its_cages() -> None:
    assert STRAIGHT.rails == (("enp1s0f0np0", "enp1s0f0np0"), ("enP2p1s0f0np0", "enP2p1s0f0np0"))
    assert CROSSED.rails == (("enp1s0f0np0", "enp1s0f1np1"), ("enP2p1s0f0np0", "enP2p1s0f1np1"))


def test_a_rail_goes_by_either_hosts_name_for_it() -> None:
    assert CROSSED.rail_number("enP2p1s0f0np0") == CROSSED.rail_number("enP2p1s0f1np1") == 1
    head, worker = CROSSED.hosts
    assert rail_of(CROSSED, head, "enp1s0f1np1") is None
    assert rail_of(CROSSED, worker, "enp1s0f1np1") == 0


def test_an_empty_port_and_a_pulled_cable_have_no_carrier() -> None:
    head, worker = CROSSED.hosts
    assert without_carrier(CROSSED, head, set()) == ["enp1s0f1np1", "enP2p1s0f1np1"]
    assert without_carrier(CROSSED, worker, {1}) == ["enp1s0f0np0", "enP2p1s0f0np0", "enP2p1s0f1np1"]


def test_containers_have_one_cage_and_no_other_driver_exists() -> None:
    with pytest.raises(LabError, match="second cage"):
        Lab("demo", "10.231.7", "nspawn", (0, 1))
    with pytest.raises(LabError, match="no driver 'podman'; the drivers are nspawn, qemu"):
        Lab("demo", "10.231.7", "podman")


def test_a_link_file_names_an_interface_on_either_host() -> None:
    assert link_file(NICS[1]) == (
        "[Match]\nMACAddress=52:54:00:5a:01:01 52:54:00:5a:01:02\n\n[Link]\nName=enp1s0f0np0\n"
    )
    assert len({nic.mac(number) for nic in NICS for number in (0, 1)}) == 10


def test_a_machine_is_a_spark_with_five_interfaces_that_waits_to_be_told_to_go() -> None:
    argv = machine.command(CROSSED, CROSSED.hosts[0], IMAGE, "tcg")
    assert "-S" in argv
    assert options(argv, "-smbios") == [
        "type=1,manufacturer=NVIDIA,product=NVIDIA_DGX_Spark,serial=lab-spark-a"
    ]
    names = [
        part.removeprefix("id=")
        for device in options(argv, "-device")
        for part in device.split(",")
        if device.startswith("virtio-net") and part.startswith("id=")
    ]
    assert names == ["enP7s7", "enp1s0f0np0", "enP2p1s0f0np0", "enp1s0f1np1", "enP2p1s0f1np1"]
    assert options(argv, "-accel") == ["tcg,thread=multi,tb-size=256"]
    assert options(machine.command(CROSSED, CROSSED.hosts[0], IMAGE, "kvm"), "-accel") == ["kvm"]


def test_the_two_ends_of_a_cable_are_each_others() -> None:
    ends = {}
    for host in CROSSED.hosts:
        for backend in options(machine.command(CROSSED, host, IMAGE, "tcg"), "-netdev"):
            if backend.startswith("dgram"):
                parts = dict(part.split("=", 1) for part in backend.split(",")[1:])
                ends[host.name, parts["id"]] = (parts["local.path"], parts["remote.path"])
    assert ends.keys() == {
        ("spark-a", "to-enp1s0f0np0"),
        ("spark-a", "to-enP2p1s0f0np0"),
        ("spark-b", "to-enp1s0f1np1"),
        ("spark-b", "to-enP2p1s0f1np1"),
    }
    assert ends["spark-a", "to-enp1s0f0np0"] == ends["spark-b", "to-enp1s0f1np1"][::-1]
    assert ends["spark-a", "to-enP2p1s0f0np0"] == ends["spark-b", "to-enP2p1s0f1np1"][::-1]


def test_sockets_fit_the_kernels_108_characters() -> None:
    lab = Lab("sixteen-letters-", "10.231.10", "qemu")
    for host in lab.hosts:
        for path in (machine.monitor(host), machine.cable_end(host, 1)):
            assert len(str(path)) < 108


def test_the_probe_ends_with_its_program() -> None:
    argv = probe_command(IMAGE, Path("/initrd"), "kvm")
    assert "-no-reboot" in argv
    assert "panic=-1" in options(argv, "-append")[0]


@pytest.mark.parametrize(
    "name", [name for name, (text, _) in recipe.RECIPE.files.items() if text[:2] == "#!"]
)
def test_the_images_scripts_are_shell(name: str) -> None:
    text, mode = recipe.RECIPE.files[name]
    assert mode == 0o755
    assert subprocess.run(["sh", "-n"], input=text, text=True, check=False).returncode == 0


def test_a_kernel_is_unpacked_where_it_can_be() -> None:
    kernel = b"\x7fELF" + bytes(range(256))
    payload = lzma.compress(kernel) + len(kernel).to_bytes(4, "little")
    image = bytearray(2 * 512 + 16)
    image[0x1F1], image[0x202:0x206] = 1, b"HdrS"
    struct.pack_into("<II", image, 0x248, 16, len(payload))
    assert unpacked(bytes(image) + payload + b"after") == kernel
    other = bytes(image) + payload.replace(b"7zXZ", b"zstd")
    assert unpacked(other) == other
    assert unpacked(b"no kernel") == b"no kernel"


def test_the_ports_have_the_sparks_names_hcas_and_cages() -> None:
    text, _ = recipe.RECIPE.files["usr/local/libexec/lab-hcas"]
    assert [line.split()[1:] for line in text.splitlines() if line.startswith("port ")] == [
        ["enp1s0f0np0", "rocep1s0f0", "p0"],
        ["enP2p1s0f0np0", "roceP2p1s0f0", "p0"],
        ["enp1s0f1np1", "rocep1s0f1", "p1"],
        ["enP2p1s0f1np1", "roceP2p1s0f1", "p1"],
    ]


def test_a_hosts_files_are_appended_as_the_kernel_reads_them() -> None:
    keys = Keys("", "client\n", {"spark-a": "private\n"}, {"spark-a": "public\n"})
    content = seed.tar(own_files(STRAIGHT, STRAIGHT.hosts[0], keys))
    appended = seed.append(b"image", seed.archive("lab-seed.tar", content, 0o600))
    assert appended[:8] == b"image\0\0\0"
    start = appended.index(b"lab-seed.tar\0") + len("lab-seed.tar\0")
    # A header is 110 bytes, and what follows the name starts at a multiple of four from the archive's begin.
    assert appended[8:14] == b"070701"
    begin = 8 + (start - 8 + 3) // 4 * 4
    assert appended[begin : begin + len(content)] == content
    assert int(appended[8 + 6 + 6 * 8 : 8 + 6 + 7 * 8], 16) == len(content)
    assert b"TRAILER!!!\0" in appended[begin + len(content) :]


def test_a_hosts_files_keep_modes_and_owners() -> None:
    keys = Keys("", "client\n", {"spark-a": "private\n"}, {"spark-a": "public\n"})
    content = seed.tar(own_files(STRAIGHT, STRAIGHT.hosts[0], keys))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        found = {member.name: (member.mode, member.uid) for member in archive.getmembers()}
    assert found["etc/ssh/ssh_host_ed25519_key"] == (0o600, 0)
    assert found["home/spark/.ssh"] == (0o700, 1000)
    assert found["home/spark/.ssh/authorized_keys"] == (0o600, 1000)
    assert "etc" not in found


def test_a_record_comes_back_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "STATE", tmp_path)
    (tmp_path / "fabric").mkdir()
    written = record.Record(CROSSED, IMAGE, Path("/home/person/.tandem/lab/fabric"))
    record.write(written)
    assert record.read("fabric") == written
    assert record.names() == ["fabric"]


def test_a_record_from_before_there_were_drivers_is_of_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "STATE", tmp_path)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "lab.json").write_text('{"network": "10.231.7", "image": "/i", "client": "/c"}')
    there = record.read("demo")
    assert there
    assert there.lab == Lab("demo", "10.231.7", "nspawn")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"network": "10.231.7"}', '{"network": 7, "cable": 0}'])
def test_a_damaged_record_says_how_to_remove_the_lab(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "STATE", tmp_path)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "lab.json").write_text(text)
    with pytest.raises(LabError, match="tandem lab down --name demo"):
        record.read("demo")
