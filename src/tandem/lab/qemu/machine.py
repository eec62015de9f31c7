"""The command line of a virtual machine. Pure."""

from __future__ import annotations

from pathlib import Path

from tandem.lab import management
from tandem.lab.qemu.nics import NICS, Nic, rail_of
from tandem.lab.qemu.recipe import KERNEL
from tandem.lab.spec import MANAGEMENT, Host, Lab

PROGRAM = "qemu-system-x86_64"
MEMORY_MIB = 1280
#: Options of the processor, by accelerator. Emulated, two cores of this machine are all there is to gain.
ACCELERATORS = {
    "kvm": ("-accel", "kvm", "-cpu", "host"),
    "tcg": ("-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max,la57=off,svm=off"),
}
#: Drivers of what QEMU's board has and a lab does not use: emulated, each costs a part of a second.
_UNUSED = "ahci,cfg80211,evdev,i2c_i801,iTCO_wdt,lpc_ich,pcspkr,psmouse,serio_raw"
KERNEL_ARGUMENTS = (
    "root=/dev/vda rootfstype=ext4 rw fastboot console=ttyS0 quiet loglevel=4 "
    "mitigations=off nokaslr audit=0 apparmor=0 selinux=0 random.trust_cpu=on cryptomgr.notests panic=-1 "
    f"modprobe.blacklist={_UNUSED}"
)


def disk(host: Host) -> Path:
    """What the host writes over its image, and its snapshots."""
    return host.directory / "disk.qcow2"


def initrd(host: Host) -> Path:
    """The host's own initial RAM disk. It holds a private key."""
    return host.directory / "initrd"


def monitor(host: Host) -> Path:
    """The socket on which QEMU takes commands."""
    return host.directory / "monitor"


def cable_end(host: Host, rail: int) -> Path:
    """The socket that is the host's end of a rail's cable."""
    return host.directory / f"rail{rail}"


def command(lab: Lab, host: Host, image: Path, accelerator: str) -> list[str]:
    """The command line that makes the host a machine, which waits to be told to go."""
    identity = f"manufacturer=NVIDIA,product=NVIDIA_DGX_Spark,serial=lab-{host.name}"
    drive = f"file={disk(host)},if=none,id=disk,format=qcow2,cache=unsafe"
    return [
        PROGRAM,
        *("-nodefaults", "-no-user-config", "-S"),
        *("-name", host.machine),
        *("-machine", "q35,usb=off,vmport=off"),
        *ACCELERATORS[accelerator],
        *("-smp", "1", "-m", str(MEMORY_MIB)),
        *("-display", "none"),
        *("-smbios", f"type=1,{identity}"),
        *("-kernel", str(image / KERNEL), "-initrd", str(initrd(host)), "-append", KERNEL_ARGUMENTS),
        *("-chardev", f"file,id=console,path={host.console},append=on", "-serial", "chardev:console"),
        *("-qmp", f"unix:{monitor(host)},server=on,wait=off"),
        *("-drive", drive, "-device", "virtio-blk-pci,drive=disk"),
        *("-device", "virtio-rng-pci"),
        *(word for nic in NICS for word in _nic(lab, host, nic)),
    ]


def _nic(lab: Lab, host: Host, nic: Nic) -> list[str]:
    # What a Spark's ports say of themselves, management and fabric; no promise of this machine.
    speed = 10000 if nic.netdev == MANAGEMENT else 200000
    device = f"virtio-net-pci,id={nic.netdev},mac={nic.mac(host.number)},speed={speed},duplex=full,romfile="
    backend = _backend(lab, host, nic.netdev)
    if backend is None:
        return ["-device", device]
    return ["-netdev", f"{backend},id=to-{nic.netdev}", "-device", f"{device},netdev=to-{nic.netdev}"]


def _backend(lab: Lab, host: Host, netdev: str) -> str | None:
    if netdev == MANAGEMENT:
        return f"tap,ifname={management.port(lab, host)},script=no,downscript=no"
    rail = rail_of(lab, host, netdev)
    if rail is None:
        return None
    # A datagram a frame, so there is no limit on its size but the hosts' own.
    [other] = [each for each in lab.hosts if each != host]
    near, far = cable_end(host, rail), cable_end(other, rail)
    return f"dgram,local.type=unix,local.path={near},remote.type=unix,remote.path={far}"
