"""Writing safetensors files byte for byte the same every time, whatever library version is installed.

The format: an 8-byte little-endian length, a JSON header of that length (padded with spaces so that the data
begin at a multiple of 8), the tensors' bytes in header order.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


def bfloat16_bytes(values: NDArray[np.float32]) -> bytes:
    """``values`` (finite float32) as little-endian bfloat16, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype("<u2").tobytes()


def bfloat16_file(tensors: Mapping[str, NDArray[np.float32]]) -> bytes:
    """A safetensors file that holds ``tensors`` as bfloat16."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    parts = []
    offset = 0
    for name, values in tensors.items():
        part = bfloat16_bytes(values)
        header[name] = {
            "dtype": "BF16",
            "shape": list(values.shape),
            "data_offsets": [offset, offset + len(part)],
        }
        parts.append(part)
        offset += len(part)
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *parts])
