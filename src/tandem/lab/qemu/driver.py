"""The virtual machines' driver: its parts in one place, as ``tandem.lab.driver.Driver`` wants them."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from tandem.lab import image, management, supply
from tandem.lab.client import Keys
from tandem.lab.furnish import own_files
from tandem.lab.qemu import cables, machine, power, recipe, seed, snapshots
from tandem.lab.shell import run
from tandem.lab.spec import Host, Lab, LabError


class Qemu:
    """Hosts as virtual machines."""

    boot_seconds = 480

    def ensure_image(self) -> Path:
        """The folder with the disk that the hosts' disks stand on, the kernel and its initial RAM disk."""
        if platform.machine() != "x86_64":
            raise LabError(
                f"--driver qemu needs an x86_64 machine, this one is {platform.machine()}; leave the driver "
                "out for containers, which run here"
            )
        for program in (machine.PROGRAM, "qemu-img", "mke2fs"):
            if not shutil.which(program):
                raise LabError(f"{program} is not on this machine; `scripts/setup test` installs it")
        return image.ensure(recipe.RECIPE, recipe.finish)

    def make_disk(self, lab: Lab, host: Host, image: Path, keys: Keys) -> None:
        """An empty disk over the image's, and the initial RAM disk that makes it this host's."""
        host.directory.mkdir(parents=True, exist_ok=True)
        base = ("-b", str(image / recipe.DISK), "-F", "raw")
        run("qemu-img", "create", "-q", "-f", "qcow2", *base, str(machine.disk(host)))
        own = seed.archive(recipe.SEED, seed.tar(own_files(lab, host, keys)), 0o600)
        file = machine.initrd(host)
        file.touch(mode=0o600)
        file.write_bytes(seed.append((image / recipe.INITRD).read_bytes(), own))

    def remove_disk(self, host: Host) -> None:
        """Remove the host's folder: disk, initial RAM disk, sockets, console."""
        if host.directory.exists():
            shutil.rmtree(host.directory)

    def disk_mib(self, host: Host) -> int:
        """What the disk's file takes, with its snapshot."""
        disk = machine.disk(host)
        return disk.stat().st_blocks * 512 // 2**20 if disk.exists() else 0

    def is_wired(self, lab: Lab) -> bool:
        """Whether the bridge and its ports are there."""
        return management.is_there(lab)

    def wire(self, lab: Lab) -> None:
        """Make the bridge and its ports."""
        cables.wire(lab)

    def unwire(self, lab: Lab) -> None:
        """Remove whatever is there of them."""
        management.remove(lab)

    def set_cable(self, lab: Lab, rail: int, plugged: bool) -> None:
        """Give or take the carrier of the interfaces at both ends."""
        cables.set_plugged(lab, rail, plugged)

    def is_plugged(self, lab: Lab, rail: int) -> bool:
        """Whether the rail's cable is in."""
        return rail not in cables.pulled(lab)

    def is_on(self, host: Host) -> bool:
        """Whether the machine's process runs."""
        return supply.is_alive(host)

    def power_on(self, lab: Lab, host: Host, image: Path, /) -> None:
        """Start the machine."""
        power.on(lab, host, image)

    def power_off(self, host: Host) -> None:
        """End the machine's process."""
        supply.kill(host)

    def snapshot(self, lab: Lab, /) -> None:
        """Keep memory and disk of both hosts."""
        snapshots.keep(lab)

    def restore(self, lab: Lab, image: Path, /) -> None:
        """Bring memory, disk and cables back."""
        snapshots.go_back(lab, image)
