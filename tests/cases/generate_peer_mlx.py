#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases from the live MLX and mlx-lm packages: what recipe `mlx` has to imitate.

usage: generate_peer_mlx.py [--check]
Writes peer_mlx.json beside this file; --check compares instead, values as far as rounding and an ulp of a frequency
allow. Heads go through the modules that mlx_lm's initialize_rope makes of a config, on the CPU.
"""

import sys
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import mlx.nn
import numpy as np
from mlx_lm.models.rope_utils import SuScaledRoPE, initialize_rope

import peer_cases
from golden_files import write_or_check
from peer_cases import Case, Floats, digits, rotated
from published_factors import PHI3_MINI_LONG, PHI3_MINI_SHORT, PHI35_MOE_LONG, PHI35_MOE_SHORT


def turned(what: str, mechanism: str, parameters: Case, module: Any, **more: Any) -> Case:
    def rotate(x: Floats, position: int) -> Floats:
        return np.array(module(mx.array(x.reshape(1, 1, 1, -1)), offset=position)).reshape(-1)

    return rotated(what, mechanism, parameters, rotate, **more)


def module_of(parameters: Case, scaling: Case | None, most: int | None = None) -> Any:
    width = parameters.get("rotary_dim", parameters["head_dim"])
    traditional = parameters.get("pairing") == "interleaved"
    return initialize_rope(width, parameters["theta"], traditional, scaling, most)


def plain() -> Iterator[Case]:
    for theta, head_dim, rotary_dim, pairing in (
        (10000.0, 128, 128, "half"),
        (500000.0, 64, 64, "interleaved"),
        (123456.0, 80, 20, "half"),
        (1e6, 96, 48, "interleaved"),
    ):
        parameters = {"theta": theta, "head_dim": head_dim, "rotary_dim": rotary_dim, "pairing": pairing}
        yield turned(f"default, {pairing}", "rope", parameters, module_of(parameters, None))
    parameters = {"theta": 1e6, "head_dim": 80, "rotary_dim": 40, "factor": 8.0}
    scaling = {"rope_type": "linear", "factor": 8.0}
    yield turned("linear", "linear", parameters, module_of(parameters, scaling))
    parameters = {"theta": 500000.0, "head_dim": 128, "factor": 8.0, "original_length": 8192}
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    edges = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "pairing": "interleaved"}
    yield turned("llama3", "llama3", parameters | edges, module_of(parameters | edges, scaling))
    parameters = {"theta": 10000.0, "head_dim": 64, "proportion": 0.5, "factor": 8.0}
    scaling = {"rope_type": "proportional", "partial_rotary_factor": 0.5, "factor": 8.0}
    yield turned("proportional", "proportional", parameters, module_of(parameters, scaling))


def sections() -> Iterator[Case]:
    parameters = {"theta": 1e6, "head_dim": 64, "sections": [8.0, 12.0, 12.0]}
    scaling = {"rope_type": "mrope", "mrope_section": [8, 12, 12]}
    yield turned("mrope, one position for all sections", "rope", parameters, module_of(parameters, scaling))


def dynamic() -> Iterator[Case]:
    parameters = {"theta": 500000.0, "head_dim": 80, "rotary_dim": 40, "factor": 2.0, "max_positions": 4096}
    module = module_of(parameters, {"rope_type": "dynamic", "factor": 2.0}, 4096)
    for position in (0, 1, 4095, 4096, 8191, 32769):
        what = f"dynamic, {position + 1} tokens seen"
        yield turned(what, "dynamic_ntk", parameters, module, positions=[position], seen=position + 1)


def yarn() -> Iterator[Case]:
    oss = {"theta": 150000.0, "head_dim": 64, "factor": 32.0}
    stated = {"original_length": 4096}
    scaling = {"rope_type": "yarn", "factor": 32.0}
    full = scaling | {"original_max_position_embeddings": 4096}
    key = {"keys": {"attention_factor": "rope_parameters.attention_factor"}}
    for what, mine, theirs, more in (
        ("", stated, full, {}),
        (", truncate is not read", stated | {"truncate": 0}, full | {"truncate": False}, {}),
        (", attention_factor is not read", stated | {"attention_factor": 1.5}, full | {"attention_factor": 1.5}, key),
        (
            ", extrapolation_factor is not read",
            stated | {"extrapolation_factor": 0.5},
            full | {"extrapolation_factor": 0.5},
            {},
        ),
        (", mscale alone", stated | {"mscale": 0.707}, full | {"mscale": 0.707}, {}),
        (", mscale_all_dim alone", stated | {"mscale_all_dim": 0.5}, full | {"mscale_all_dim": 0.5}, {}),
        (
            ", both",
            stated | {"mscale": 0.8, "mscale_all_dim": 0.5, "declared": "deepseek_yarn"},
            full | {"mscale": 0.8, "mscale_all_dim": 0.5, "rope_type": "deepseek_yarn"},
            {},
        ),
        (", no original length", {"max_positions": 131072}, scaling, {}),
        (
            ", telechat3",
            stated | {"declared": "telechat3-yarn", "pairing": "interleaved"},
            full | {"rope_type": "telechat3-yarn"},
            {},
        ),
        (
            ", other edges",
            stated | {"beta_fast": 16.0, "beta_slow": 2.0, "rotary_dim": 32},
            full | {"beta_fast": 16.0, "beta_slow": 2.0},
            {},
        ),
    ):  # fmt: skip
        parameters = oss | mine
        yield turned(f"yarn{what}", "yarn", parameters, module_of(parameters, theirs, 131072), **more)


def longrope() -> Iterator[Case]:
    lengths = {"original_length": 4096, "max_positions": 131072}
    phi3 = {"theta": 10000.0, "head_dim": 96, "short_factor": PHI3_MINI_SHORT, "long_factor": PHI3_MINI_LONG}
    scaling = {
        "rope_type": "longrope",
        "short_factor": PHI3_MINI_SHORT,
        "long_factor": PHI3_MINI_LONG,
        "original_max_position_embeddings": 4096,
        "factor": 4.0,
        "attention_factor": 1.5,
    }
    parameters = phi3 | lengths | {"factor": 4.0, "attention_factor": 1.5}
    keys = {"attention_factor": "rope_parameters.attention_factor", "factor": "rope_parameters.factor"}
    module = module_of(phi3, scaling, 131072)
    yield turned("longrope, 1 token seen", "longrope", parameters, module, positions=[0, 1, 100], seen=101, keys=keys)
    yield turned("longrope", "longrope", parameters, module, seen=131072, keys=keys)
    moe = {"theta": 10000.0, "head_dim": 128, "short_factor": PHI35_MOE_SHORT, "long_factor": PHI35_MOE_LONG}
    scales = {"short_mscale": 1.1, "long_mscale": 1.25}
    module = SuScaledRoPE(
        128,
        base=10000.0,
        max_position_embeddings=131072,
        original_max_position_embeddings=4096,
        short_factor=PHI35_MOE_SHORT,
        long_factor=PHI35_MOE_LONG,
        **scales,
    )
    positions = [0, 1, 100]
    yield turned("longrope of PhiMoE", "longrope", moe | lengths | scales, module, positions=positions, seen=101)


def slopes() -> Iterator[Case]:
    for heads in (1, 2, 8, 12, 20, 71, 112):
        found = np.array(mlx.nn.ALiBi.create_alibi_slope(heads)).reshape(-1)
        yield {"what": "nn.ALiBi", "mechanism": "alibi", "parameters": {"heads": heads}, "slopes": digits(found)}


def peer_mlx() -> Case:
    parts = (plain, sections, dynamic, yarn, longrope, slopes)
    sources = ("mlx_lm.models.rope_utils.initialize_rope", "mlx.core.fast.rope", "mlx.nn.ALiBi.create_alibi_slope")
    return {
        "provenance": peer_cases.provenance("mlx", ["mlx", "mlx-cpu", "mlx-lm"], *sources),
        "recipe": "mlx",
        "cases": [case for part in parts for case in part()],
    }


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    sys.exit(write_or_check({"peer_mlx": peer_mlx}, __doc__, peer_cases.agree))
