"""The container driver: its parts in one place, as ``tandem.lab.driver.Driver`` wants them."""

from __future__ import annotations

from pathlib import Path

from tandem.lab import image
from tandem.lab.client import Keys
from tandem.lab.nspawn import disk, network, power
from tandem.lab.nspawn.recipe import RECIPE
from tandem.lab.shell import run
from tandem.lab.spec import Host, Lab, LabError


class Nspawn:
    """Hosts as containers."""

    boot_seconds = 90

    def ensure_image(self) -> Path:
        """The root folder that the hosts' overlays lie over."""
        return image.ensure(RECIPE)

    def make_disk(self, lab: Lab, host: Host, image: Path, keys: Keys) -> None:
        """Lay the host's overlay over the image."""
        disk.ensure(host, image)
        disk.furnish(lab, host, keys)

    def remove_disk(self, host: Host) -> None:
        """Unmount and remove the overlay."""
        disk.remove(host)

    def disk_mib(self, host: Host) -> int:
        """The size of the overlay's upper folder."""
        upper = host.directory / "upper"
        if not upper.is_dir():
            return 0
        return int(run("du", "--summarize", "--one-file-system", "--block-size=1M", str(upper)).split()[0])

    def is_wired(self, lab: Lab) -> bool:
        """Whether every namespace and interface is there."""
        return network.is_complete(lab)

    def wire(self, lab: Lab) -> None:
        """Make namespaces, bridge and cables."""
        network.create(lab)

    def unwire(self, lab: Lab) -> None:
        """Remove whatever is there of them."""
        network.remove(lab)

    def set_cable(self, lab: Lab, rail: int, plugged: bool) -> None:
        """Set the rail's ports in the cables' namespace up or down."""
        network.set_cable(lab, rail, plugged)

    def is_plugged(self, lab: Lab, rail: int) -> bool:
        """Whether the rail's ports are up."""
        return network.is_plugged(lab, rail)

    def is_on(self, host: Host) -> bool:
        """Whether a process runs on the host."""
        return power.is_on(host)

    def power_on(self, _lab: Lab, host: Host, image: Path, /) -> None:
        """Mount the disk, where this machine was restarted, and boot."""
        disk.ensure(host, image)
        power.on(host)

    def power_off(self, host: Host) -> None:
        """Kill everything on the host."""
        power.cut(host)

    def snapshot(self, lab: Lab, /) -> None:
        """Containers have none."""
        raise LabError(
            f"lab {lab.name} is of containers, which keep no snapshot; --driver qemu makes one that does"
        )

    def restore(self, lab: Lab, _image: Path, /) -> None:
        """Containers have none."""
        self.snapshot(lab)
