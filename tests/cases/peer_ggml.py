# SPDX-License-Identifier: Apache-2.0
"""ggml's rope and softmax, called through ctypes in the library that llama-cpp-python carries."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peer_cases import Floats

F32, I32 = 0, 26  # enum ggml_type
NORM, NEOX, MROPE, IMROPE = 0, 2, 8, 40  # GGML_ROPE_TYPE_*


class InitParams(ctypes.Structure):
    _fields_ = (("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


@dataclass(frozen=True)
class Rope:
    """Arguments of ggml_rope_ext; the defaults turn every schedule off."""

    n_dims: int
    mode: int
    base: float
    original: int = 4096
    freq_scale: float = 1.0
    ext_factor: float = 0.0
    attn_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    factors: tuple[float, ...] = ()
    sections: tuple[int, int, int, int] | None = None


@cache
def library() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """(tensors, computing on the CPU)."""
    spec = find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        raise SystemExit("llama-cpp-python is not installed")
    folder = Path(spec.origin).parent / "lib"
    base = ctypes.CDLL(str(folder / "libggml-base.so"), ctypes.RTLD_GLOBAL)
    cpu = ctypes.CDLL(str(folder / "libggml-cpu.so"), ctypes.RTLD_GLOBAL)
    pointer: Any = ctypes.c_void_p
    number: Any = ctypes.c_int
    real: Any = ctypes.c_float
    base.ggml_init.argtypes, base.ggml_init.restype = [InitParams], pointer
    base.ggml_free.argtypes, base.ggml_free.restype = [pointer], None
    base.ggml_new_tensor.argtypes = [pointer, number, number, ctypes.POINTER(ctypes.c_int64)]
    base.ggml_new_tensor.restype = pointer
    base.ggml_get_data.argtypes, base.ggml_get_data.restype = [pointer], pointer
    base.ggml_new_graph.argtypes, base.ggml_new_graph.restype = [pointer], pointer
    base.ggml_build_forward_expand.argtypes, base.ggml_build_forward_expand.restype = [pointer, pointer], None
    tail = [number, real, real, real, real, real, real]  # n_ctx_orig .. beta_slow
    base.ggml_rope_ext.argtypes = [pointer] * 4 + [number, number, *tail]
    base.ggml_rope_ext.restype = pointer
    base.ggml_rope_multi.argtypes = [pointer] * 4 + [number, ctypes.POINTER(number), number, *tail]
    base.ggml_rope_multi.restype = pointer
    base.ggml_gelu.argtypes, base.ggml_gelu.restype = [pointer] * 2, pointer
    base.ggml_soft_max_ext.argtypes, base.ggml_soft_max_ext.restype = [pointer] * 3 + [real, real], pointer
    cpu.ggml_graph_compute_with_ctx.argtypes = [pointer, pointer, number]
    cpu.ggml_graph_compute_with_ctx.restype = number
    return base, cpu


class Context:
    """Tensors in memory of their own, and one graph over them."""

    def __enter__(self) -> Context:
        self.base, self.cpu = library()
        self.handle = self.base.ggml_init(InitParams(64 << 20, None, False))
        return self

    def __exit__(self, *_: object) -> None:
        self.base.ggml_free(self.handle)

    def tensor(self, values: NDArray[np.float32] | NDArray[np.int32]) -> int:
        """Row-major values; ggml names the last axis first."""
        ne = (ctypes.c_int64 * values.ndim)(*reversed(values.shape))
        made: int = self.base.ggml_new_tensor(self.handle, F32 if values.dtype == np.float32 else I32, values.ndim, ne)
        ctypes.memmove(self.base.ggml_get_data(made), np.ascontiguousarray(values).ctypes.data, values.nbytes)
        return made

    def computed(self, result: int, shape: tuple[int, ...]) -> Floats:
        graph = self.base.ggml_new_graph(self.handle)
        self.base.ggml_build_forward_expand(graph, result)
        if self.cpu.ggml_graph_compute_with_ctx(self.handle, graph, 1) != 0:
            raise SystemExit("ggml_graph_compute_with_ctx failed")
        out = np.empty(shape, np.float32)
        ctypes.memmove(out.ctypes.data, self.base.ggml_get_data(result), out.nbytes)
        return out


def rope(x: Floats, positions: NDArray[np.int32], how: Rope) -> Floats:
    """x: one head [D], rotated at every position: [T, D]. positions [T], or [4, T] with sections."""
    tokens = positions.shape[-1]
    with Context() as context:
        heads = context.tensor(np.broadcast_to(x, (tokens, 1, x.size)).copy())
        places = context.tensor(positions.reshape(-1))
        factors = context.tensor(np.array(how.factors, np.float32)) if how.factors else None
        tail = (how.original, how.base, how.freq_scale, how.ext_factor, how.attn_factor, how.beta_fast, how.beta_slow)
        start = (context.handle, heads, places, factors, how.n_dims)
        if how.sections is None:
            result = context.base.ggml_rope_ext(*start, how.mode, *tail)
        else:
            sizes = (ctypes.c_int * 4)(*how.sections)
            result = context.base.ggml_rope_multi(*start, sizes, how.mode, *tail)
        return context.computed(result, (tokens, 1, x.size))[:, 0]


def soft_max(scores: Floats, mask: Floats, max_bias: float) -> Floats:
    """scores [H, T, S], mask [T, S]: softmax(scores + slope[head] * mask)."""
    with Context() as context:
        inputs = context.tensor(scores), context.tensor(mask)
        result = context.base.ggml_soft_max_ext(context.handle, *inputs, 1.0, max_bias)
        return context.computed(result, scores.shape)


def gelu(x: Floats) -> Floats:
    with Context() as context:
        return context.computed(context.base.ggml_gelu(context.handle, context.tensor(x)), x.shape)
