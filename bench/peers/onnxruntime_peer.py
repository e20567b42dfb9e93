#!/usr/bin/env python3
"""ONNX Runtime as a peer of bench_locant (protocol.py): small graphs of its own operators, inputs and outputs bound to
memory that exists, weights constant so that it may pack them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

import answers
from protocol import TARGET, THREADS, Missing, Request, Rows, Variant, serve

Array = answers.Array
MS = "com.microsoft"
CHAIN = 64  # rotations of one token in a session: entering it is not the operation
ort: Any = None
onnx: Any = None


class Session:
    """A graph bound to its inputs and outputs."""

    def __init__(
        self, nodes: list[Any], inputs: dict[str, Array], outputs: dict[str, Array], **constants: Array
    ) -> None:
        helper = onnx.helper

        def described(arrays: dict[str, Array]) -> list[Any]:
            kinds = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in arrays.items()}
            return [helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in arrays.items()]

        made = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
        graph = helper.make_graph(nodes, "row", described(inputs), described(outputs), made)
        versions = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=9)
        options = ort.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self.session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        self.values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in (inputs | outputs).items()}
        self.binding = self.session.io_binding()
        for name in inputs:
            self.binding.bind_ortvalue_input(name, self.values[name])
        for name in outputs:
            self.binding.bind_ortvalue_output(name, self.values[name])

    def share(self, written: str, read: str) -> None:
        """The output `written` is the memory of the input `read`."""
        self.values[written] = self.values[read]
        self.binding.bind_ortvalue_output(written, self.values[read])

    def __call__(self) -> None:
        self.session.run_with_iobinding(self.binding)

    def answer(self, name: str) -> Array:
        return np.asarray(self.values[name].numpy())


def node(kind: str, inputs: list[str], outputs: list[str], domain: str = "", **attributes: Any) -> Any:
    return onnx.helper.make_node(kind, inputs, outputs, domain=domain, **attributes)


def lookup(r: Request) -> Iterator[Variant]:
    dtype = {"f32": np.float32, "f16": np.float16}.get(r.get("dtype", "f32"))
    if dtype is None:
        return
    data = answers.lookup(r)
    table = data.table.astype(dtype)
    out = np.empty((r["tokens"], r["width"]), dtype)
    run = Session([node("Gather", ["table", "ids"], ["out"])], {"table": table, "ids": data.ids}, {"out": out})
    note = "" if dtype == np.float32 else "writes f16"
    yield Variant(run, "onnxruntime", lambda _: data.error(run.answer("out"), table), note)


def rotation(r: Request) -> Iterator[Variant]:
    dtype = {"f32": np.float32, "f16": np.float16}.get(r.get("dtype", "f32"))
    if dtype is None:
        return
    data = answers.rotation(r)
    tokens, heads, width = data.x.shape
    x = data.x.astype(dtype)
    chain = CHAIN if tokens == 1 else 1
    names = ["x", *(f"x{i}" for i in range(chain - 1)), "out"]
    nodes = [
        node("RotaryEmbedding", [a, "positions", "cos", "sin"], [b], MS, interleaved=int(data.interleaved),
             num_heads=heads, rotary_embedding_dim=0)
        for a, b in pairwise(names)
    ]  # fmt: skip
    inputs = {
        "x": x.reshape(1, tokens, heads * width),
        "positions": np.arange(tokens, dtype=np.int64)[None],
        "cos": data.cos.astype(dtype),
        "sin": data.sin.astype(dtype),
    }
    run = Session(nodes, inputs, {"out": np.empty((1, tokens, heads * width), dtype)})
    # a chain stays at position 0
    yield Variant(run, "onnxruntime", lambda _: data.error(run.answer("out").reshape(x.shape), x), repeats=chain)


def attention(r: Request) -> Iterator[Variant]:
    dtype = {"f32": np.float32, "f16": np.float16}.get(r.get("dtype", "f32"))
    if dtype is None:
        return
    data = answers.attention(r)
    tokens, heads, width = data.q.shape
    slots, groups = data.k.shape[:2]
    if data.slopes is not None and heads * tokens * slots * 4 > 1 << 30:
        return  # it wants the whole bias tensor
    q, k, v = (x.astype(dtype) for x in (data.q, data.k, data.v))
    new = slice(slots - tokens, slots)
    inputs = {
        "q": q.reshape(1, tokens, -1),
        "k": k[new].reshape(1, tokens, -1),
        "v": v[new].reshape(1, tokens, -1),
        "past_k": k.transpose(1, 0, 2)[None].copy(),
        "past_v": v.transpose(1, 0, 2)[None].copy(),
        "last": np.array([slots - 1], np.int32),
        "slots": np.array([slots], np.int32).reshape(()),
    }
    names = ["q", "k", "v", "past_k", "past_v", "last", "slots"]
    note = "" if dtype == np.float32 else "queries in f16"
    if data.slopes is not None:
        distance = np.arange(slots) - np.arange(slots - tokens, slots)[:, None]
        bias = (data.slopes[:, None, None] * np.where(distance > 0, 0, distance))[None]
        inputs["bias"] = bias.astype(dtype)
        names += ["", "", "", "bias"]
        note += f"{', ' * bool(note)}bias tensor"
    made = node("GroupQueryAttention", names, ["out", "new_k", "new_v"], MS, num_heads=heads, kv_num_heads=groups,
                scale=float(data.scale))  # fmt: skip
    outputs = {
        "out": np.empty((1, tokens, heads * width), dtype),
        "new_k": np.empty_like(inputs["past_k"]),
        "new_v": np.empty_like(inputs["past_v"]),
    }
    run = Session([made], inputs, outputs)
    run.share("new_k", "past_k")
    run.share("new_v", "past_v")

    def check(_: Any) -> float:
        return data.error(run.answer("out").reshape(tokens, heads, width), q, k, v)

    yield Variant(run, "onnxruntime", check, note, wide=bool(TARGET))


def head(r: Request) -> Iterator[Variant]:
    data, kind = answers.head(r), r["dtype"]
    inputs, outputs = {"x": data.x}, {"out": np.empty((r["tokens"], r["vocab"]), np.float32)}
    wide = bool(TARGET)
    if kind == "f32":
        run = Session([node("MatMul", ["x", "w"], ["out"])], inputs, outputs, w=np.ascontiguousarray(data.weight.T))
        yield Variant(run, "onnxruntime", lambda _: data.error(run.answer("out")), "weight packed", wide)
    elif kind in ("int8", "i8", "q8_0"):
        scales = np.abs(data.weight).max(1) / 127
        q = np.rint(data.weight / scales[:, None]).astype(np.int8)
        made = node("DynamicQuantizeMatMul", ["x", "w", "scales"], ["out"], MS)
        run = Session([made], inputs, outputs, w=np.ascontiguousarray(q.T), scales=scales)
        rows = q[data.at] * scales[data.at, None]
        yield Variant(run, "onnxruntime int8", lambda _: data.error(run.answer("out"), rows), "weights by row", wide)
    elif kind in ("int4", "q4_0"):
        yield from int4_head(data, inputs, outputs)


def int4_head(data: answers.Head, inputs: dict[str, Array], outputs: dict[str, Array]) -> Iterator[Variant]:
    vocab, width = data.weight.shape
    block = 32
    blocks = data.weight.reshape(vocab, width // block, block)
    scales = np.abs(blocks).max(-1) / 8
    q = np.clip(np.rint(blocks / scales[..., None]) + 8, 0, 15).astype(np.uint8)
    packed = q[..., 0::2] | q[..., 1::2] << 4
    rows = ((q[data.at].astype(np.float32) - 8) * scales[data.at][..., None]).reshape(-1, width)
    for level, word in ((4, "int8 activations"), (0, "f32 activations")):
        made = node("MatMulNBits", ["x", "w", "scales"], ["out"], MS, K=width, N=vocab, bits=4, block_size=block,
                    accuracy_level=level)  # fmt: skip
        run = Session([made], inputs, outputs, w=packed, scales=scales.reshape(-1))

        def check(_: Any, run: Session = run) -> float:
            return data.error(run.answer("out"), rows)

        yield Variant(run, f"onnxruntime int4 level {level}", check, word, bool(TARGET))


def start() -> tuple[str, Rows]:
    global ort, onnx
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise Missing("onnxruntime is not installed") from error
    try:
        import onnx
    except ImportError as error:
        raise Missing("onnx, which makes its graphs, is not installed") from error
    name = f"onnxruntime {ort.__version__}"
    return name, {"lookup": lookup, "rotation": rotation, "attention": attention, "head": head}


if __name__ == "__main__":
    serve(start)
