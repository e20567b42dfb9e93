#!/usr/bin/env python3
"""OpenBLAS as a peer of bench_locant (protocol.py): the system's library or the one inside numpy, by ctypes.

An OpenBLAS older than the CPU falls back to the kernels of 2004; it is started again with the name of newer ones.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from ctypes import POINTER, c_float, c_int, c_int64
from pathlib import Path
from typing import Any

import numpy as np

import answers
from protocol import TARGET, THREADS, Missing, Request, Rows, Variant, serve

ROW_MAJOR, AS_IS, TRANSPOSED = 101, 111, 112
SYSTEM = ("/usr/lib/x86_64-linux-gnu/libopenblas.so.0", "/usr/lib64/libopenblas.so.0", "/usr/lib/libopenblas.so.0")
OLD_KERNELS = ("prescott", "core2", "penryn", "generic", "unknown")
found: list[tuple[str, Any, Any]] = []  # name, sgemm, sgemv


def pointer(array: answers.Array) -> Any:
    return array.ctypes.data_as(POINTER(c_float))


def core_name(function: Any) -> str:
    function.restype = ctypes.c_char_p
    return str(function().decode())


def load(path: Path, prefix: str, suffix: str, size: Any) -> tuple[str, Any, Any]:
    library = ctypes.CDLL(str(path))
    core = core_name(getattr(library, f"{prefix}openblas_get_corename{suffix}"))
    sgemm = getattr(library, f"{prefix}cblas_sgemm{suffix}")
    sgemv = getattr(library, f"{prefix}cblas_sgemv{suffix}")
    p = POINTER(c_float)
    sgemm.argtypes = [c_int, c_int, c_int, size, size, size, c_float, p, size, p, size, c_float, p, size]
    sgemv.argtypes = [c_int, c_int, size, size, c_float, p, size, p, size, c_float, p, size]
    sgemm.restype = sgemv.restype = None
    return core, sgemm, sgemv


def head(r: Request) -> Iterator[Variant]:
    if r["dtype"] != "f32":
        return
    data, tokens, vocab, width = answers.head(r), r["tokens"], r["vocab"], r["width"]
    out = np.empty((tokens, vocab), np.float32)
    x, weight, to = pointer(data.x), pointer(data.weight), pointer(out)
    for name, sgemm, sgemv in found:

        def run(sgemm: Any = sgemm, sgemv: Any = sgemv) -> None:
            if tokens == 1:
                sgemv(ROW_MAJOR, AS_IS, vocab, width, 1, weight, width, x, 1, 0, to, 1)
            else:
                sgemm(ROW_MAJOR, AS_IS, TRANSPOSED, tokens, vocab, width, 1, x, width, weight, width, 0, to, vocab)

        yield Variant(run, name, lambda _: data.error(out))


def start() -> tuple[str, Rows]:
    kernels = []
    system = next((Path(path) for path in SYSTEM if Path(path).exists()), None)
    if system is not None:
        core, sgemm, sgemv = load(system, "", "", c_int)
        if core.lower() in OLD_KERNELS and not TARGET and "OPENBLAS_CORETYPE" not in os.environ:
            wide = "avx512f" in Path("/proc/cpuinfo").read_text()
            newer = {**os.environ, "OPENBLAS_CORETYPE": "SkylakeX" if wide else "Haswell"}
            os.execve(sys.executable, [sys.executable, *sys.argv], newer)
        found.append(("openblas", sgemm, sgemv))
        kernels.append(f"openblas ({core} kernels)")
    inside = Path(np.__file__).parent.parent / "numpy.libs"
    for path in sorted(inside.glob("libscipy_openblas64_*")):
        core, sgemm, sgemv = load(path, "scipy_", "64_", c_int64)
        found.append(("openblas of numpy", sgemm, sgemv))
        kernels.append(f"openblas of numpy ({core} kernels)")
    if not found:
        raise Missing("neither the system nor numpy has an OpenBLAS")
    return ", ".join(kernels), {"head": head}


if __name__ == "__main__":
    assert THREADS >= 1
    serve(start)
