"""A lab's life: up, down, power, cables and snapshots, each under the lab's lock."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from tandem.lab import client, driver, management, reach, record
from tandem.lab.client import Owner
from tandem.lab.driver import Driver
from tandem.lab.record import Record, locked
from tandem.lab.spec import CACHE, STATE, Host, Lab, LabError


def existing(name: str) -> Lab:
    """The lab called ``name``. Raises LabError where there is none or its record cannot be read."""
    return record.required(name).lab


def labs() -> list[str]:
    """The names of the labs on this machine."""
    return record.names()


def up(lab: Lab, owner: Owner) -> bool:
    """Make the lab, or what is missing of it; returns whether anything had to be done.

    Raises LabError; what was made by then stays for the next ``up`` or for ``down``.
    """
    with locked(lab.name):
        there = record.read(lab.name)
        if there:
            _refuse_another(there.lab, lab)
        management.refuse_overlap(lab)
        maker = driver.named(lab.driver)
        image = there.image if there else maker.ensure_image()
        if not image.is_dir():
            raise LabError(
                f"the image {image} of lab {lab.name} is gone; `tandem lab down --name {lab.name}` first"
            )
        if not there:
            _make_disks(lab, maker, image, owner)
        changed = _switch_on(lab, maker, image)
        _await_boot(lab, maker, lab.hosts, owner)
    return changed or not there


def _refuse_another(there: Lab, wanted: Lab) -> None:
    for was, is_wanted in (
        (f"{there.network}.0/24", f"{wanted.network}.0/24"),
        (f"driver {there.driver}", f"driver {wanted.driver}"),
        ("cable {}:{}".format(*there.cable), "cable {}:{}".format(*wanted.cable)),
    ):
        if was != is_wanted:
            raise LabError(
                f"lab {there.name} is up on {was}; `tandem lab down --name {there.name}` first, "
                "or give the new one another --name"
            )


def _make_disks(lab: Lab, maker: Driver, image: Path, owner: Owner) -> None:
    keys = client.make_keys(lab)
    for host in lab.hosts:
        maker.remove_disk(host)
        maker.make_disk(lab, host, image, keys)
    client.write(lab, keys, owner)
    # Written last: a record says that disks and keys belong together.
    record.write(Record(lab, image, owner.directory))


def _switch_on(lab: Lab, maker: Driver, image: Path) -> bool:
    changed = False
    if not maker.is_wired(lab):
        for host in lab.hosts:
            maker.power_off(host)
        maker.unwire(lab)
        maker.wire(lab)
        changed = True
    for host in lab.hosts:
        if not maker.is_on(host):
            maker.power_on(lab, host, image)
            changed = True
    return changed


def down(name: str, owner: Owner) -> bool:
    """Remove the lab and everything of it; returns whether there was one. Works on half a lab as well."""
    if not (STATE / name).exists():
        return False
    with locked(name):
        try:
            there = record.read(name)
        except LabError:
            there = None
        # The names of namespaces, interfaces and folders follow from the lab's name alone.
        lab = there.lab if there else Lab(name=name, network="10.0.0")
        for maker in [driver.named(lab.driver)] if there else driver.every():
            for host in lab.hosts:
                maker.power_off(host)
            maker.unwire(lab)
            for host in lab.hosts:
                maker.remove_disk(host)
        client.remove(Owner(owner.uid, owner.gid, there.client if there else owner.directory))
        shutil.rmtree(lab.directory)
    return True


def purge() -> None:
    """Remove the cached images. Raises LabError while a lab uses them."""
    if labs():
        raise LabError(
            f"these labs still stand on the cached image: {', '.join(labs())}; take them down first"
        )
    shutil.rmtree(CACHE, ignore_errors=True)


def kill(lab: Lab, host: Host) -> None:
    """Cut the host's power: what its disk does not hold by then is lost."""
    with locked(lab.name):
        driver.named(lab.driver).power_off(host)


def start(lab: Lab, host: Host, owner: Owner) -> None:
    """Switch the host on and wait until it is up."""
    with locked(lab.name):
        maker = driver.named(lab.driver)
        if not maker.is_on(host):
            maker.power_on(lab, host, record.required(lab.name).image)
        _await_boot(lab, maker, [host], owner)


def reboot(lab: Lab, hosts: list[Host], owner: Owner) -> None:
    """Reboot hosts as `systemctl reboot` does, all at once, and wait until they are up again."""
    with locked(lab.name):
        maker = driver.named(lab.driver)
        before = {host.name: reach.boot_id(owner, host) for host in hosts}
        for host in hosts:
            reach.reboot(owner, host)
        reach.await_another_boot(hosts, before, owner, maker.boot_seconds)
        _await_boot(lab, maker, hosts, owner)


def set_cable(lab: Lab, netdev: str, plugged: bool) -> None:
    """Plug in or pull the cable of the rail that ends in ``netdev``; both hosts see their carrier."""
    with locked(lab.name):
        driver.named(lab.driver).set_cable(lab, lab.rail_number(netdev), plugged)


def snapshot(lab: Lab) -> None:
    """Keep what both hosts have in memory and on disk; a later one takes its place."""
    with locked(lab.name):
        driver.named(lab.driver).snapshot(lab)


def restore(lab: Lab, owner: Owner) -> None:
    """Go back to the snapshot, with the clocks set to now, and wait until both hosts answer."""
    with locked(lab.name):
        maker = driver.named(lab.driver)
        maker.restore(lab, record.required(lab.name).image)
        _await_boot(lab, maker, lab.hosts, owner)
        reach.set_clocks(lab.hosts, owner)


def status(lab: Lab) -> dict[str, object]:
    """What there is of a lab, as one JSON-like document. A cable goes by the head's name for its rail."""
    maker = driver.named(lab.driver)
    wired = maker.is_wired(lab)
    return {
        "lab": lab.name,
        "driver": lab.driver,
        "network": f"{lab.network}.0/24",
        "hosts": [
            {
                "name": host.name,
                "address": host.address,
                "power": "on" if maker.is_on(host) else "off",
                "disk_mib": maker.disk_mib(host),
            }
            for host in lab.hosts
        ],
        "cables": {
            head: "missing" if not wired else "plugged" if maker.is_plugged(lab, rail) else "pulled"
            for rail, (head, _) in enumerate(lab.rails)
        },
    }


def _await_boot(lab: Lab, maker: Driver, hosts: Sequence[Host], owner: Owner) -> None:
    reach.await_boot(lab, hosts, owner, maker.boot_seconds, maker.is_on)
