#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases from llama.cpp as llama-cpp-python carries it: what recipe `llama.cpp` has to imitate.

usage: generate_peer_llama_cpp.py [--check]
Writes peer_llama_cpp.json beside this file; --check compares instead, values as far as rounding and an ulp of a
frequency allow. Heads are rotated by ggml_rope_ext and ggml_rope_multi on the CPU, slopes are read off
ggml_soft_max_ext, and what the runtime makes of a file is read off the logits of a tiny GGUF.
"""

import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import peer_cases
from golden_files import write_or_check
from peer_cases import Case, Floats, digits, head, rotated, watched
from peer_ggml import IMROPE, MROPE, NEOX, NORM, Rope, rope, soft_max
from peer_llama import opened, write_gguf
from peer_probe import Probe
from published_factors import PHI3_MINI_LONG, PHI3_MINI_SHORT

MODES = {"half": NEOX, "interleaved": NORM}


def turned(what: str, mechanism: str, parameters: Case, **how: Any) -> Case:
    mode = MODES[parameters.get("pairing", "half")]
    width: int = parameters.get("rotary_dim") or parameters["head_dim"]
    arguments = Rope(width, mode, parameters["theta"], **how)
    more = {"capacity": how["original"]} if mechanism == "longrope" else {}
    if mechanism == "longrope" and what.endswith("long factors"):
        more = {"capacity": how["original"] + 1}
    return rotated(what, mechanism, parameters, lambda x, p: rope(x, np.array([p], np.int32), arguments)[0], **more)


def plain() -> Iterator[Case]:
    for theta, head_dim, rotary_dim, pairing in (
        (10000.0, 128, 128, "half"),
        (500000.0, 64, 64, "interleaved"),
        (123456.0, 80, 20, "half"),
        (1e6, 96, 48, "interleaved"),
    ):
        parameters = {"theta": theta, "head_dim": head_dim, "rotary_dim": rotary_dim, "pairing": pairing}
        yield turned(f"ggml_rope_ext, {pairing}", "rope", parameters)


def schedules() -> Iterator[Case]:
    parameters: Case = {"theta": 1e6, "head_dim": 80, "rotary_dim": 40, "factor": 8.0}
    yield turned("ggml_rope_ext, freq_scale 1/8", "linear", parameters, freq_scale=1 / 8)
    oss = {"theta": 150000.0, "head_dim": 64, "factor": 32.0, "original_length": 4096}
    for what, more, how in (
        ("truncate is not read", {"truncate": 0}, {}),
        (
            "other edges", {"beta_fast": 16.0, "beta_slow": 2.0, "pairing": "interleaved"},
            {"beta_fast": 16.0, "beta_slow": 2.0},
        ),
        ("half of the kept frequencies", {"extrapolation_factor": 0.5}, {"ext_factor": 0.5}),
    ):  # fmt: skip
        settings = {"ext_factor": 1.0, "freq_scale": 1 / 32, "original": 4096} | how
        yield turned(f"ggml_rope_ext, yarn, {what}", "yarn", oss | more, **settings)
    factors = tuple(np.array(llama3_divisors(500000.0, 128, 8.0, 8192), np.float32).tolist())
    parameters = {"theta": 500000.0, "head_dim": 128, "pairing": "interleaved"}
    yield turned("ggml_rope_ext, llama3 as divisors", "rope", parameters | {"divisors": list(factors)}, factors=factors)
    parameters |= {"factor": 8.0, "original_length": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    yield turned("ggml_rope_ext, llama3's divisors in f32", "llama3", parameters, factors=factors)
    phi3 = {
        "theta": 10000.0,
        "head_dim": 96,
        "short_factor": PHI3_MINI_SHORT,
        "long_factor": PHI3_MINI_LONG,
        "original_length": 4096,
        "max_positions": 131072,
    }
    amplitude = math.sqrt(1 + math.log(32) / math.log(4096))
    for name, divisors in (("short", PHI3_MINI_SHORT), ("long", PHI3_MINI_LONG)):
        given: Case = {"original": 4096, "attn_factor": amplitude, "factors": tuple(divisors)}
        yield turned(f"ggml_rope_ext, {name} factors", "longrope", phi3, **given)


def llama3_divisors(theta: float, width: int, factor: float, original: int) -> list[float]:
    """What the converter writes as rope_freqs.weight."""
    divisors = []
    for i in range(width // 2):
        wavelength = 2 * math.pi * theta ** (2 * i / width)
        if wavelength < original / 4.0:
            divisors.append(1.0)
        elif wavelength > original / 1.0:
            divisors.append(factor)
        else:
            smooth = (original / wavelength - 1.0) / (4.0 - 1.0)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return divisors


def axes() -> Iterator[Case]:
    """Three axes apart; the fourth, which llama.cpp keeps at 0 in text, stands at 5 where pairs follow it."""
    # [4 axes][T]
    places = np.array([[0, 1, 300, 4097], [0, 7, 20, 100], [0, 3, 50, 2049], [0, 5, 5, 5]], np.int32)
    for layout, mode, head_dim, sections in (
        ("chunked", MROPE, 128, (16, 24, 24, 0)),
        ("chunked", MROPE, 64, (8, 12, 12, 0)),
        ("interleaved", IMROPE, 128, (24, 20, 20, 0)),
        ("interleaved", IMROPE, 64, (11, 11, 10, 0)),
    ):
        parameters = {
            "theta": 1e6,
            "head_dim": head_dim,
            "sections": [float(size) for size in sections[:3]],
            "axis_layout": layout,
        }
        x, channels = head(head_dim), watched(parameters)
        y = rope(x, places, Rope(head_dim, mode, 1e6, sections=sections))
        yield {
            "what": f"ggml_rope_multi, {layout} {list(sections[:3])}",
            "mechanism": "rope",
            "parameters": parameters,
            "positions": places.T.tolist(),
            "x": x.tolist(),
            "channels": channels,
            "y": [digits(row) for row in y[:, channels]],
        }


def slopes() -> Iterator[Case]:
    """softmax over two keys, one of them d tokens further: ln(p0/p1) = slope d. d is a power of two near 4/slope."""
    for heads, bias_max in ((1, 8.0), (8, 8.0), (12, 8.0), (20, 8.0), (71, 8.0), (112, 8.0), (16, 4.0), (6, 16.0)):
        distances = [2.0**k for k in range(0, 20)]
        mask = np.array([[0.0, -d] for d in distances], np.float32)
        shares = soft_max(np.zeros((heads, len(distances), 2), np.float32), mask, bias_max).astype(np.float64)
        found = []
        for share in shares:
            scores = [math.log(near / far) if far > 0 else math.inf for near, far in share]
            best = max(k for k, one in enumerate(scores) if one <= 4)
            found.append(scores[best] / distances[best])
        parameters: Case = {"heads": heads, "bias_max": bias_max}
        yield {
            "what": f"ggml_soft_max_ext, max_bias {bias_max:g}",
            "mechanism": "alibi",
            "parameters": parameters,
            "slopes": digits(found),
        }


# ---------------------------------------------------------------------------------------------
# What the runtime makes of a file


def of_file(
    what: str, mechanism: str, parameters: Case, arch: str, file: Case, capacity: int = 512,
    tensors: dict[str, Floats | None] | None = None, settings: Case | None = None, **more: Any,
) -> Case:  # fmt: skip
    """file: keys of the GGUF beside the base. The query stands at a few positions within the capacity."""
    interleaved = parameters.get("pairing") == "interleaved"
    width = parameters["head_dim"]
    probe = Probe(width, 1, (0, 1, width // 8, width // 4, 3 * width // 8, width // 2 - 1), interleaved)
    positions = [1, 2, 100, 300]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probe.gguf"
        write_gguf(path, arch, probe, {"rope.freq_base": parameters["theta"], **file}, tensors or {})
        with opened(path, capacity, **(settings or {})) as context:
            scores = probe.measured(context.forward, positions)
    case = {"what": what, "mechanism": mechanism, "parameters": parameters, "capacity": capacity, **more}
    return case | {"positions": positions, "pairs": list(probe.pairs), "scores": scores}


def files() -> Iterator[Case]:
    shape: Case = {"theta": 10000.0, "head_dim": 64, "pairing": "interleaved"}
    yield of_file("a llama file", "rope", shape, "llama", {})
    yarn = shape | {"factor": 8.0, "original_length": 1024}
    scaling = {"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0, "rope.scaling.original_context_length": 1024}
    yield of_file("a yarn file", "yarn", yarn, "llama", scaling)
    yield of_file(
        "a yarn file that states its attention factor",
        "yarn",
        yarn | {"attention_factor": 1.5},
        "llama",
        scaling | {"rope.scaling.yarn_attn_factor": 1.5},
        keys={"attention_factor": "llama.rope.scaling.yarn_attn_factor"},
    )
    for mscale, multiplier in ((1.0, 1.0), (1.0, 0.5), (0.8, 0.5)):  # a file has no key for mscale
        yield of_file(
            f"a mistral3 file whose yarn_log_multiplier is {multiplier}, of a config with mscale {mscale}",
            "yarn",
            yarn | {"mscale": mscale, "mscale_all_dim": multiplier},
            "mistral3",
            scaling | {"rope.scaling.yarn_log_multiplier": multiplier},
        )
    yield of_file(
        "a linear file", "linear", shape | {"factor": 4.0}, "llama",
        {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    )  # fmt: skip
    original, most = 1024, 131072
    phi3 = {
        "theta": 10000.0,
        "head_dim": 96,
        "short_factor": PHI3_MINI_SHORT,
        "long_factor": PHI3_MINI_LONG,
        "original_length": original,
        "max_positions": most,
        "attention_factor": 1.25,
    }
    tensors = {
        "rope_factors_long.weight": np.array(PHI3_MINI_LONG, np.float32),
        "rope_factors_short.weight": np.array(PHI3_MINI_SHORT, np.float32),
    }
    keys = {
        "rope.scaling.type": "longrope",
        "rope.scaling.original_context_length": original,
        "rope.scaling.attn_factor": 1.25,
    }
    # n_ctx is rounded up to 256
    for capacity in (original, original + 256):
        yield of_file(
            f"a phi3 file opened for {capacity} tokens", "longrope", phi3, "phi3", keys, capacity,
            phi3_tensors(tensors), keys={"attention_factor": "phi3.rope.scaling.attn_factor"}, seen=301,
        )  # fmt: skip


def phi3_tensors(factors: dict[str, Floats]) -> dict[str, Floats | None]:
    """phi3 keeps q, k and v in one matrix, gate and up in another."""
    probe = Probe(96, 1, (0, 1, 12, 24, 36, 47))
    separate = ("attn_q", "attn_k", "attn_v", "ffn_gate")
    return (
        factors
        | {f"blk.0.{name}.weight": None for name in separate}
        | {
            "blk.0.attn_qkv.weight": np.concatenate([probe.query(), probe.key(), probe.value()]),
            "blk.0.ffn_up.weight": np.zeros((64, probe.hidden), np.float32),
        }
    )


def llama_cpp() -> Case:
    parts = (plain, schedules, axes, slopes, files)
    sources = ("ggml_rope_ext", "ggml_rope_multi", "ggml_soft_max_ext", "llama_decode of a GGUF with one layer")
    return {
        "provenance": peer_cases.provenance("llama_cpp", ["llama-cpp-python", "gguf"], *sources),
        "recipe": "llama.cpp",
        "cases": [case for part in parts for case in part()],
    }


if __name__ == "__main__":
    sys.exit(write_or_check({"peer_llama_cpp": llama_cpp}, __doc__, peer_cases.agree))
