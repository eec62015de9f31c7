"""A kernel without its wrapping: emulated, a processor takes five seconds to unpack it. Pure.

The wrapping is described in the kernel's Documentation/arch/x86/boot.rst (setup_sects, payload_offset and
payload_length); QEMU boots what is inside through its PVH entry.
"""

from __future__ import annotations

import lzma
import struct

_SETUP_SECTORS, _MAGIC, _PAYLOAD = 0x1F1, 0x202, 0x248
_XZ, _ELF = b"\xfd7zXZ\0", b"\x7fELF"


def unpacked(image: bytes) -> bytes:
    """The ELF file in a bzImage; ``image`` itself where it is packed another way, which boots as well."""
    if image[_MAGIC : _MAGIC + 4] != b"HdrS" or len(image) < _PAYLOAD + 8:
        return image
    offset, length = struct.unpack_from("<II", image, _PAYLOAD)
    begin = ((image[_SETUP_SECTORS] or 4) + 1) * 512 + offset
    payload = image[begin : begin + length]
    if not payload.startswith(_XZ):
        return image
    # The kernel's build appends the unpacked size, which is no part of the xz stream.
    kernel = lzma.LZMADecompressor().decompress(payload)
    return kernel if kernel.startswith(_ELF) else image
