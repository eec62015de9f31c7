"""The image of a virtual machine: what containers have, a kernel with soft-RoCE, and a disk to boot from."""

from __future__ import annotations

import shutil
from pathlib import Path

from tandem.lab.image import ENABLED, EXCLUDED, FILES, MASKED, PACKAGES, Recipe, chroot
from tandem.lab.qemu.kernel import unpacked
from tandem.lab.qemu.nics import NICS, link_file
from tandem.lab.shell import run
from tandem.lab.spec import CAGES, HCAS, LabError

DISK, KERNEL, INITRD = "disk.raw", "vmlinux", "initrd"
#: Where the host's own files are in the initial RAM disk of its own: see ``seed``.
SEED = "lab-seed.tar"
DISK_SIZE = "6G"

#: Debian's cloud kernel has no rdma_rxe.
_PACKAGES = (
    "busybox",
    "ibverbs-utils",
    "initramfs-tools",
    "kmod",
    "linux-image-amd64",
    "perftest",
    "rdma-core",
    "rdmacm-utils",
    "zstd",
)
#: Drivers that neither a lab nor a Spark's rails need: two thirds of the kernel's files.
_NO_DRIVERS = tuple(
    f"/lib/modules/*/kernel/{folder}/*"
    for folder in ("sound", "drivers/gpu", "drivers/media", "drivers/net/wireless", "drivers/staging")
)
#: What a Debian of its own would do at each boot and a lab has no use for; emulated, it takes seconds.
_UNUSED = (
    "dpkg-db-backup.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "modprobe@dm_mod.service",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "modprobe@loop.service",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
)
_MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "crc32c_intel", "ext4")

#: A new disk becomes one host's before its systemd starts, so that even the first boot is an ordinary one.
_SEED_SCRIPT = f"""\
#!/bin/sh
[ "$1" != prereqs ] || exit 0
[ -e /{SEED} ] && [ ! -e "$rootmnt/etc/machine-id" ] || exit 0
tar -x -f /{SEED} -C "$rootmnt"
"""

_DEVICES = " ".join(f"sys-subsystem-net-devices-{netdev}.device" for netdev in HCAS)
#: Stands in for mlx5, which makes the HCAs as it finds the adapters and says which cage and card each is of,
#: and for a Spark's NetworkManager, which sets every port up.
_HCA_UNIT = f"""\
[Unit]
Description=The fabric interfaces are up and have HCAs
DefaultDependencies=no
Wants={_DEVICES} network-pre.target
After={_DEVICES} systemd-modules-load.service
Before=network-pre.target systemd-networkd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/libexec/lab-hcas

[Install]
WantedBy=sysinit.target
"""
#: What mlx5 says of a card and virtual cards' drivers do not: files of a folder, and their text.
_SAYS = "usr/local/share/lab"
_CARD = {"p0": "p0\n", "p1": "p1\n", "image_guid": "5254:005a:0000:0000\n"}
# Up before it has its HCA, a port without a carrier has an HCA that says so.
_HCA_SCRIPT = f"""\
#!/bin/sh
set -e
says() {{ cmp -s "/{_SAYS}/$1" "$2" || mount --bind "/{_SAYS}/$1" "$2"; }}
port() {{
  ip link set "$1" up
  [ -e "/sys/class/infiniband/$2" ] || rdma link add "$2" type rxe netdev "$1"
  says "$3" "/sys/class/net/$1/phys_port_name"
  says image_guid "/sys/class/infiniband/$2/sys_image_guid"
}}
""" + "".join(
    f"port {netdev} {HCAS[netdev]} p{cage}\n" for cage, netdevs in enumerate(CAGES) for netdev in netdevs
)

RECIPE = Recipe(
    packages=(*PACKAGES, *_PACKAGES),
    excluded=(*EXCLUDED, *_NO_DRIVERS),
    files={
        **FILES,
        **{f"etc/systemd/network/10-{nic.netdev}.link": (link_file(nic), 0o644) for nic in NICS},
        "etc/fstab": ("/dev/vda / ext4 noatime,noinit_itable 0 0\n", 0o644),
        # A session and a line in the journal for each task of a playbook: emulated, half of what sudo takes.
        "etc/sudoers.d/lab": ("Defaults !pam_session, !syslog\n", 0o440),
        "etc/modules-load.d/lab.conf": ("rdma_rxe\n", 0o644),
        # rdma-core would bring storage over RDMA as well.
        "etc/rdma/modules/rdma.conf": ("rdma_cm\nrdma_ucm\n", 0o644),
        "etc/systemd/system/lab-hcas.service": (_HCA_UNIT, 0o644),
        "usr/local/libexec/lab-hcas": (_HCA_SCRIPT, 0o755),
        **{f"{_SAYS}/{name}": (text, 0o644) for name, text in _CARD.items()},
        "etc/initramfs-tools/modules": ("".join(f"{name}\n" for name in _MODULES), 0o644),
        "etc/initramfs-tools/scripts/init-bottom/lab-seed": (_SEED_SCRIPT, 0o755),
    },
    enabled=("lab-hcas.service", *ENABLED),
    masked=(*MASKED, *_UNUSED),
    form=f"ext4 of {DISK_SIZE}, kernel unpacked",
    options=(
        # Before the kernel is configured, so that its initial RAM disk is small from the first.
        '--essential-hook=mkdir -p "$1/etc/initramfs-tools/conf.d"',
        '--essential-hook=echo MODULES=list >"$1/etc/initramfs-tools/conf.d/lab"',
    ),
)


def finish(root: Path, target: Path) -> None:
    """Make the folder ``target`` of the furnished ``root``: a disk, a kernel, its initial RAM disk."""
    chroot(root, "update-initramfs", "-u")
    kernels = sorted((root / "boot").glob("vmlinuz-*"))
    if len(kernels) != 1:
        raise LabError(f"the root image has {len(kernels)} kernels where one was expected")
    beside = target.with_name(f"{target.name}.beside")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    try:
        (beside / KERNEL).write_bytes(unpacked(kernels[0].read_bytes()))
        shutil.copyfile(root / "boot" / kernels[0].name.replace("vmlinuz", "initrd.img"), beside / INITRD)
        # From the folder, with no loop device; a file that is new reads as zeros, so it stays sparse.
        options = ("-t", "ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1")
        run("mke2fs", *options, "-d", str(root), str(beside / DISK), DISK_SIZE, timeout=600)
        beside.rename(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
