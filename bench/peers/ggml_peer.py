#!/usr/bin/env python3
"""ggml as a peer of bench_locant (protocol.py): the libraries inside llama-cpp-python, called by ctypes. One graph a
call, built and allocated beforehand; weights of products as stored and in every layout that ggml repacks them to."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Iterator
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

import answers
from protocol import TARGET, THREADS, Missing, Request, Rows, Variant, serve

Array = answers.Array
TYPES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q2_k": 10, "q3_k": 11, "q4_k": 12,
    "q5_k": 13, "q6_k": 14, "iq4_nl": 20, "i32": 26, "bf16": 30, "mxfp4": 39,
}  # fmt: skip
NAMES = {"int8": "q8_0", "int4": "q4_0", "i8": "q8_0", "q8": "q8_0"}
CHAIN = 64  # rotations of one token in a graph: the graph's own cost is not the operation's
GRAPH_ROOM = 4 << 20
base: Any = None
cpu: Any = None
backend: Any = None

Buffers = list[tuple[str, int]]


def declare(library: Any, name: str, result: Any, *arguments: Any) -> None:
    function = getattr(library, name)
    function.restype, function.argtypes = result, list(arguments)


class InitParams(ctypes.Structure):
    _fields_ = (("size", c_size_t), ("memory", c_void_p), ("no_alloc", c_bool))


def load(folder: Path) -> None:
    global base, cpu, backend
    base = ctypes.CDLL(str(folder / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
    cpu = ctypes.CDLL(str(folder / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)
    p, i, n, f = c_void_p, c_int, c_int64, c_float
    declare(base, "ggml_init", p, InitParams)
    declare(base, "ggml_free", None, p)
    declare(base, "ggml_version", c_char_p)
    declare(base, "ggml_new_tensor", p, p, i, i, POINTER(n))
    declare(base, "ggml_nbytes", c_size_t, p)
    declare(base, "ggml_row_size", c_size_t, i, n)
    declare(base, "ggml_get_rows", p, p, p, p)
    for name in ("ggml_rope_ext", "ggml_rope_ext_inplace"):
        declare(base, name, p, p, p, p, p, i, i, i, f, f, f, f, f, f)
    declare(base, "ggml_flash_attn_ext", p, p, p, p, p, p, f, f, f)
    declare(base, "ggml_flash_attn_ext_set_prec", None, p, i)
    declare(base, "ggml_mul_mat", p, p, p, p)
    declare(base, "ggml_new_graph", p, p)
    declare(base, "ggml_build_forward_expand", None, p, p)
    declare(base, "ggml_quantize_chunk", c_size_t, i, p, p, n, n, n, p)
    declare(base, "ggml_backend_alloc_ctx_tensors", p, p, p)
    declare(base, "ggml_backend_buffer_free", None, p)
    declare(base, "ggml_backend_tensor_set", None, p, p, c_size_t, c_size_t)
    declare(base, "ggml_backend_tensor_get", None, p, p, c_size_t, c_size_t)
    declare(base, "ggml_backend_graph_compute", i, p, p)
    declare(base, "ggml_backend_buft_alloc_buffer", p, p, c_size_t)
    declare(base, "ggml_backend_buft_get_alloc_size", c_size_t, p, p)
    declare(base, "ggml_backend_buft_name", c_char_p, p)
    declare(base, "ggml_backend_buffer_get_base", p, p)
    declare(base, "ggml_backend_tensor_alloc", i, p, p, p)
    declare(base, "ggml_backend_get_device", p, p)
    declare(base, "ggml_backend_supports_op", c_bool, p, p)
    declare(base, "ggml_backend_reg_get_proc_address", p, p, c_char_p)
    declare(cpu, "ggml_backend_cpu_init", p)
    declare(cpu, "ggml_backend_cpu_reg", p)
    declare(cpu, "ggml_backend_cpu_set_n_threads", None, p, i)
    backend = cpu.ggml_backend_cpu_init()
    cpu.ggml_backend_cpu_set_n_threads(backend, THREADS)


def repacked_buffers() -> Buffers:
    """Name and type of the buffers whose tensors ggml lays out anew."""
    address = base.ggml_backend_reg_get_proc_address(cpu.ggml_backend_cpu_reg(), b"ggml_backend_dev_get_extra_bufts")
    if not address:
        return []
    listed = ctypes.CFUNCTYPE(POINTER(c_void_p), c_void_p)(address)(base.ggml_backend_get_device(backend))
    found: Buffers = []
    while listed[len(found)]:
        found.append((base.ggml_backend_buft_name(listed[len(found)]).decode(), listed[len(found)]))
    return found


class Graph:
    """Tensors, the operations between them, and their memory."""

    def __init__(self) -> None:
        self.context = base.ggml_init(InitParams(GRAPH_ROOM, None, True))
        self.buffers: list[int] = []
        self.filled: list[tuple[int, Array]] = []

    def __del__(self) -> None:
        for buffer in self.buffers:
            base.ggml_backend_buffer_free(buffer)
        base.ggml_free(self.context)

    def tensor(self, kind: str, shape: tuple[int, ...], data: Array) -> int:
        """`shape` fastest axis first, as ggml counts."""
        sizes = (c_int64 * len(shape))(*shape)
        made: int = base.ggml_new_tensor(self.context, TYPES[kind], len(shape), sizes)
        assert base.ggml_nbytes(made) == data.nbytes, (kind, shape, data.nbytes)
        self.filled.append((made, np.ascontiguousarray(data)))
        return made

    def place(self, tensor: int, kind: int) -> None:
        """Into a buffer of its own, of this type."""
        buffer = base.ggml_backend_buft_alloc_buffer(kind, base.ggml_backend_buft_get_alloc_size(kind, tensor))
        self.buffers.append(buffer)
        base.ggml_backend_tensor_alloc(buffer, tensor, base.ggml_backend_buffer_get_base(buffer))

    def ready(self, result: int) -> None:
        self.result = result
        self.graph = base.ggml_new_graph(self.context)
        base.ggml_build_forward_expand(self.graph, result)
        self.buffers.append(base.ggml_backend_alloc_ctx_tensors(self.context, backend))
        for tensor, data in self.filled:
            base.ggml_backend_tensor_set(tensor, data.ctypes.data, 0, data.nbytes)
        self.filled.clear()

    def __call__(self) -> None:
        if base.ggml_backend_graph_compute(backend, self.graph) != 0:
            raise RuntimeError("the graph failed")

    def answer(self, shape: tuple[int, ...], dtype: type = np.float32) -> Array:
        out: Array = np.empty(shape, dtype)
        assert base.ggml_nbytes(self.result) == out.nbytes
        base.ggml_backend_tensor_get(self.result, out.ctypes.data, 0, out.nbytes)
        return out


def stored(kind: str, data: Array) -> Array:
    """The bytes of a matrix in a type of ggml, a row each."""
    if kind == "f32":
        return data
    if kind == "f16":
        return data.astype(np.float16)
    if kind == "bf16":
        bits = data.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    columns = data.shape[-1]
    rows = data.size // columns
    out = np.empty((rows, base.ggml_row_size(TYPES[kind], columns)), np.uint8)
    base.ggml_quantize_chunk(TYPES[kind], data.ctypes.data, out.ctypes.data, 0, rows, columns, None)
    return out


def values(kind: str, raw: Array) -> Array:
    """What such bytes stand for, as f32."""
    if kind in ("f32", "f16"):
        return np.asarray(raw, np.float32)
    if kind == "bf16":
        return (raw.astype(np.uint32) << 16).view(np.float32)
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    return np.asarray(dequantize(raw, GGMLQuantizationType(TYPES[kind])))


@functools.lru_cache(maxsize=1)
def stored_weight(kind: str, vocab: int, width: int) -> Array:
    """Of a head: rows of one type follow each other, and some types take seconds."""
    return stored(kind, answers.head_weight(vocab, width))


def kind_of(r: Request) -> str | None:
    """The type that a request names, in ggml's words."""
    word = str(r.get("dtype", "f32"))
    kind = NAMES.get(word, word)
    return kind if kind in TYPES else None


