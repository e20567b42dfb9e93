#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden GGUF files, block types and dequantized values, all from the gguf package.

usage: generate_gguf.py [--check]
Writes gguf_golden.json beside this file; --check compares instead.
"""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

PATH = Path(__file__).resolve().parent / "gguf_golden.json"
BLOCKS = 24
BIG_BLOCKS = 5  # of 256 elements
MANY = 1 << 17  # elements, of which only a digest is kept
PLAIN = ("F32", "F16", "BF16")
# where the f16 values of a block stand
SCALES = {
    "Q8_0": (0,),
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "MXFP4": (),
}


def types() -> list[dict[str, Any]]:
    facts = ((kind, GGML_QUANT_SIZES[kind]) for kind in gguf.GGMLQuantizationType)
    return [{"name": k.name, "number": int(k), "elements": size[0], "bytes": size[1]} for k, size in facts]


def blocks_of(kind: gguf.GGMLQuantizationType, random: np.random.Generator) -> np.ndarray:
    """Random bytes; scales are finite: of both signs, zeros, subnormals and the largest among them."""
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = BIG_BLOCKS if elements > 32 else BLOCKS
    rows = random.integers(0, 256, (blocks, size * (32 // elements if elements == 1 else 1)), dtype=np.uint8)
    corners = np.array([0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0xFBFF, 0x0400, 0x3C00], dtype=np.uint16)
    if kind.name in ("F16", "F32", "BF16"):
        corners = np.append(corners, np.array([0x7C00, 0xFC00, 0x7E00, 0x7FC0], dtype=np.uint16))
        rows[0, : corners.nbytes] = corners.view(np.uint8)
        if kind.name == "F16":  # no signalling NaN: machines differ in how they widen one
            halves = rows.view(np.uint16)
            rows.view(np.uint16)[:] = np.where((halves & 0x7C00) == 0x7C00, halves & 0xFE00, halves)
        return rows
    if kind.name == "MXFP4":
        rows[:5, 0] = [0, 1, 2, 254, 255]
    for index, at in enumerate(SCALES[kind.name]):
        halves = random.integers(0, 0x7C00, blocks, dtype=np.uint16) | (
            random.integers(0, 2, blocks, dtype=np.uint16) << np.uint16(15)
        )
        halves[: len(corners)] = np.roll(corners, index)[:blocks]
        rows[:, at : at + 2] = halves.view(np.uint8).reshape(blocks, 2)
    return rows


def values() -> list[dict[str, Any]]:
    random = np.random.default_rng(20)
    cases = []
    for name in (*PLAIN, *SCALES):
        kind = gguf.GGMLQuantizationType[name]
        rows = blocks_of(kind, random)
        with np.errstate(over="ignore"):
            floats = dequantize(rows, kind).astype(np.float32, copy=False)
        cases.append({"type": name, "blocks": rows.tobytes().hex(), "floats": floats.tobytes().hex()})
    return cases


def digests() -> list[dict[str, Any]]:
    """Sums over any bytes as blocks: of word i of the floats times 2 i + 1, modulo 2^64; every NaN is 0x7FC00000.

    The bytes are splitmix64 from 0, little-endian.
    """
    cases = []
    for name in SCALES:
        kind = gguf.GGMLQuantizationType[name]
        elements, size = GGML_QUANT_SIZES[kind]
        length = MANY // elements * size
        z = np.arange(1, length // 8 + 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        rows = z.view(np.uint8)[:length].reshape(-1, size).copy()
        with np.errstate(over="ignore", invalid="ignore"):
            floats = dequantize(rows, kind).reshape(-1)
        words = np.where(np.isnan(floats), np.uint32(0x7FC00000), floats.view(np.uint32)).astype(np.uint64)
        total = np.sum(words * (2 * np.arange(len(words), dtype=np.uint64) + np.uint64(1)), dtype=np.uint64)
        cases.append({"type": name, "elements": MANY, "digest": f"{int(total):016x}"})
    return cases


def fill(writer: gguf.GGUFWriter) -> None:
    writer.add_uint8("v.u8", 255)
    writer.add_int8("v.i8", -128)
    writer.add_uint16("v.u16", 65535)
    writer.add_int16("v.i16", -32768)
    writer.add_uint32("v.u32", 4294967295)
    writer.add_int32("v.i32", -2147483648)
    writer.add_float32("v.f32", 0.1)
    writer.add_uint64("v.u64", 2**64 - 1)
    writer.add_int64("v.i64", -(2**63))
    writer.add_float64("v.f64", 0.1)
    writer.add_bool("v.bool", True)
    writer.add_string("v.string", "a \u0120b")
    writer.add_array("a.i32", [1, -2, 3])
    writer.add_array("a.f32", [0.5, -0.25])
    writer.add_array("a.bool", [True, False, True])
    writer.add_array("a.string", ["<unk>", "\u2581a", "b c"])
    writer.add_array("a.nested", [[1, 2], [3]])
    ramp = np.arange(2 * 3 * 32, dtype=np.float32).reshape(2, 3, 32)
    writer.add_tensor("ramp.f32", ramp)
    writer.add_tensor("ramp.f16", ramp[0].astype(np.float16))
    q8_0 = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor("ramp.q8_0", gguf.quantize(ramp[1], q8_0), raw_dtype=q8_0)


def written(split_max_tensors: int) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "golden.gguf"
        writer = gguf.GGUFWriter(path, "llama", split_max_tensors=split_max_tensors)
        if split_max_tensors == 0:  # the package writes the key into the first part only, and pads all by it
            writer.add_custom_alignment(64)
        fill(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return {file.name: file.read_bytes().hex() for file in sorted(Path(folder).iterdir())}


def golden() -> dict[str, Any]:
    provenance = {
        "generator": "tests/formats/generate_gguf.py",
        "source": f"gguf {version('gguf')} (MIT), https://pypi.org/project/gguf",
        "floats": "little-endian f32 of gguf.quants.dequantize",
    }
    files = written(0) | written(2)
    return {"provenance": provenance, "types": types(), "values": values(), "digests": digests(), "files": files}


def main() -> int:
    arguments = sys.argv[1:]
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    text = json.dumps(golden(), indent=1) + "\n"
    if not arguments:
        PATH.write_text(text)
    elif not PATH.exists() or PATH.read_text() != text:
        print(f"{PATH.name} is not what {Path(__file__).name} writes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
