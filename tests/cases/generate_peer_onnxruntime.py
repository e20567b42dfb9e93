#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases from the live onnxruntime and onnxruntime-genai packages: what recipe `onnxruntime` has to imitate.

usage: generate_peer_onnxruntime.py [--check]
Writes peer_onnxruntime.json beside this file; --check compares instead, values as far as rounding and an ulp of a
frequency allow. Caches of cos and sin come from genai's builder, its functions called on an object that holds what
they read; heads go through onnxruntime's RotaryEmbedding and GroupQueryAttention over those caches, on the CPU.
"""

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper
from onnxruntime_genai.models.builders.base import Model
from onnxruntime_genai.models.builders.gemma import Gemma4Model
from onnxruntime_genai.models.builders.gptoss import GPTOSSModel
from onnxruntime_genai.models.builders.hunyuan import HunyuanDenseV1Model
from onnxruntime_genai.models.builders.llama import LlamaModel
from onnxruntime_genai.models.builders.phi import Phi3MiniLongRoPEModel

import peer_cases
from golden_files import write_or_check
from peer_cases import POSITIONS, Case, Floats, refused, rotated
from published_factors import PHI3_MINI_LONG, PHI3_MINI_SHORT

ROWS = max(POSITIONS) + 1
Caches = tuple[Floats, Floats]
INT64, FLOAT = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT


def builder(owner: type, width: int, theta: float, rope: Case, original: int = 4096, partial: float = 1.0) -> Any:
    """A builder with what the rope functions read, and no graph."""
    made: Any = object.__new__(owner)
    made.head_size, made.context_length, made.original_context_length = width, ROWS, original
    made.rope_attrs = {
        "theta": theta,
        "partial_rotary_factor": partial,
        "rescale_factors": 1,
        "cache_length": ROWS,
        "t_dtype": torch.int64,
        "position_scale": 1,
        "mscale": 1,
        "mscale_policy": "",
    }
    made.make_rope_init(SimpleNamespace(rope_parameters=dict(rope)))
    return made


def caches_of(made: Any) -> Caches:
    """Halved as make_rotary_embedding_caches does it where a cache is as wide as the rotated part."""
    pairs = int(made.head_size * made.rope_attrs["partial_rotary_factor"]) // 2
    cos, sin = made.make_rotary_embedding_caches_from_scratch()
    return cos[:, :pairs].to(torch.float32).numpy(), sin[:, :pairs].to(torch.float32).numpy()


def session(node: onnx.NodeProto, inputs: dict[str, tuple[int, int]], outputs: list[str]) -> Any:
    """inputs: name -> (element type, rank)."""
    told = [
        helper.make_tensor_value_info(n, kind, [f"{n}{i}" for i in range(rank)]) for n, (kind, rank) in inputs.items()
    ]
    made = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    graph = helper.make_graph([node], "one", told, made)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def rotary_embedding(caches: Caches, interleaved: bool, rotary_dim: int, form: str) -> Callable[[Floats, int], Floats]:
    """form: position_ids as one start ([1]) or one per token in a batch of two rows ([2, 2])."""
    attributes = {"interleaved": int(interleaved)}
    if rotary_dim:
        attributes |= {"rotary_embedding_dim": rotary_dim, "num_heads": 1}
    names = ["x", "position_ids", "cos", "sin"]
    node = helper.make_node("RotaryEmbedding", names, ["y"], domain="com.microsoft", **attributes)
    ranks = {
        "x": (FLOAT, 3),
        "position_ids": (INT64, 1 if form == "start" else 2),
        "cos": (FLOAT, 2),
        "sin": (FLOAT, 2),
    }
    run = session(node, ranks, ["y"])

    def rotate(x: Floats, position: int) -> Floats:
        if form == "start":  # the second token of a row that starts one before
            start = max(position - 1, 0)
            ids, heads = np.array([start]), np.stack([x, x])[None]
            at = (0, position - start)
        else:
            ids, heads = np.array([[0, 7], [3, position]]), np.stack([np.stack([x, x])] * 2)
            at = (1, 1)
        feed = {"x": heads, "position_ids": ids.astype(np.int64), "cos": caches[0], "sin": caches[1]}
        made: Floats = run.run(None, feed)[0][at]
        return made

    return rotate


def grouped_attention(caches: Caches, interleaved: bool, width: int) -> Callable[[Floats, int], Floats]:
    """The key that GroupQueryAttention leaves in its cache: one new token behind `position` cached ones."""
    names = ["q", "k", "v", "past_k", "past_v", "seqlens", "total", "cos", "sin"]
    node = helper.make_node(
        "GroupQueryAttention",
        names,
        ["o", "present_k", "present_v"],
        domain="com.microsoft",
        num_heads=2,
        kv_num_heads=1,
        do_rotary=1,
        rotary_interleaved=int(interleaved),
    )
    ranks = {"q": (FLOAT, 3), "k": (FLOAT, 3), "v": (FLOAT, 3), "past_k": (FLOAT, 4), "past_v": (FLOAT, 4)}
    ranks |= {"seqlens": (onnx.TensorProto.INT32, 1), "total": (onnx.TensorProto.INT32, 1)}
    ranks |= {"cos": (FLOAT, 2), "sin": (FLOAT, 2)}
    run = session(node, ranks, ["o", "present_k", "present_v"])

    def rotate(x: Floats, position: int) -> Floats:
        past = np.zeros((1, 1, position, width), np.float32)
        feed = {
            "q": np.zeros((1, 1, 2 * width), np.float32),
            "k": x.reshape(1, 1, width),
            "v": np.zeros((1, 1, width), np.float32),
            "past_k": past,
            "past_v": past,
            "seqlens": np.array([position], np.int32),
            "total": np.array([position + 1], np.int32),
            "cos": caches[0],
            "sin": caches[1],
        }
        made: Floats = run.run(None, feed)[1][0, 0, position]
        return made

    return rotate


def plain() -> Iterator[Case]:
    for theta, head_dim, rotary_dim, pairing, form in (
        (10000.0, 128, 128, "half", "start"),
        (500000.0, 64, 64, "interleaved", "each"),
        (123456.0, 80, 20, "half", "each"),
        (1e6, 96, 48, "interleaved", "start"),
    ):
        caches = caches_of(builder(Model, head_dim, theta, {"rope_type": "default"}, partial=rotary_dim / head_dim))
        parameters = {"theta": theta, "head_dim": head_dim, "rotary_dim": rotary_dim, "pairing": pairing}
        part = rotary_dim if rotary_dim != head_dim else 0
        rotate = rotary_embedding(caches, pairing == "interleaved", part, form)
        yield rotated(f"RotaryEmbedding, {pairing}, positions as {form}", "rope", parameters, rotate)
    for pairing in ("half", "interleaved"):
        parameters = {"theta": 500000.0, "head_dim": 64, "pairing": pairing}
        caches = caches_of(builder(Model, 64, 500000.0, {"rope_type": "default"}))
        rotate = grouped_attention(caches, pairing == "interleaved", 64)
        yield rotated(f"GroupQueryAttention, {pairing}", "rope", parameters, rotate, POSITIONS[:-1])


def scheduled(what: str, mechanism: str, parameters: Case, caches: Caches, **more: Any) -> Case:
    return rotated(what, mechanism, parameters, rotary_embedding(caches, False, 0, "start"), **more)


def schedules() -> Iterator[Case]:
    parameters: Case = {"theta": 1e6, "head_dim": 80, "factor": 8.0}
    made = builder(Model, 80, 1e6, {"rope_type": "linear", "factor": 8.0})
    yield scheduled("linear", "linear", parameters, caches_of(made))
    parameters = {"theta": 500000.0, "head_dim": 128, "factor": 8.0, "original_length": 8192}
    edges = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    made = builder(LlamaModel, 128, 500000.0, {"rope_type": "llama3", "factor": 8.0, **edges}, 8192)
    yield scheduled("LlamaModel, llama3", "llama3", parameters | edges, caches_of(made))
    made = builder(HunyuanDenseV1Model, 128, 10000.0, {"rope_type": "dynamic", "alpha": 1000.0})
    parameters = {"theta": 10000.0, "head_dim": 128, "alpha": 1000.0}
    yield scheduled("HunyuanDenseV1Model, alpha", "ntk", parameters, caches_of(made))
    gemma = object.__new__(Gemma4Model)
    gemma.global_head_dim, gemma.global_rope_theta, gemma.global_partial_rotary_factor = 64, 1e6, 0.25
    gemma.context_length, gemma.io_dtype = ROWS, onnx_ir_float()
    cos, sin = (cache.numpy() for cache in gemma.make_proportional_rope_caches())
    parameters = {"theta": 1e6, "head_dim": 64, "proportion": 0.25}
    yield scheduled("Gemma4Model, proportional", "proportional", parameters, (cos, sin))
    stated = parameters | {"factor": 8.0}
    yield scheduled("Gemma4Model, proportional, factor is not read", "proportional", stated, (cos, sin))
    dynamic = {"theta": 10000.0, "head_dim": 64, "factor": 2.0, "max_positions": 4096}
    call = lambda: builder(Model, 64, 10000.0, {"rope_type": "dynamic", "factor": 2.0})  # noqa: E731
    yield refused("dynamic NTK", "dynamic_ntk", dynamic, call, NotImplementedError)


def onnx_ir_float() -> Any:
    import onnx_ir

    return onnx_ir.DataType.FLOAT


def yarn() -> Iterator[Case]:
    oss = {"theta": 150000.0, "head_dim": 64, "factor": 32.0, "original_length": 4096}
    rope = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0}
    stated = {"keys": {"attention_factor": "rope_parameters.attention_factor"}}
    for owner, what, mine, theirs, more in (
        (Model, "", {}, {}, {}),
        (GPTOSSModel, ", truncate is not read", {"truncate": 1}, {"truncate": True}, {}),
        (Model, ", attention_factor is not read", {"attention_factor": 1.5}, {"attention_factor": 1.5}, stated),
        (Model, ", mscale alone", {"mscale": 0.75}, {"mscale": 0.75}, {}),
        (Model, ", mscale_all_dim alone", {"mscale_all_dim": 0.5}, {"mscale_all_dim": 0.5}, {}),
        (Model, ", both", {"mscale": 0.8, "mscale_all_dim": 0.5}, {"mscale": 0.8, "mscale_all_dim": 0.5}, {}),
        (
            Model, ", other edges", {"beta_fast": 16.0, "beta_slow": 2.0}, {"beta_fast": 16.0, "beta_slow": 2.0}, {},
        ),
        (
            Model, ", extrapolation_factor is not read", {"extrapolation_factor": 0.5}, {"extrapolation_factor": 0.5},
            {},
        ),
    ):  # fmt: skip
        caches = caches_of(builder(owner, 64, 150000.0, rope | theirs))
        yield scheduled(f"{owner.__name__}, yarn{what}", "yarn", oss | mine, caches, **more)


def longrope() -> Iterator[Case]:
    """make_rotary_embedding_multi_cache keeps a cache for each side of the original length."""
    parameters = {
        "theta": 10000.0,
        "head_dim": 96,
        "short_factor": PHI3_MINI_SHORT,
        "long_factor": PHI3_MINI_LONG,
        "original_length": 4096,
        "max_positions": ROWS,
        "factor": 4.0,
        "attention_factor": 1.5,
    }
    keys = {"attention_factor": "rope_parameters.attention_factor", "factor": "rope_parameters.factor"}
    rope: Case = {
        "rope_type": "longrope",
        "type": "longrope",
        "short_factor": PHI3_MINI_SHORT,
        "long_factor": PHI3_MINI_LONG,
    }
    rope |= {"factor": 4.0, "attention_factor": 1.5}
    scales = {"short_mscale": 1.1, "long_mscale": 1.25}
    for what, theirs, mine, told in (
        ("", rope, parameters, keys),
        (", a scale for each", rope | scales, parameters | scales, {}),
    ):
        made = builder(Phi3MiniLongRoPEModel, 96, 10000.0, theirs)
        for side, seen, positions in (("short", 4096, [0, 1, 4095]), ("long", 4097, POSITIONS)):
            made.rope_attrs["rescale_factors"] = made.rope_attrs["multi_cache"][f"{side}_factor"]
            made.rope_attrs["mscale"] = made.rope_attrs["multi_cache"][f"{side}_mscale"]
            name = f"Phi3MiniLongRoPEModel, {side}{what}"
            more = {"positions": positions, "seen": seen, "keys": told}
            yield scheduled(name, "longrope", mine, caches_of(made), **more)


def peer_onnxruntime() -> Case:
    parts = (plain, schedules, yarn, longrope)
    sources = (
        "onnxruntime_genai.models.builders: make_rope_init, make_mscale, make_rotary_embedding_caches_from_scratch",
        "com.microsoft RotaryEmbedding and GroupQueryAttention",
    )
    packages = ["onnxruntime", "onnxruntime-genai", "torch"]
    return {
        "provenance": peer_cases.provenance("onnxruntime", packages, *sources),
        "recipe": "onnxruntime",
        "cases": [case for part in parts for case in part()],
    }


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(3)
    sys.exit(write_or_check({"peer_onnxruntime": peer_onnxruntime}, __doc__, peer_cases.agree))
