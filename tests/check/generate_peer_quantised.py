#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows and what llama.cpp's own quantiser makes of them: quantised.json beside this file.

usage: generate_peer_quantised.py [--check]
Needs llama-cpp-python and gguf. The rows: normal values, one outlier in each block, values of one sign, a ramp.
"""

import ctypes
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES

PATH = Path(__file__).resolve().parent / "quantised.json"
KINDS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"]
WIDTH = 256
Array = npt.NDArray[np.float32]


def rows() -> Array:
    random = np.random.default_rng(8)
    made = random.normal(size=(5, WIDTH)) * 0.02
    made[1, ::37] *= 12
    made[2] = np.abs(made[2]) + 0.05
    made[3] = -np.abs(made[3]) - 0.01
    made[4] = np.linspace(-0.3, 0.1, WIDTH)
    return made.astype(np.float16).astype(np.float32)  # short in the file


def quantised(values: Array, kind: gguf.GGMLQuantizationType) -> bytes:
    folder = Path(llama_cpp.__file__).parent / "lib"
    library = ctypes.CDLL(str(next(folder.glob("libggml-base.*"))))
    quantize = library.ggml_quantize_chunk
    quantize.restype = ctypes.c_size_t
    long, pointer = ctypes.c_int64, ctypes.c_void_p
    quantize.argtypes = [ctypes.c_int, pointer, pointer, long, long, long, pointer]
    elements, size = GGML_QUANT_SIZES[kind]
    out = np.zeros(values.size // elements * size, dtype=np.uint8)
    quantize(int(kind), values.ctypes.data, out.ctypes.data, 0, values.shape[0], values.shape[1], None)
    return out.tobytes()


def main() -> int:
    arguments = sys.argv[1:]
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    values = rows()
    blocks: dict[str, Any] = {name: quantised(values, gguf.GGMLQuantizationType[name]).hex() for name in KINDS}
    source = f"ggml_quantize_chunk of llama-cpp-python {version('llama-cpp-python')} (MIT)"
    provenance = {"generator": "tests/check/generate_peer_quantised.py", "source": source}
    packed = values.astype("<f2").tobytes().hex()
    text = json.dumps({"provenance": provenance, "width": WIDTH, "rows": packed, "blocks": blocks}, indent=1)
    if not arguments:
        PATH.write_text(text + "\n")
    elif not PATH.exists() or PATH.read_text() != text + "\n":
        print(f"{PATH.name} is not what {Path(__file__).name} writes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
