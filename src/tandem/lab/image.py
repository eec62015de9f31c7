"""The root image: Debian 12 with what a Spark has from the factory, built once by mmdebstrap and kept.

Its folder's name carries a digest of everything that it is made from (suite, packages, files), so a change of
the recipe makes another image and an old lab goes on with its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tandem.lab.spec import CACHE, USER, LabError

SUITE = "bookworm"
PACKAGES = (
    "ca-certificates",
    "dbus",
    "ethtool",
    "iproute2",
    "iputils-ping",
    "libgomp1",
    "libnuma1",
    "libpam-systemd",
    "netplan.io",
    "openssh-server",
    "procps",
    "python3",
    "python3-venv",
    "rsync",
    "sudo",
    "systemd",
    "systemd-sysv",
    "udev",
    "util-linux-extra",
)
#: Debian's keys: a machine that is not Debian trusts others by itself.
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
EXCLUDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")

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

FILES = {
    "etc/systemd/system/lab-devices.service": (_DEVICES_UNIT, 0o644),
    f"etc/sudoers.d/{USER}": (f"{USER} ALL=(ALL) NOPASSWD: ALL\n", 0o440),
    "etc/ssh/sshd_config.d/lab.conf": ("PasswordAuthentication no\nUseDNS no\n", 0o644),
    # A Spark keeps its journal over a reboot.
    "etc/systemd/journald.conf.d/lab.conf": ("[Journal]\nStorage=persistent\nSystemMaxUse=64M\n", 0o644),
}
ENABLED = ("lab-devices.service", "ssh.service", "systemd-networkd.service")
MASKED = (
    "console-getty.service",
    "container-getty@.service",
    "getty.target",
    "systemd-binfmt.service",
    "systemd-networkd-wait-online.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
)


def digest() -> str:
    """12 hexadecimal digits of everything that the image is made from."""
    recipe = {
        "architecture": platform.machine(),
        "suite": SUITE,
        "packages": PACKAGES,
        "excluded": EXCLUDED,
        "files": {path: [text, mode] for path, (text, mode) in FILES.items()},
        "enabled": ENABLED,
        "masked": MASKED,
        "user": USER,
    }
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:12]


def path() -> Path:
    """Where the image is, or will be."""
    return CACHE / "images" / f"{SUITE}-{digest()}"


def ensure() -> Path:
    """Build the image where it is missing; two callers at once build it once.

    Raises LabError with the last words of the build; a build that failed or was killed leaves nothing that
    counts.
    """
    with _locked(CACHE / "images"):
        if not path().is_dir():
            _build(path())
    return path()


def _build(target: Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    log = target.with_name(f"{target.name}.log")
    command = [
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        f"--keyring={KEYRING}",
        f"--include={','.join(PACKAGES)}",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED),
        # Inside a container that may not mount /proc again, what is there does.
        "--skip=check/empty",
        SUITE,
        str(partial),
    ]
    with log.open("wb") as output:
        try:
            outcome = subprocess.run(
                command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False
            )
        except FileNotFoundError as problem:
            raise LabError("mmdebstrap is not on this machine; `scripts/setup demo` installs it") from problem
    if outcome.returncode != 0:
        words = log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:]
        shutil.rmtree(partial, ignore_errors=True)
        raise LabError(
            f"the root image could not be built (mmdebstrap ended with {outcome.returncode}; log: {log}):\n  "
            + "\n  ".join(words)
            + "\nFix: it needs a Debian mirror, root, and about 1 GB below /var/cache; then run again"
        )
    _furnish(partial)
    partial.rename(target)


def _furnish(root: Path) -> None:
    for name, (text, mode) in FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)
    _chroot(root, "useradd", "--create-home", "--shell", "/bin/bash", "--uid", "1000", USER)
    _chroot(root, "systemctl", "enable", *ENABLED)
    _chroot(root, "systemctl", "mask", *MASKED)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for name in ("etc/machine-id", "etc/hostname", "etc/resolv.conf"):
        (root / name).unlink(missing_ok=True)
    # What a site's own mirror is called is nobody's business on a host without a way out.
    shutil.rmtree(root / "etc/apt/sources.list.d", ignore_errors=True)
    (root / "etc/apt/sources.list").write_text("", encoding="utf-8")


def _chroot(root: Path, *argv: str) -> None:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    outcome = subprocess.run(
        ["chroot", str(root), *argv], capture_output=True, text=True, check=False, env=environment
    )
    if outcome.returncode != 0:
        raise LabError(
            f"the root image: `{' '.join(argv)}` ended with {outcome.returncode}: {outcome.stderr.strip()}"
        )


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
