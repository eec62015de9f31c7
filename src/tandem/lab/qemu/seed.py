"""A host's own initial RAM disk: the image's, and after it the files that make a new disk this host's."""

from __future__ import annotations

import io
import tarfile
from pathlib import PurePosixPath

from tandem.lab.furnish import USER_ID, OwnFile


def archive(name: str, content: bytes, mode: int) -> bytes:
    """A cpio archive (the kernel's "newc" kind) of one file, to append to another archive.

    The format is in the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
    """
    return _entry(name, content, 0o100000 | mode) + _entry("TRAILER!!!", b"", 0)


def append(initrd: bytes, more: bytes) -> bytes:
    """``initrd`` followed by the archive ``more``, at a multiple of four as the kernel wants it."""
    return initrd + bytes(-len(initrd) % 4) + more


def tar(files: list[OwnFile]) -> bytes:
    """A tar archive of a host's own files, modes and owners kept; a user's folder is the user's alone."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as archive_file:
        for own in files:
            if own.owner == USER_ID:
                folder = tarfile.TarInfo(str(PurePosixPath(own.path).parent))
                folder.type, folder.mode = tarfile.DIRTYPE, 0o700
                folder.uid = folder.gid = own.owner
                archive_file.addfile(folder)
            member = tarfile.TarInfo(own.path)
            content = own.text.encode()
            member.size, member.mode = len(content), own.mode
            member.uid = member.gid = own.owner
            archive_file.addfile(member, io.BytesIO(content))
    return output.getvalue()


def _entry(name: str, content: bytes, mode: int) -> bytes:
    encoded = name.encode() + b"\0"
    # Inode, mode, user, group, links, time, size, device and its device, length of the name, checksum.
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    padded = header + encoded + bytes(-len(header + encoded) % 4)
    return padded + content + bytes(-len(content) % 4)
