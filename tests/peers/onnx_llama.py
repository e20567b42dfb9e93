# SPDX-License-Identifier: Apache-2.0
"""A tiny Llama as ONNX graphs that rotate and attend by different operators, from the weights of transformers'."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
ROWS = 64  # of the caches of cos and sin
HIDDEN = -1e9


@dataclass(frozen=True)
class Form:
    """rotary: "ai.onnx" or "com.microsoft"; attention: "written" (MatMul, Softmax, MatMul), "Attention" or
    "GroupQueryAttention", which rotates itself. flat: heads lie side by side, in GroupQueryAttention those of q, k
    and v too."""

    rotary: str = "ai.onnx"
    attention: str = "written"
    interleaved: bool = False
    flat: bool = False
    theta: float = 0.0
    """Of the caches; 0 = the model's."""


class Builder:
    """Nodes, weights, inputs and outputs on their way to a graph."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def weight(self, name: str, value: NDArray[Any]) -> str:
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def number(self, *values: int) -> str:
        return self.weight(f"number_{len(self.weights)}", np.array(values, np.int64))

    def input(self, name: str, kind: int, shape: list[Any]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, source: str, shape: list[Any]) -> None:
        self.nodes.append(helper.make_node("Identity", [source], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def op(self, kind: str, *given: str, outputs: int = 1, name: str = "", domain: str = "", **attributes: Any) -> Any:
        made = [f"{name or kind}_{len(self.nodes)}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(given), made, name=name, domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    def saved(self, path: Path, *, outside: bool) -> Path:
        graph = helper.make_graph(self.nodes, "llama", self.inputs, self.outputs, self.weights)
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        onnx.save_model(model, str(path), save_as_external_data=outside, location="weights.bin", size_threshold=256)
        return path


def write(model: Any, path: Path, form: Form, *, outside: bool = False) -> Path:
    """model: LlamaForCausalLM. outside: weights lie in a file of their own."""
    config = model.config
    theta = form.theta or config.rope_parameters["rope_theta"]
    made = Builder()
    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
    heads, kv, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    ids = made.input("input_ids", TensorProto.INT64, ["batch", "tokens"])
    mask = made.input("attention_mask", TensorProto.INT64, ["batch", "slots"])
    places = made.input("position_ids", TensorProto.INT64, ["batch", "tokens"])
    angles = np.outer(np.arange(ROWS), theta ** (-np.arange(0, width, 2) / width))
    cos = made.weight("cos_cache", np.cos(angles).astype(np.float32))
    sin = made.weight("sin_cache", np.sin(angles).astype(np.float32))
    bias = _bias(made, ids, mask)

    def norm(x: str, name: str) -> str:
        scale = made.weight(name, weights[name])
        out: str = made.op("RMSNormalization", x, scale, axis=-1, epsilon=config.rms_norm_eps)
        return out

    def linear(x: str, name: str) -> str:
        out: str = made.op("MatMul", x, made.weight(name, weights[name].T))
        return out

    def split(x: str, count: int) -> str:
        cut = made.op("Reshape", x, made.number(0, 0, count, width))
        out: str = made.op("Transpose", cut, perm=[0, 2, 1, 3])
        return out

    def rotate(x: str, count: int) -> str:
        order = (x, cos, sin, places) if form.rotary == "ai.onnx" else (x, places, cos, sin)
        domain = "" if form.rotary == "ai.onnx" else MICROSOFT
        more: dict[str, Any] = {"num_heads": count} if form.flat and form.rotary == "ai.onnx" else {}
        out: str = made.op("RotaryEmbedding", *order, domain=domain, interleaved=int(form.interleaved), **more)
        return out

    x = made.op("Gather", made.weight("model.embed_tokens.weight", weights["model.embed_tokens.weight"]), ids)
    for layer in range(config.num_hidden_layers):
        at = f"model.layers.{layer}"
        shape = ["batch", kv, "past", width]
        past = [made.input(f"past_key_values.{layer}.{word}", TensorProto.FLOAT, shape) for word in ("key", "value")]
        h = norm(x, f"{at}.input_layernorm.weight")
        q, k, v = (linear(h, f"{at}.self_attn.{word}_proj.weight") for word in "qkv")
        scale = width**-0.5
        if form.attention == "GroupQueryAttention":
            counts = made.op("ReduceSum", mask, made.number(1), keepdims=0)
            last = made.op("Cast", made.op("Sub", counts, made.number(1)), to=TensorProto.INT32)
            slots = made.op("Cast", made.op("Shape", mask, start=1, end=2), to=TensorProto.INT32)
            if form.flat:
                q, k, v = made.op("Concat", q, k, v, axis=2), "", ""
            attended, *present = made.op(
                "GroupQueryAttention", q, k, v, *past, last, slots, cos, sin, outputs=3, domain=MICROSOFT,
                name=f"layers.{layer}.attention", num_heads=heads, kv_num_heads=kv, do_rotary=1,
                rotary_interleaved=int(form.interleaved), scale=scale,
            )  # fmt: skip
        elif form.flat:
            attended, *present = made.op(
                "Attention", rotate(q, heads), rotate(k, kv), v, bias, *past, outputs=3, scale=scale,
                name=f"layers.{layer}.attention", q_num_heads=heads, kv_num_heads=kv,
            )  # fmt: skip
        else:
            q, k, v = rotate(split(q, heads), heads), rotate(split(k, kv), kv), split(v, kv)
            if form.attention == "Attention":
                attended, *present = made.op(
                    "Attention", q, k, v, bias, *past, outputs=3, scale=scale, name=f"layers.{layer}.attention"
                )
            else:
                present = [made.op("Concat", old, new, axis=2) for old, new in zip(past, (k, v), strict=True)]
                attended = _written(made, q, present, bias, heads // kv, layer, scale)
            attended = made.op("Reshape", made.op("Transpose", attended, perm=[0, 2, 1, 3]), made.number(0, 0, -1))
        x = made.op("Add", x, linear(attended, f"{at}.self_attn.o_proj.weight"))
        h = norm(x, f"{at}.post_attention_layernorm.weight")
        gate, up = (linear(h, f"{at}.mlp.{word}_proj.weight") for word in ("gate", "up"))
        gated = made.op("Mul", made.op("Mul", gate, made.op("Sigmoid", gate)), up)
        x = made.op("Add", x, linear(gated, f"{at}.mlp.down_proj.weight"))
        for word, one in zip(("key", "value"), present, strict=True):
            made.output(f"present.{layer}.{word}", one, ["batch", kv, "slots", width])
    logits = linear(norm(x, "model.norm.weight"), "lm_head.weight")
    made.output("logits", logits, ["batch", "tokens", config.vocab_size])
    return made.saved(path, outside=outside)


def _bias(made: Builder, ids: str, mask: str) -> str:
    """[B,1,T,S]: 0 where a token sees a slot."""
    tokens, slots = (made.op("Squeeze", made.op("Shape", one, start=1, end=2)) for one in (ids, mask))
    zero, one = (made.weight(name, np.array(value, np.int64)) for name, value in (("zero", 0), ("one", 1)))
    keys = made.op("Range", zero, slots, one)
    queries = made.op("Unsqueeze", made.op("Range", made.op("Sub", slots, tokens), slots, one), made.number(1))
    before = made.op("Unsqueeze", made.op("LessOrEqual", keys, queries), made.number(0, 1))
    content = made.op("Unsqueeze", made.op("Cast", mask, to=TensorProto.BOOL), made.number(1, 2))
    seen = made.weight("seen", np.array(0, np.float32))
    hidden = made.weight("hidden", np.array(HIDDEN, np.float32))
    out: str = made.op("Where", made.op("And", before, content), seen, hidden)
    return out


def _written(made: Builder, q: str, present: list[str], bias: str, repeats: int, layer: int, scale: float) -> str:
    def repeated(x: str) -> str:
        whole = made.op("Shape", x)
        sizes = [made.op("Gather", whole, made.number(axis)) for axis in range(4)]
        wide = made.op("Concat", *sizes[:2], made.number(repeats), *sizes[2:], axis=0)
        spread = made.op("Expand", made.op("Unsqueeze", x, made.number(2)), wide)
        out: str = made.op("Reshape", spread, made.op("Concat", sizes[0], made.number(-1), *sizes[2:], axis=0))
        return out

    keys = made.op("Transpose", repeated(present[0]), perm=[0, 1, 3, 2])
    factor = made.weight(f"scale_{layer}", np.array(scale, np.float32))
    scores = made.op("Add", made.op("Mul", made.op("MatMul", q, keys), factor), bias)
    probs = made.op("Softmax", scores, name=f"/layers.{layer}/Softmax", axis=-1)
    out: str = made.op("MatMul", probs, repeated(present[1]))
    return out
