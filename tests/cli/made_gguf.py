# SPDX-License-Identifier: Apache-2.0
"""Writes a small GGUF file for transcripts: `gguf.py FILE ARCHITECTURE key=value ...`.

Keys stand under the architecture's name and replace those of a small decoder; true, false, whole numbers and decimal
fractions mean themselves, anything else is text. The file holds token_embd.weight in Q8_0 and a norm: the head is tied.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

U32, F32, BOOL, STRING = 4, 6, 7, 8
F32_TENSOR, Q8_0_TENSOR = 0, 8
VOCAB, HIDDEN = 48, 64
KEYS = {
    "context_length": "4096",
    "embedding_length": str(HIDDEN),
    "block_count": "4",
    "feed_forward_length": "96",
    "attention.head_count": "4",
    "attention.head_count_kv": "2",
    "attention.layer_norm_rms_epsilon": "0.00001",
}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pair(key: str, value: str) -> bytes:
    if value in ("true", "false"):
        return text(key) + struct.pack("<IB", BOOL, value == "true")
    try:
        number = float(value)
    except ValueError:
        return text(key) + struct.pack("<I", STRING) + text(value)
    if "." in value:
        return text(key) + struct.pack("<If", F32, number)
    return text(key) + struct.pack("<II", U32, int(value))


def tensor(name: str, extents: list[int], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, kind, offset)


def main() -> None:
    file, architecture, *changes = sys.argv[1:]
    keys = KEYS | dict(change.split("=", 1) for change in changes)
    pairs = [pair("general.architecture", architecture)]
    pairs += [pair(f"{architecture}.{key}", value) for key, value in keys.items()]
    table = VOCAB * HIDDEN // 32 * 34
    tensors = tensor("token_embd.weight", [HIDDEN, VOCAB], Q8_0_TENSOR, 0)
    tensors += tensor("output_norm.weight", [HIDDEN], F32_TENSOR, table)
    header = b"GGUF" + struct.pack("<IQQ", 3, 2, len(pairs)) + b"".join(pairs) + tensors
    Path(file).write_bytes(header + bytes(-len(header) % 32) + bytes(table + 4 * HIDDEN))


if __name__ == "__main__":
    main()
