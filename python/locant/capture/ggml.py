# SPDX-License-Identifier: Apache-2.0
"""ggml's tensors as llama-cpp-python's shared library holds them, read through ctypes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIMENSIONS, PARAMETERS, SOURCES, NAME = 4, 16, 10, 64
TYPES: dict[int, Any] = {0: np.float32, 1: np.float16, 26: np.int32, 27: np.int64}


class _Struct(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("ne", ctypes.c_int64 * DIMENSIONS),
        ("nb", ctypes.c_size_t * DIMENSIONS),
        ("op", ctypes.c_int),
        ("op_params", ctypes.c_int32 * PARAMETERS),
        ("flags", ctypes.c_int32),
        ("src", ctypes.c_void_p * SOURCES),
        ("view_src", ctypes.c_void_p),
        ("view_offs", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
        ("name", ctypes.c_char * NAME),
    ]


@cache
def _library() -> ctypes.CDLL:
    import llama_cpp

    base = ctypes.CDLL(str(Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"))
    pointer: Any = ctypes.c_void_p
    base.ggml_get_name.argtypes, base.ggml_get_name.restype = [pointer], ctypes.c_char_p
    base.ggml_op_desc.argtypes, base.ggml_op_desc.restype = [pointer], ctypes.c_char_p
    base.ggml_nelements.argtypes, base.ggml_nelements.restype = [pointer], ctypes.c_int64
    base.ggml_nbytes.argtypes, base.ggml_nbytes.restype = [pointer], ctypes.c_size_t
    base.ggml_backend_tensor_get.argtypes = [pointer, pointer, ctypes.c_size_t, ctypes.c_size_t]
    base.ggml_backend_tensor_get.restype = None
    return base


@dataclass(frozen=True)
class Tensor:
    """A tensor of a graph by its address; valid while the graph is."""

    address: int

    @property
    def _struct(self) -> _Struct:
        return _Struct.from_address(self.address)

    @property
    def name(self) -> str:
        got: bytes = _library().ggml_get_name(self.address)
        return got.decode(errors="replace")

    @property
    def op(self) -> str:
        """ "ROPE", "MUL_MAT" and so on."""
        got: bytes = _library().ggml_op_desc(self.address)
        return got.decode()

    @property
    def sources(self) -> list[Tensor]:
        return [Tensor(address) for address in self._struct.src if address]

    def number(self, index: int) -> float:
        """One of the operator's parameters, where it is a float."""
        return float(np.array([self._struct.op_params[index]], np.int32).view(np.float32)[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """As numpy writes it: the fastest axis last; always four."""
        return tuple(reversed(self._struct.ne[:DIMENSIONS]))

    def values(self) -> NDArray[Any]:
        """A copy. ValueError where the numbers are quantised, or the library's structure is another than expected."""
        struct, base = self._struct, _library()
        if struct.type not in TYPES:
            raise ValueError(f"llama.cpp: {self.name} must hold plain numbers, got ggml type {struct.type}")
        dtype = np.dtype(TYPES[struct.type])
        extents, strides = list(struct.ne), list(struct.nb)
        size = dtype.itemsize + sum((n - 1) * step for n, step in zip(extents, strides, strict=True))
        if size != base.ggml_nbytes(self.address) or int(np.prod(extents)) != base.ggml_nelements(self.address):
            raise ValueError(f"llama.cpp: {self.name} must have the layout of the ggml that is known, got another")
        raw = np.empty(size, np.uint8)
        base.ggml_backend_tensor_get(self.address, raw.ctypes.data, 0, size)
        whole = np.lib.stride_tricks.as_strided(raw[: dtype.itemsize].view(dtype), self.shape, tuple(reversed(strides)))
        return np.array(whole)
