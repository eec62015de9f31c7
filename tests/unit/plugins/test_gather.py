"""Reading a host: texts as the tools print them, and the answer."""

from __future__ import annotations

from pathlib import Path

from modules import tandem_gather as gather


def test_os_release() -> None:
    assert gather.os_release('NAME="Ubuntu"\nID=ubuntu\nVERSION_ID="24.04"\n') == {
        "id": "ubuntu",
        "version": "24.04",
    }


def test_os_release_that_says_nothing() -> None:
    assert gather.os_release("") == {"id": "", "version": ""}


def test_meminfo() -> None:
    text = "MemTotal:  127600000 kB\nMemFree:        1000 kB\nMemAvailable:   2000 kB\nHugePages_Total:  0\n"
    assert gather.meminfo(text) == {"MemTotal": 127600000, "MemFree": 1000, "MemAvailable": 2000}


def test_free_space_of_a_directory_that_is_not_there_yet(tmp_path: Path) -> None:
    found = gather.free_bytes(str(tmp_path / "a" / "b"))
    assert found["measured_at"] == str(tmp_path)
    assert found["free"] > 0


def test_listeners() -> None:
    text = (
        'LISTEN 0 2048 0.0.0.0:8888 0.0.0.0:* users:(("python",pid=41,fd=3),("python",pid=40,fd=3))\n'
        'LISTEN 0 128 [::]:22 [::]:* users:(("sshd",pid=9,fd=4))\n'
        "LISTEN 0 5 127.0.0.1:631 0.0.0.0:*\n"
    )
    assert gather.listeners(text) == {8888: [41, 40], 22: [9], 631: []}


def test_interfaces_keep_global_addresses_only() -> None:
    text = (
        '[{"ifname":"enp1s0f0np0","mtu":9000,"operstate":"UP","addr_info":['
        '{"local":"192.168.200.1","prefixlen":24,"scope":"global"},'
        '{"local":"fe80::1","prefixlen":64,"scope":"link"}]}]'
    )
    assert gather.interfaces(text) == {
        "enp1s0f0np0": {"mtu": 9000, "state": "UP", "addresses": ["192.168.200.1/24"]}
    }


def test_fingerprints_of_host_keys_are_those_of_ssh() -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl host"
    assert gather.fingerprints([key, "", "ssh-rsa not*base64"]) == [
        "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
    ]