def lookup(r: Request) -> Iterator[Variant]:
    kind, data = kind_of(r), answers.lookup(r)
    if kind is None:
        return
    table = data.table
    if kind != "f32":  # only the rows that are read are worth the seconds; the others are there, as zeros
        read = np.unique(data.ids)
        raw = stored(kind, np.ascontiguousarray(table[read]))
        table = np.zeros((r["vocab"], raw.shape[1]), raw.dtype)
        table[read] = raw
    graph = Graph()
    source = graph.tensor(kind, (r["width"], r["vocab"]), table)
    ids = graph.tensor("i32", (r["tokens"],), data.ids.astype(np.int32))
    graph.ready(base.ggml_get_rows(graph.context, source, ids))
    # rows of the answer are held to the table's values: those of the rows that are checked
    at = answers.sampled_rows(r["tokens"])
    want = values(kind, table[data.ids[at]])

    def check(_: Any) -> float:
        return answers.deviation(graph.answer((r["tokens"], r["width"]))[at], want)

    yield Variant(graph, "ggml", check)


def rotation(r: Request) -> Iterator[Variant]:
    kind = kind_of(r)
    if kind not in ("f32", "f16"):
        return
    data = answers.rotation(r)
    tokens, heads, width = data.x.shape
    dtype = np.float32 if kind == "f32" else np.float16
    raw = stored(kind, data.x)
    turned = values(kind, raw)
    chain = CHAIN if tokens == 1 else 1
    mode = 0 if data.interleaved else 2
    for name, function in (("ggml in place", base.ggml_rope_ext_inplace), ("ggml", base.ggml_rope_ext)):
        graph = Graph()
        x = graph.tensor(kind, (width, heads, tokens), raw)
        positions = graph.tensor("i32", (tokens,), np.arange(tokens, dtype=np.int32))
        numbers = (width, mode, 0, float(r.get("theta", 10000)), 1.0, 0.0, 1.0, 32.0, 1.0)
        result = x
        for _ in range(chain):
            result = function(graph.context, result, positions, None, *numbers)
        graph.ready(result)

        def check(_: Any, graph: Graph = graph) -> float:  # a chain stays at position 0
            return data.error(graph.answer((tokens, heads, width), dtype), turned)

        yield Variant(graph, name, check, "makes its own cos and sin", repeats=chain)


