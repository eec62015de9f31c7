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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tandem.lab.spec import CACHE, USER, LabError

SUITE = "bookworm"
PACKAGES = (
    "ca-certificates",
    "dbus",
    "ethtool",
    "iperf3",
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

#: Files of every host: path below the root, text, mode.
FILES = {
    f"etc/sudoers.d/{USER}": (f"{USER} ALL=(ALL) NOPASSWD: ALL\n", 0o440),
    "etc/ssh/sshd_config.d/lab.conf": ("PasswordAuthentication no\nUseDNS no\n", 0o644),
    # A Spark keeps its journal over a reboot.
    "etc/systemd/journald.conf.d/lab.conf": ("[Journal]\nStorage=persistent\nSystemMaxUse=64M\n", 0o644),
}
ENABLED = ("ssh.service", "systemd-networkd.service")
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


@dataclass(frozen=True)
class Recipe:
    """All that an image is made from.

    ``options`` are more words for mmdebstrap; ``form`` says what is made of the root, where it is not kept as
    a folder, so that another form is another image.
    """

    packages: tuple[str, ...]
    files: dict[str, tuple[str, int]]
    enabled: tuple[str, ...]
    masked: tuple[str, ...] = MASKED
    excluded: tuple[str, ...] = EXCLUDED
    options: tuple[str, ...] = ()
    form: str = ""

    def digest(self) -> str:
        """12 hexadecimal digits of everything that the image is made from."""
        parts: dict[str, object] = {
            "architecture": platform.machine(),
            "suite": SUITE,
            "packages": self.packages,
            "excluded": self.excluded,
            "files": {path: [text, mode] for path, (text, mode) in self.files.items()},
            "enabled": self.enabled,
            "masked": self.masked,
            "user": USER,
        }
        if self.options or self.form:
            parts |= {"options": self.options, "form": self.form}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]

    def path(self) -> Path:
        """Where the image is, or will be."""
        return CACHE / "images" / f"{SUITE}-{self.digest()}"


def ensure(recipe: Recipe, finish: Callable[[Path, Path], object] = Path.rename) -> Path:
    """Build the image where it is missing; two callers at once build it once.

    ``finish`` makes the image (its second argument, a folder) from the furnished root (its first).
    Raises LabError with the last words of the build; a build that failed or was killed leaves nothing that
    counts.
    """
    target = recipe.path()
    with _locked(target.parent):
        if not target.is_dir():
            partial = target.with_name(f"{target.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            try:
                _bootstrap(recipe, partial, target.with_name(f"{target.name}.log"))
                _furnish(recipe, partial)
                finish(partial, target)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return target


def _bootstrap(recipe: Recipe, partial: Path, log: Path) -> None:
    command = [
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        f"--keyring={KEYRING}",
        f"--include={','.join(recipe.packages)}",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.excluded),
        # Inside a container that may not mount /proc again, what is there does.
        "--skip=check/empty",
        *recipe.options,
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
        raise LabError(
            f"the root image could not be built (mmdebstrap ended with {outcome.returncode}; log: {log}):\n  "
            + "\n  ".join(words)
            + "\nFix: it needs a Debian mirror, root, and about 1 GB below /var/cache; then run again"
        )


def _furnish(recipe: Recipe, root: Path) -> None:
    for name, (text, mode) in recipe.files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)
    chroot(root, "useradd", "--create-home", "--shell", "/bin/bash", "--uid", "1000", USER)
    chroot(root, "systemctl", "enable", *recipe.enabled)
    chroot(root, "systemctl", "mask", *recipe.masked)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for name in ("etc/machine-id", "etc/hostname", "etc/resolv.conf"):
        (root / name).unlink(missing_ok=True)
    # What a site's own mirror is called is nobody's business on a host without a way out.
    shutil.rmtree(root / "etc/apt/sources.list.d", ignore_errors=True)
    (root / "etc/apt/sources.list").write_text("", encoding="utf-8")


def chroot(root: Path, *argv: str) -> None:
    """Run ``argv`` in the root that an image is made from. Raises LabError with its last words."""
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
