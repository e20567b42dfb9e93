# SPDX-License-Identifier: Apache-2.0
"""A GGUF file from named arrays and keys: version 3, tensors in f32, f16 or Q8_0."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Value = bool | int | float | str
U32, F32, BOOL, STRING = 4, 6, 7, 8
KINDS = {"f32": 0, "f16": 1, "q8_0": 8}
BLOCK = 32


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _pair(key: str, value: Value) -> bytes:
    if isinstance(value, bool):
        return _text(key) + struct.pack("<IB", BOOL, value)
    if isinstance(value, int):
        return _text(key) + struct.pack("<II", U32, value)
    if isinstance(value, float):
        return _text(key) + struct.pack("<If", F32, value)
    return _text(key) + struct.pack("<I", STRING) + _text(value)


def quantized(values: Array) -> bytes:
    """Q8_0: each 32 elements share a step, the largest of them over 127, as f16."""
    blocks = values.reshape(-1, BLOCK).astype(np.float32)
    step = np.abs(blocks).max(axis=1, keepdims=True) / 127
    whole = np.round(np.divide(blocks, step, out=np.zeros_like(blocks), where=step > 0)).astype(np.int8)
    return np.concatenate([step.astype("<f2").view(np.uint8), whole.view(np.uint8)], axis=1).tobytes()


def write_gguf(path: Path, keys: dict[str, Value], tensors: dict[str, Array], kind: str = "f32") -> Path:
    """Matrices are stored as `kind` where rows are whole blocks, vectors in f32."""
    infos, data = b"", b""
    for name, values in sorted(tensors.items()):
        stored = kind if values.ndim > 1 and (kind != "q8_0" or values.shape[-1] % BLOCK == 0) else "f32"
        extents = values.shape[::-1]
        infos += _text(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, KINDS[stored], len(data))
        dtype = "<f2" if stored == "f16" else "<f4"
        data += quantized(values) if stored == "q8_0" else np.ascontiguousarray(values).astype(dtype).tobytes()
        data += bytes(-len(data) % 32)
    body = b"".join(_pair(key, value) for key, value in keys.items()) + infos
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + body
    path.write_bytes(header + bytes(-len(header) % 32) + data)
    return path
