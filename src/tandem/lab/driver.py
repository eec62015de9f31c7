"""What a kind of virtual Spark can do. ``manage`` keeps the order of things and the lab's lock."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tandem.lab.client import Keys
from tandem.lab.spec import DRIVERS, Host, Lab


class Driver(Protocol):
    """One kind of virtual Spark. Every method raises LabError where this machine forbids its work."""

    @property
    def boot_seconds(self) -> int:
        """How long a boot may take."""

    def ensure_image(self) -> Path:
        """The image that the hosts' disks stand on, built where it is missing."""

    def make_disk(self, lab: Lab, host: Host, image: Path, keys: Keys) -> None:
        """Make the host's disk; it must be off."""

    def remove_disk(self, host: Host) -> None:
        """Remove the host's disk, where there is one; it must be off."""

    def disk_mib(self, host: Host) -> int:
        """What the host has written over its image, in MiB."""

    def is_wired(self, lab: Lab) -> bool:
        """Whether every part of the networks is there."""

    def wire(self, lab: Lab) -> None:
        """Make all networks."""

    def unwire(self, lab: Lab) -> None:
        """Remove whatever is there of the networks; the hosts must be off."""

    def set_cable(self, lab: Lab, rail: int, plugged: bool) -> None:
        """Plug in or pull a rail's cable: both hosts see their carrier come or go."""

    def is_plugged(self, lab: Lab, rail: int) -> bool:
        """Whether a rail's cable is in."""

    def is_on(self, host: Host) -> bool:
        """Whether anything runs on the host."""

    def power_on(self, lab: Lab, host: Host, image: Path, /) -> None:
        """Switch the host on; does not wait for its boot."""

    def power_off(self, host: Host) -> None:
        """Take the power away: all that runs on the host ends at once."""

    def snapshot(self, lab: Lab, /) -> None:
        """Keep what both hosts have in memory and on disk."""

    def restore(self, lab: Lab, image: Path, /) -> None:
        """Go back to what was kept."""


def named(name: str) -> Driver:
    """The driver called ``name``, one of ``DRIVERS``."""
    if name == "qemu":
        from tandem.lab.qemu.driver import Qemu

        return Qemu()
    from tandem.lab.nspawn.driver import Nspawn

    return Nspawn()


def every() -> list[Driver]:
    """All drivers: what to ask where nobody knows which one made a lab."""
    return [named(name) for name in DRIVERS]
