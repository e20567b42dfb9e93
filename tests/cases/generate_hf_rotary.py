#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases from the live transformers package of what surrounds a RoPE schedule.

usage: generate_hf_rotary.py [--check]
Writes hf_attention_temperature.json, hf_partial_ropes.json and hf_sections.json beside this file; --check compares
instead: numbers within 2 ulp of f32, the rest exactly.
"""

import functools
import importlib
import sys
from types import SimpleNamespace
from typing import Any

import torch
from transformers import Llama4TextConfig, LlamaConfig
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama4.modeling_llama4 import Llama4TextAttention
from transformers.models.ministral3.modeling_ministral3 import get_llama_4_attn_scale

from generate_hf_schedules import Case, agree
from generate_hf_schedules import provenance as provenance_of
from golden_files import write_or_check

provenance = functools.partial(provenance_of, generator="generate_hf_rotary.py")


def attention_temperature() -> Case:
    """Ministral 3's function, and Llama 4's attention over queries of ones."""
    seen: dict[str, torch.Tensor] = {}

    def capture(module: Any, query: torch.Tensor, *rest: Any, **options: Any) -> tuple[torch.Tensor, None]:
        seen["query"] = query
        return query.transpose(1, 2), None

    ALL_ATTENTION_FUNCTIONS.register("capture", capture)
    tokens = 20000
    positions = [0, 1, 8190, 8191, 8192, 16382, 16383, 19999]
    config = Llama4TextConfig(
        hidden_size=4,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=4,
        num_hidden_layers=4,
        attn_temperature_tuning=True,
    )
    config._attn_implementation = "capture"
    attention = Llama4TextAttention(config, layer_idx=3)
    if attention.use_rope:
        raise SystemExit("llama4: layer 3 has rope")
    with torch.no_grad():
        attention.q_proj.weight.copy_(torch.eye(4))
        hidden = torch.ones(1, tokens, 4)
        attention(hidden, position_embeddings=torch.zeros(1), attention_mask=None)
    llama4 = seen["query"][0, 0, positions, 0].tolist()
    cases = [
        {
            "family": "llama4",
            "parameters": {"scale": config.attn_scale, "floor": int(config.floor_scale), "shift": 1},
            "positions": positions,
            "values": llama4,
        }
    ]
    far = [0, 1, 16383, 16384, 16385, 131072, 1000000]
    values = get_llama_4_attn_scale(torch.tensor([far]), 0.1, 16384).flatten().tolist()
    parameters = {"scale": 0.1, "floor": 16384, "shift": 0}
    cases.append({"family": "ministral3", "parameters": parameters, "positions": far, "values": values})
    return {"provenance": provenance("Llama4TextAttention", "get_llama_4_attn_scale"), "cases": cases}


# One family per body that compute_default_rope_parameters has in the package, as far as it serves text.
FAMILIES = ["llama", "glm", "glm4", "stablelm", "bamba", "nemotron", "persimmon"]
FAMILIES += ["gpt_neox", "phi", "mimo_v2_flash", "step3p7", "gemma3", "cohere_compass", "qwen3_vl"]


def partial_ropes() -> Case:
    """Every family's own default frequencies for the same config, a quarter of the head stated as rotated."""
    cases: list[Case] = []
    rope = {"rope_type": "default", "rope_theta": 123456.0, "partial_rotary_factor": 0.25}
    config = SimpleNamespace(
        head_dim=80,
        hidden_size=160,
        num_attention_heads=2,
        rope_parameters=rope | {"full_attention": rope},
        rope_theta=123456.0,
    )
    for family in FAMILIES:
        module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
        owners = [
            owner
            for owner in vars(module).values()
            if hasattr(owner, "compute_default_rope_parameters") and "Vision" not in owner.__name__
        ]
        function = owners[0].compute_default_rope_parameters
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        extra = {"layer_type": "full_attention"} if "layer_type" in names else {}
        inv_freq = function(config, **extra)[0].tolist()
        parameters = {"theta": 123456.0, "head_dim": 80, "rotary_dim": 2 * len(inv_freq)}
        for case in cases:
            if case["inv_freq"] == inv_freq:
                case["families"].append(family)
                break
        else:
            cases.append({"families": [family], "parameters": parameters, "inv_freq": inv_freq})
    return {"provenance": provenance("compute_default_rope_parameters of each family"), "cases": cases}


def sections() -> Case:
    """Which axis turns which pair: the pairs that move when one axis alone stands at position 1."""
    cases = []
    for family, owner, head_dim, mrope_section, layout in (
        ("qwen2_vl", "Qwen2VLRotaryEmbedding", 128, [16, 24, 24], "chunked"),
        ("qwen3_vl", "Qwen3VLTextRotaryEmbedding", 128, [24, 20, 20], "interleaved"),
        ("qwen3_vl", "Qwen3VLTextRotaryEmbedding", 64, [11, 11, 10], "interleaved"),
        ("ernie4_5_vl_moe", "Ernie4_5_VLMoeTextRotaryEmbedding", 128, [22, 22, 20], "ernie"),
    ):
        module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
        rotary = getattr(module, owner)(
            LlamaConfig(
                hidden_size=2 * head_dim,
                num_attention_heads=2,
                head_dim=head_dim,
                rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": mrope_section},
            )
        )
        pairs = head_dim // 2
        axes = [-1] * pairs
        for axis in range(3):
            positions = torch.zeros(3, 1, 1, dtype=torch.long)
            positions[axis] = 1
            _, sin = rotary(torch.zeros(1), positions)
            # ERNIE repeats every pair next to itself, the others repeat the whole row.
            row = sin.flatten()
            row = row[0::2] if layout == "ernie" else row[:pairs]
            for pair in torch.nonzero(row).flatten().tolist():
                if axes[pair] != -1:
                    raise SystemExit(f"{family}: pair {pair} follows two axes")
                axes[pair] = axis
        parameters = {
            "theta": 10000.0,
            "head_dim": head_dim,
            "sections": [float(size) for size in mrope_section],
            "axis_layout": layout,
        }
        cases.append({"family": family, "parameters": parameters, "axis": axes})
    return {"provenance": provenance("the text rotary modules, one axis at a time"), "cases": cases}


if __name__ == "__main__":
    makes = {f"hf_{make.__name__}": make for make in (attention_temperature, partial_ropes, sections)}
    sys.exit(write_or_check(makes, __doc__, agree))
