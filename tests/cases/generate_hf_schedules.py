#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases of the RoPE schedules from the live transformers package: what recipe `hf` has to imitate.

usage: generate_hf_schedules.py [--check]
Writes hf_<mechanism>.json of every schedule beside this file; --check compares instead:
frequencies and amplitudes within 2 ulp of f32 (torch's power differs by one between CPUs), the rest exactly.
Each model's own rotary module is called at the length 1, the original, one more, two and eight times the
configured one; lengths that give the same numbers share a case.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
import transformers
from transformers import (
    DeepseekV3Config,
    Gemma3TextConfig,
    Gemma4TextConfig,
    GptOssConfig,
    HunYuanDenseV1Config,
    LlamaConfig,
    Phi3Config,
    PhimoeConfig,
)
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3RotaryEmbedding
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextRotaryEmbedding
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssRotaryEmbedding
from transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense import HunYuanDenseV1RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding
from transformers.models.phimoe.modeling_phimoe import PhimoeRotaryEmbedding

from golden_files import write_or_check
from published_factors import PHI3_MINI_LONG, PHI3_MINI_SHORT, PHI35_MOE_LONG, PHI35_MOE_SHORT

ULP = 2.0**-23
Case = dict[str, Any]


def provenance(*sources: str, generator: str = "generate_hf_schedules.py") -> dict[str, str]:
    return {
        "generator": f"tests/cases/{generator}",
        "package": f"transformers {transformers.__version__}, torch {torch.__version__}, CPU, dtype float32",
        "source": "; ".join(sources),
    }


def read_off(rotary: torch.nn.Module, seen: int, layer_type: str | None) -> tuple[list[float], float]:
    """Frequencies and amplitude in force when `seen` tokens have been seen; the amplitude is cos at position 0."""
    extra = {} if layer_type is None else {"layer_type": layer_type}
    cos, _ = rotary(torch.zeros(1), torch.tensor([[0, seen - 1]]), **extra)
    name = "inv_freq" if layer_type is None else f"{layer_type}_inv_freq"
    return getattr(rotary, name).tolist(), float(cos[0, 0, 0])


def over_lengths(
    family: str,
    parameters: dict[str, Any],
    make: Callable[[], torch.nn.Module],
    lengths: tuple[int, int],
    layer_type: str | None = None,
) -> list[Case]:
    """lengths: the original and the configured one."""
    original, configured = lengths
    cases: list[Case] = []
    for seen in sorted({1, original, original + 1, 2 * configured, 8 * configured}):
        inv_freq, amplitude = read_off(make(), seen, layer_type)
        if cases and cases[-1]["inv_freq"] == inv_freq and cases[-1]["amplitude"] == amplitude:
            cases[-1]["seen"].append(seen)
        else:
            cases.append(
                {
                    "family": family,
                    "parameters": parameters,
                    "seen": [seen],
                    "inv_freq": inv_freq,
                    "amplitude": amplitude,
                }
            )
    return cases


def llama(rope: dict[str, Any], head_dim: int, configured: int) -> Callable[[], torch.nn.Module]:
    def make() -> torch.nn.Module:
        return LlamaRotaryEmbedding(
            LlamaConfig(
                hidden_size=2 * head_dim,
                num_attention_heads=2,
                head_dim=head_dim,
                max_position_embeddings=configured,
                rope_parameters=dict(rope),
            )
        )

    return make


def linear() -> Case:
    def gemma3() -> torch.nn.Module:
        return Gemma3RotaryEmbedding(
            Gemma3TextConfig(
                head_dim=256,
                max_position_embeddings=131072,
                rope_parameters={
                    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                },
            )
        )

    rope = {"rope_type": "linear", "factor": 2.7, "rope_theta": 123456.0, "partial_rotary_factor": 0.25}
    cases = over_lengths(
        "gemma3",
        {"theta": 1000000.0, "head_dim": 256, "factor": 8.0},
        gemma3,
        (131072, 131072),
        "full_attention",
    ) + over_lengths(
        "llama",
        {"theta": 123456.0, "head_dim": 80, "rotary_dim": 20, "factor": 2.7},
        llama(rope, 80, 4096),
        (4096, 4096),
    )
    return {"provenance": provenance("Gemma3RotaryEmbedding", "LlamaRotaryEmbedding"), "cases": cases}


def ntk() -> Case:
    def hunyuan() -> torch.nn.Module:
        return HunYuanDenseV1RotaryEmbedding(
            HunYuanDenseV1Config(
                head_dim=128,
                max_position_embeddings=32768,
                rope_parameters={"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0, "rope_theta": 10000.0},
            )
        )

    cases = over_lengths(
        "hunyuan_v1_dense", {"theta": 10000.0, "head_dim": 128, "alpha": 1000.0}, hunyuan, (32768, 32768)
    )
    return {"provenance": provenance("HunYuanDenseV1RotaryEmbedding"), "cases": cases}


def dynamic_ntk() -> Case:
    cases = []
    for factor, theta, head_dim, partial, configured in (
        (2.0, 10000.0, 128, 1.0, 4096),
        (1.7, 500000.0, 80, 0.25, 2048),
    ):
        rope = {"rope_type": "dynamic", "factor": factor, "rope_theta": theta, "partial_rotary_factor": partial}
        parameters = {
            "theta": theta,
            "head_dim": head_dim,
            "rotary_dim": int(head_dim * partial),
            "factor": factor,
            "max_positions": configured,
        }
        cases += over_lengths("llama", parameters, llama(rope, head_dim, configured), (configured, configured))
    return {"provenance": provenance("LlamaRotaryEmbedding"), "cases": cases}


def yarn() -> Case:
    def gpt_oss() -> torch.nn.Module:
        return GptOssRotaryEmbedding(
            GptOssConfig(
                head_dim=64,
                max_position_embeddings=131072,
                rope_parameters={
                    "rope_type": "yarn",
                    "factor": 32.0,
                    "rope_theta": 150000.0,
                    "beta_fast": 32.0,
                    "beta_slow": 1.0,
                    "truncate": False,
                    "original_max_position_embeddings": 4096,
                },
            )
        )

    def deepseek_v3() -> torch.nn.Module:
        return DeepseekV3RotaryEmbedding(
            DeepseekV3Config(
                max_position_embeddings=163840,
                rope_parameters={
                    "rope_type": "yarn",
                    "factor": 40.0,
                    "rope_theta": 10000.0,
                    "beta_fast": 32,
                    "beta_slow": 1,
                    "mscale": 1.0,
                    "mscale_all_dim": 1.0,
                    "original_max_position_embeddings": 4096,
                },
            )
        )

    oss = {"theta": 150000.0, "head_dim": 64, "factor": 32.0, "original_length": 4096, "truncate": 0}
    seek = {
        "theta": 10000.0,
        "head_dim": 192,
        "rotary_dim": 64,
        "rotary_offset": 128,
        "factor": 40.0,
        "original_length": 4096,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
    }
    cases = over_lengths("gpt_oss", oss, gpt_oss, (4096, 131072))
    cases += over_lengths("deepseek_v3", seek, deepseek_v3, (4096, 163840))
    for more, mine in (
        ({}, {}),
        ({"attention_factor": 1.5}, {"attention_factor": 1.5}),
        ({"mscale": 0.8, "mscale_all_dim": 0.5}, {"mscale": 0.8, "mscale_all_dim": 0.5}),
        ({"mscale": 0.8}, {"mscale": 0.8}),
        ({"beta_fast": 4.0, "partial_rotary_factor": 0.5}, {"beta_fast": 4.0, "rotary_dim": 64}),
    ):
        rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6, "original_max_position_embeddings": 32768}
        parameters = {"theta": 1e6, "head_dim": 128, "factor": 4.0, "original_length": 32768}
        cases += over_lengths("llama", parameters | mine, llama(rope | more, 128, 131072), (32768, 131072))
    sources = ("GptOssRotaryEmbedding", "DeepseekV3RotaryEmbedding", "LlamaRotaryEmbedding")
    return {"provenance": provenance(*sources), "cases": cases}


def longrope() -> Case:
    shared = {"theta": 10000.0, "original_length": 4096, "max_positions": 131072}
    phi3_parameters = shared | {
        "head_dim": 96,
        "short_factor": PHI3_MINI_SHORT,
        "long_factor": PHI3_MINI_LONG,
    }
    moe_parameters = shared | {
        "head_dim": 128,
        "short_factor": PHI35_MOE_SHORT,
        "long_factor": PHI35_MOE_LONG,
        "short_mscale": 1.1,
        "long_mscale": 1.25,
    }

    def phi3() -> torch.nn.Module:
        return Phi3RotaryEmbedding(
            Phi3Config(
                hidden_size=192,
                num_attention_heads=2,
                num_key_value_heads=2,
                max_position_embeddings=131072,
                original_max_position_embeddings=4096,
                rope_parameters={
                    "rope_type": "longrope",
                    "rope_theta": 10000.0,
                    "short_factor": PHI3_MINI_SHORT,
                    "long_factor": PHI3_MINI_LONG,
                },
            )
        )

    def phimoe() -> torch.nn.Module:
        return PhimoeRotaryEmbedding(
            PhimoeConfig(
                hidden_size=256,
                num_attention_heads=2,
                num_key_value_heads=2,
                max_position_embeddings=131072,
                rope_parameters={
                    "rope_type": "longrope",
                    "rope_theta": 10000.0,
                    "original_max_position_embeddings": 4096,
                    "short_factor": PHI35_MOE_SHORT,
                    "long_factor": PHI35_MOE_LONG,
                    "short_mscale": 1.1,
                    "long_mscale": 1.25,
                },
            )
        )

    cases = over_lengths("phi3", phi3_parameters, phi3, (4096, 131072))
    for case in over_lengths("phimoe", moe_parameters, phimoe, (4096, 131072)):
        # The module turns by what its init function gives without a length, whatever its buffer holds.
        rotary = phimoe()
        seen = case["seen"][-1]
        cos, _ = rotary(torch.zeros(1), torch.tensor([[1, seen - 1]]))
        inv_freq, _ = rotary.rope_init_fn(rotary.config)
        if float((cos[0, 0, :64] / case["amplitude"] - torch.cos(inv_freq)).abs().max()) > 2 * ULP:
            raise SystemExit("phimoe: the table is not that of the short factors")
        cases.append(case | {"inv_freq": inv_freq.tolist()})
    return {"provenance": provenance("Phi3RotaryEmbedding", "PhimoeRotaryEmbedding"), "cases": cases}


def llama3() -> Case:
    cases = []
    for head_dim, factor in ((128, 8.0), (64, 32.0)):
        rope = {
            "rope_type": "llama3",
            "factor": factor,
            "rope_theta": 500000.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }
        parameters = {"theta": 500000.0, "head_dim": head_dim, "factor": factor, "original_length": 8192}
        cases += over_lengths("llama", parameters, llama(rope, head_dim, 131072), (8192, 131072))
    return {"provenance": provenance("LlamaRotaryEmbedding"), "cases": cases}


def proportional() -> Case:
    def gemma4() -> torch.nn.Module:
        return Gemma4TextRotaryEmbedding(
            Gemma4TextConfig(
                head_dim=256,
                global_head_dim=512,
                max_position_embeddings=131072,
                rope_parameters={
                    "full_attention": {
                        "rope_type": "proportional",
                        "rope_theta": 1000000.0,
                        "partial_rotary_factor": 0.25,
                    },
                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                },
            )
        )

    parameters = {"theta": 1000000.0, "head_dim": 512, "proportion": 0.25}
    cases = over_lengths("gemma4", parameters, gemma4, (131072, 131072), "full_attention")
    rope = {"rope_type": "proportional", "rope_theta": 10000.0, "partial_rotary_factor": 0.55, "factor": 8.0}
    mine = {"theta": 10000.0, "head_dim": 20, "proportion": 0.55, "factor": 8.0}
    cases += over_lengths("llama", mine, llama(rope, 20, 4096), (4096, 4096))
    return {"provenance": provenance("Gemma4TextRotaryEmbedding", "LlamaRotaryEmbedding"), "cases": cases}


def close(a: float, b: float) -> bool:
    return abs(a - b) <= 2 * ULP * abs(a)


def agree(old: Case, new: Case) -> bool:
    for name in ("inv_freq", "values"):
        if len(old.get(name, [])) != len(new.get(name, [])):
            return False
        if not all(map(close, old.get(name, []), new.get(name, []))):
            return False
    if not close(old.get("amplitude", 1), new.get("amplitude", 1)):
        return False
    soft = ("inv_freq", "values", "amplitude")
    return {k: v for k, v in old.items() if k not in soft} == {k: v for k, v in new.items() if k not in soft}


if __name__ == "__main__":
    schedules = (linear, ntk, dynamic_ntk, yarn, longrope, llama3, proportional)
    makes = {f"hf_{make.__name__}": make for make in schedules}
    sys.exit(write_or_check(makes, __doc__, agree))
