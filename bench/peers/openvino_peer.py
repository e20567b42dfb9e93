#!/usr/bin/env python3
"""OpenVINO as a peer of bench_locant (protocol.py): one operation compiled for the CPU, one stream, outputs bound to
memory that exists. It has threads of its own, so one thread is timed by the process's CPU time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import answers
from protocol import TARGET, THREADS, Missing, Request, Rows, Variant, serve

Array = answers.Array
F16_ERROR = 1e-3  # more is bf16, which it takes where the CPU has no arithmetic in f16
ov: Any = None
ops: Any = None


class Compiled:
    def __init__(self, result: Any, parameters: list[Any], inputs: list[Array], precision: str) -> None:
        core = ov.Core()
        model = ov.Model([result], parameters, "row")
        settings = {
            "NUM_STREAMS": "1",
            "INFERENCE_NUM_THREADS": str(THREADS),
            "INFERENCE_PRECISION_HINT": precision,
            "ENABLE_CPU_PINNING": "NO",
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": "32",
        }
        self.request = core.compile_model(model, "CPU", settings).create_infer_request()
        for index, array in enumerate(inputs):
            self.request.set_input_tensor(index, ov.Tensor(array, shared_memory=True))
        self.inputs = inputs
        self.out = np.empty(tuple(result.get_output_shape(0)), np.float32)
        self.request.set_output_tensor(ov.Tensor(self.out, shared_memory=True))

    def __call__(self) -> None:
        self.request.infer()


def parameter(array: Array) -> Any:
    return ops.parameter(array.shape, array.dtype)


def lookup(r: Request) -> Iterator[Variant]:
    if r.get("dtype", "f32") != "f32":
        return
    data = answers.lookup(r)
    inputs = [parameter(data.table), parameter(data.ids)]
    run = Compiled(ops.gather(*inputs, ops.constant(0)), inputs, [data.table, data.ids], "f32")
    yield Variant(run, "openvino", lambda _: data.error(run.out))


def attention(r: Request) -> Iterator[Variant]:
    kind = r.get("dtype", "f32")
    if kind not in ("f32", "bf16") or r["tokens"] == 1 or r.get("alibi"):
        return  # one token is its stateful model's business: stateless, it repeats the cache
    data = answers.attention(r)
    _, heads, width = data.q.shape
    slots, groups = data.k.shape[:2]
    arrays = [x.transpose(1, 0, 2)[None].copy() for x in (data.q, data.k, data.v)]
    inputs = [parameter(x) for x in arrays]
    whole = []
    for cache in inputs[1:]:
        again = ops.unsqueeze(cache, ops.constant(2))
        again = ops.broadcast(again, ops.constant([1, groups, heads // groups, slots, width]))
        whole.append(ops.reshape(again, ops.constant([1, heads, slots, width]), special_zero=False))
    result = ops.scaled_dot_product_attention(inputs[0], *whole, causal=True)
    run = Compiled(result, inputs, arrays, kind)
    note = "" if kind == "f32" else "f32 in and out"
    yield Variant(run, "openvino", lambda _: data.error(run.out[0].transpose(1, 0, 2)), note)


def head(r: Request) -> Iterator[Variant]:
    kind, data = r["dtype"], answers.head(r)
    x = parameter(data.x)
    if TARGET and kind in ("f16", "bf16"):
        return  # it refuses both types where oneDNN is held back
    if kind in ("f32", "bf16", "f16"):
        weight, rows = ops.constant(data.weight), data.weight[data.at]
        run = Compiled(ops.matmul(x, weight, False, True), [x], [data.x], kind)
        if kind == "f16":
            run()
            if data.error(run.out, rows) >= F16_ERROR:
                return
        yield Variant(run, "openvino", lambda _: data.error(run.out, rows), "weight packed", bool(TARGET))
        return
    if kind in ("int8", "i8", "q8_0"):
        scales = np.abs(data.weight).max(1, keepdims=True) / 127
        q = np.rint(data.weight / scales).astype(np.int8)
        weight = ops.multiply(ops.convert(ops.constant(q), "f32"), ops.constant(scales))
        rows, name, note = (q * scales)[data.at], "openvino int8", "weights by row"
    elif kind in ("int4", "q4_0"):
        group = 128
        vocab, width = data.weight.shape
        blocks = data.weight.reshape(vocab, width // group, group)
        scales = np.abs(blocks).max(-1, keepdims=True) / 8
        q = np.clip(np.rint(blocks / scales) + 8, 0, 15).astype(np.uint8)
        packed = ov.Tensor(np.ascontiguousarray(q[..., 0::2] | q[..., 1::2] << 4), list(q.shape), ov.Type.u4)
        wide = ops.convert(ops.op.Constant(packed), "f32")
        wide = ops.subtract(wide, ops.convert(ops.constant(np.array(8, np.uint8)), "f32"))
        blocked = ops.multiply(wide, ops.constant(scales))
        weight = ops.reshape(blocked, ops.constant([vocab, width]), special_zero=False)
        rows = ((q[data.at].astype(np.float32) - 8) * scales[data.at]).reshape(-1, width)
        name, note = "openvino int4", "groups of 128"
    else:
        return
    for precision in ("f32",) if TARGET else ("f32", "bf16"):
        run = Compiled(ops.matmul(x, weight, False, True), [x], [data.x], precision)

        def check(_: Any, run: Compiled = run) -> float:
            return data.error(run.out, rows)

        yield Variant(run, f"{name} {precision}", check, note, bool(TARGET))


def start() -> tuple[str, Rows]:
    global ov, ops
    try:
        import openvino as ov
        import openvino.opset15 as ops
        from openvino import op

        ops.op = op
    except ImportError as error:
        raise Missing("openvino is not installed") from error
    return f"openvino {ov.__version__.split('-')[0]}", {"lookup": lookup, "attention": attention, "head": head}


if __name__ == "__main__":
    serve(start, own_threads=True)