def attention(r: Request) -> Iterator[Variant]:
    kind, data = kind_of(r), answers.attention(r)
    if kind is None:
        return
    tokens, heads, width = data.q.shape
    slots, groups = data.k.shape[:2]
    graph = Graph()
    q = graph.tensor("f32", (width, tokens, heads), data.q.transpose(1, 0, 2).copy())
    raws = [stored(kind, x.transpose(1, 0, 2).copy()) for x in (data.k, data.v)]
    caches = [graph.tensor(kind, (width, slots, groups), raw) for raw in raws]
    mask = None
    if tokens > 1 or data.slopes is not None:
        distance = np.arange(slots) - np.arange(slots - tokens, slots)[:, None]
        seen = distance if data.slopes is not None else np.zeros_like(distance)
        mask = graph.tensor("f16", (slots, tokens), np.where(distance > 0, -np.inf, seen).astype(np.float16))
    steepest = 8.0 if data.slopes is not None else 0.0
    result = base.ggml_flash_attn_ext(graph.context, q, *caches, mask, data.scale, steepest, 0.0)
    base.ggml_flash_attn_ext_set_prec(result, 10)  # f32 where it has the choice
    graph.ready(result)

    def check(_: Any) -> float:
        cached = [values(kind, raw).reshape(groups, slots, width).transpose(1, 0, 2) for raw in raws]
        return data.error(graph.answer((tokens, heads, width)), None, *cached)

    yield Variant(graph, "ggml", check, "" if kind == "f32" else f"{kind} cache", wide=bool(TARGET))


def survives(graph: Graph) -> bool:
    """Some builds die of the tile instructions: a child tries them first."""
    child = os.fork()
    if child == 0:
        graph()
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def head(r: Request) -> Iterator[Variant]:
    kind, data = kind_of(r), answers.head(r)
    if kind is None:
        return
    tokens, width, vocab = r["tokens"], r["width"], r["vocab"]
    raw = stored_weight(kind, vocab, width)
    rows = values(kind, raw[data.at])
    layouts: list[tuple[str, int | None]] = [("as stored", None), *repacked_buffers()]
    for layout, buffer in layouts:
        graph = Graph()
        weight = graph.tensor(kind, (width, vocab), raw)
        x = graph.tensor("f32", (width, tokens), data.x)
        if buffer is not None:
            graph.place(weight, buffer)
        result = base.ggml_mul_mat(graph.context, weight, x)
        if buffer is not None and not base.ggml_backend_supports_op(backend, result):
            continue
        graph.ready(result)
        if layout.startswith("AMX") and not survives(graph):
            continue

        def check(_: Any, graph: Graph = graph) -> float:
            return data.error(graph.answer((tokens, vocab)), rows)

        name = "ggml" if buffer is None else f"ggml {layout}"
        yield Variant(graph, name, check, "" if buffer is None else "weight laid out anew", wide=bool(TARGET))


def start() -> tuple[str, Rows]:
    found = importlib.util.find_spec("llama_cpp")
    if found is None or found.origin is None:
        raise Missing("llama_cpp (llama-cpp-python) is not installed")
    load(Path(found.origin).parent / "lib")
    name = f"ggml {base.ggml_version().decode()}"
    return name, {"lookup": lookup, "rotation": rotation, "attention": attention, "head": head}


if __name__ == "__main__":
    serve(start)
