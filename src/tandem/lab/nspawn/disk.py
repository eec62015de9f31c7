"""A host's file system: an overlay over the image, or a copy where the kernel refuses overlays."""

from __future__ import annotations

import shutil
from pathlib import Path

from tandem.lab.client import Keys
from tandem.lab.furnish import USER_ID, own_files
from tandem.lab.shell import run, succeeds
from tandem.lab.spec import Host, Lab


def ensure(host: Host, image: Path) -> None:
    """Make the host's root, or mount it again after this machine was restarted."""
    upper, work = host.directory / "upper", host.directory / "work"
    if (host.directory / "copied").exists() or host.root.is_mount():
        return
    for directory in (upper, work, host.root):
        directory.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={image},upperdir={upper},workdir={work}"
    if not succeeds(["mount", "-t", "overlay", "overlay", "-o", options, str(host.root)]):
        run("cp", "-a", "--reflink=auto", f"{image}/.", str(host.root), timeout=600)
        (host.directory / "copied").touch()


def furnish(lab: Lab, host: Host, keys: Keys) -> None:
    """Write what is the host's own to its root, which must be mounted and new."""
    # Paths of the image, written here: a copy may not follow a link out of the host's root.
    for own in own_files(lab, host, keys):
        file = host.root / own.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=own.mode)
        file.write_text(own.text, encoding="utf-8")
        file.chmod(own.mode)
        if own.owner == USER_ID:
            file.parent.chmod(0o700)
            run("chown", "--no-dereference", f"{own.owner}:{own.owner}", str(file.parent), str(file))


def unmount(host: Host) -> None:
    """Let go of the host's root; it must be off."""
    if host.root.is_mount():
        run("umount", str(host.root))


def remove(host: Host) -> None:
    """Remove the host's disk; it must be off."""
    unmount(host)
    if host.directory.exists():
        shutil.rmtree(host.directory)
