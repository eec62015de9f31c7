from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

from tandem.lab import client
from tandem.lab.client import Keys, Owner
from tandem.lab.nspawn import cgroup, power
from tandem.lab.nspawn.recipe import RECIPE
from tandem.lab.spec import Lab

LAB = Lab("demo", "10.231.7")
HYBRID = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime shared:9 - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_the_hierarchies_that_systemd_uses_are_found() -> None:
    assert cgroup.hierarchies(HYBRID) == [Path("/sys/fs/cgroup/systemd"), Path("/sys/fs/cgroup/unified")]
    assert cgroup.hierarchies(UNIFIED) == [Path("/sys/fs/cgroup")]


def test_the_power_supply_is_a_shell_script_that_joins_its_groups_first() -> None:
    text = power.script(LAB.hosts[0], [Path("/sys/fs/cgroup/g")])
    assert subprocess.run(["sh", "-n"], input=text, text=True, check=False).returncode == 0
    join, boot = text.index("echo $$ >/sys/fs/cgroup/g/cgroup.procs"), text.index("systemd-nspawn")
    assert join < boot
    assert "--network-namespace-path=/run/netns/tandem-demo-spark-a" in text


def test_ssh_asks_its_configuration_for_names_and_addresses(tmp_path: Path) -> None:
    config = tmp_path / "ssh_config"
    config.write_text(client.ssh_config(LAB, tmp_path), encoding="utf-8")
    for name in ("spark-b", "10.231.7.12"):
        told = subprocess.run(
            ["ssh", "-F", str(config), "-G", name], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert "hostname 10.231.7.12" in told
        assert "user spark" in told
        assert f"identityfile {tmp_path}/id_ed25519" in told
        assert "stricthostkeychecking true" in told


def test_the_persons_files_are_theirs_and_go_again(tmp_path: Path) -> None:
    owner = Owner(os.getuid(), os.getgid(), tmp_path / ".tandem" / "lab" / "demo")
    keys = Keys("private\n", "public\n", {"spark-a": "", "spark-b": ""}, {"spark-a": "a\n", "spark-b": "b\n"})
    client.write(LAB, keys, owner)
    assert stat.S_IMODE((owner.directory / "id_ed25519").stat().st_mode) == 0o600
    assert (owner.directory / "known_hosts").read_text(encoding="utf-8") == "spark-a a\nspark-b b\n"
    client.remove(owner)
    assert list(tmp_path.iterdir()) == []


def test_another_labs_files_stay(tmp_path: Path) -> None:
    other = tmp_path / ".tandem" / "lab" / "molecule" / "ssh_config"
    other.parent.mkdir(parents=True)
    other.touch()
    client.remove(Owner(os.getuid(), os.getgid(), tmp_path / ".tandem" / "lab" / "demo"))
    assert other.exists()


def test_another_recipe_is_another_image() -> None:
    assert replace(RECIPE, packages=(*RECIPE.packages, "jq")).path() != RECIPE.path()


def test_keys_are_new_each_time() -> None:
    one, two = client.make_keys(LAB), client.make_keys(LAB)
    assert one.client_public.startswith("ssh-ed25519 ")
    assert one.client_private != two.client_private
    assert one.host_private["spark-a"] != one.host_private["spark-b"]
