# SPDX-License-Identifier: Apache-2.0
"""Writes a small .npy for a transcript: `npy.py FILE SHAPE VALUES [TYPE]`, e.g. `npy.py ids.npy 2,3 1,2,3,4,5,6`.

TYPE is i8 (int64, the default), i4, f4 or f8.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

FORMATS = {"i8": "q", "i4": "i", "f4": "f", "f8": "d"}


def npy(shape: list[int], values: list[float], kind: str) -> bytes:
    """NumPy format 1.0, C order, little-endian."""
    sizes = "".join(f"{size}," for size in shape)
    header = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': ({sizes}), }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    numbers = values if kind.startswith("f") else [int(value) for value in values]
    data = struct.pack(f"<{len(numbers)}{FORMATS[kind]}", *numbers)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def main() -> None:
    path, shape, values, *kind = sys.argv[1:]
    sizes = [int(size) for size in shape.split(",")]
    numbers = [float(value) for value in values.split(",")]
    Path(path).write_bytes(npy(sizes, numbers, kind[0] if kind else "i8"))


if __name__ == "__main__":
    main()
