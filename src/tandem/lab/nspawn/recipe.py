"""The image of a container host."""

from __future__ import annotations

from tandem.lab.image import ENABLED, FILES, PACKAGES, Recipe

#: systemd-nspawn mounts /sys read-only, and netplan wants to write below a device of its own namespace. This
#: unit lays a writable view of the namespace's own devices over that folder; the rest of /sys stays as it is.
_DEVICES_UNIT = """\
[Unit]
Description=Own network devices can be configured
DefaultDependencies=no
Before=sysinit.target systemd-networkd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/mkdir -p /run/lab-sys
ExecStart=/bin/mount -t sysfs sysfs /run/lab-sys
ExecStart=/bin/mount -o remount,rw /run/lab-sys
ExecStart=/bin/mount --bind /run/lab-sys/devices/virtual/net /sys/devices/virtual/net
ExecStart=/bin/umount /run/lab-sys

[Install]
WantedBy=sysinit.target
"""

RECIPE = Recipe(
    packages=PACKAGES,
    files={"etc/systemd/system/lab-devices.service": (_DEVICES_UNIT, 0o644), **FILES},
    enabled=("lab-devices.service", *ENABLED),
)
