# SPDX-License-Identifier: Apache-2.0
"""Slopes, buckets, sinusoids and partial rotations that transformers makes of configs: tests/spec/golden/tables.json.

generate_tables.py writes it, generate_tables.py --check says whether it is what this transformers would write.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, PretrainedConfig, XLNetModel
from transformers.models.bloom.modeling_bloom import build_alibi_tensor as build_bloom
from transformers.models.ctrl.modeling_ctrl import positional_encoding
from transformers.models.falcon.modeling_falcon import build_alibi_tensor as build_falcon
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.pegasus.modeling_pegasus import PegasusSinusoidalPositionalEmbedding
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.whisper.modeling_whisper import sinusoids
from transformers.models.xglm.modeling_xglm import XGLMSinusoidalPositionalEmbedding

Config = dict[str, Any]
HERE = Path(__file__).resolve().parent
# The script beside this one; tests/cases has another of its name.
configs_of: Any = importlib.import_module("generate")
RELATIVE = [*range(-200, 201), -100000, -513, -512, 512, 513, 100000]
POSITIONS = [0, 1, 2, 28, 255, 256, 257, 511, 1022]


def short(values: torch.Tensor) -> Any:
    """Nine significant digits, enough for every f32."""
    return [short(one) for one in values] if values.dim() else float(f"{values.item():.9g}")


def made(config: Config) -> PretrainedConfig:
    values = json.loads(json.dumps(config))
    return AutoConfig.for_model(values.pop("model_type"), **values)


def slopes() -> list[dict[str, Any]]:
    """Falcon's are bf16; MPT's bias counts back from the last key."""
    configs: list[Config] = [
        {"model_type": "bloom", "n_head": 32, "hidden_size": 64, "n_layer": 1, "vocab_size": 9},
        {"model_type": "bloom", "n_head": 12, "hidden_size": 48, "n_layer": 1, "vocab_size": 9},
        {"model_type": "falcon", "alibi": True, "num_attention_heads": 71, "hidden_size": 142},
        {"model_type": "falcon", "alibi": True, "num_attention_heads": 64, "hidden_size": 128},
        {"model_type": "mpt", "n_heads": 12, "d_model": 24},
        {"model_type": "mpt", "n_heads": 20, "d_model": 40, "attn_config": {"alibi": True, "alibi_bias_max": 16}},
    ]
    rows = []
    two = torch.ones(1, 2, dtype=torch.long)
    for config in configs:
        full = made(config)
        if full.model_type == "mpt":
            found = -build_mpt_alibi_tensor(full.n_heads, 2, full.attn_config.alibi_bias_max)[:, 0, 0]
        else:
            build = build_bloom if full.model_type == "bloom" else build_falcon
            found = build(two, full.num_attention_heads, torch.float32)[:, 0, 1]
        rows.append({"config": config, "slopes": short(found.double())})
    return rows


def buckets() -> list[dict[str, Any]]:
    configs: list[Config] = [
        {"model_type": "t5"},
        {"model_type": "mt5", "relative_attention_num_buckets": 64, "relative_attention_max_distance": 300},
        {"model_type": "umt5", "relative_attention_num_buckets": 12},
    ]
    rows = []
    for config in configs:
        full = made(config)
        count, most = full.relative_attention_num_buckets, full.relative_attention_max_distance
        given = torch.tensor(RELATIVE)
        rows.append(
            {
                "config": config,
                "relative": RELATIVE,
                "encoder": T5Attention._relative_position_bucket(given, True, count, most).tolist(),
                "decoder": T5Attention._relative_position_bucket(given, False, count, most).tolist(),
            }
        )
    return rows


def table_of(config: PretrainedConfig) -> torch.Tensor:
    """Rows of positions, wherever the class keeps them."""
    count, width = POSITIONS[-1] + 1, getattr(config, "d_model", 0) or getattr(config, "n_embd", 0)
    if config.model_type == "ctrl":
        return positional_encoding(count, width, torch.float32)
    if config.model_type == "whisper":
        return sinusoids(count, width)
    if config.model_type in ("xglm", "m2m_100"):
        owner = {"xglm": XGLMSinusoidalPositionalEmbedding, "m2m_100": M2M100SinusoidalPositionalEmbedding}
        return owner[config.model_type](count + 2, width, config.pad_token_id).weights[2:]
    dialects = {"marian": MarianSinusoidalPositionalEmbedding, "pegasus": PegasusSinusoidalPositionalEmbedding}
    return dialects[config.model_type](count, width).create_weight()


def rows_of_sinusoids() -> list[dict[str, Any]]:
    heads = {"decoder_attention_heads": 8, "encoder_attention_heads": 8}
    configs: list[Config] = [
        {"model_type": "marian", "d_model": 512, **heads},
        {"model_type": "pegasus", "d_model": 96, **heads},
        {"model_type": "m2m_100", "d_model": 64, **heads},
        {"model_type": "whisper", "d_model": 64, **heads},
        {"model_type": "ctrl", "n_embd": 48, "n_head": 4},
        {"model_type": "xglm", "d_model": 64, "num_layers": 2, "attention_heads": 4, "ffn_dim": 8,
         "vocab_size": 30, "max_position_embeddings": 64},
    ]  # fmt: skip
    found = []
    for config in configs:
        table = table_of(made(config))
        width = table.shape[1]
        columns = sorted({0, 1, 28 % width, width // 2 - 1, width // 2, (width // 2 + 28) % width, width - 1})
        found.append(
            {
                "config": config,
                "positions": POSITIONS,
                "columns": columns,
                "rows": short(table[POSITIONS][:, columns].double()),
            }
        )
    config = {"model_type": "xlnet", "d_model": 48, "n_head": 4, "n_layer": 1, "d_inner": 8, "vocab_size": 9}
    tokens = POSITIONS[-1]
    table = XLNetModel(made(config)).eval().relative_positional_encoding(tokens, tokens, bsz=1)[:, 0]
    columns = [0, 1, 23, 24, 25, 47]
    rows = short(table[[tokens - p for p in POSITIONS]][:, columns].double())
    found.append({"config": config, "positions": POSITIONS, "columns": columns, "rows": rows})
    return found


def plain(rope: dict[str, Any], factor: float) -> dict[str, Any]:
    """The plain schedule with a partial factor, in each block."""
    blocks: dict[str, Any] = {key: plain(value, factor) for key, value in rope.items() if isinstance(value, dict)}
    return blocks or {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": factor}


def pairs_of(name: str, factor: float) -> int | None:
    config = configs_of.text_of(configs_of.text_config(name))
    module = configs_of.modeling(config)
    owners = [] if module is None else configs_of.classes(module, "RotaryEmbedding")
    owners = [owner for owner in owners if hasattr(owner, "compute_default_rope_parameters")]
    if not owners or not getattr(config, "rope_parameters", None):
        return None
    config.rope_parameters = plain(config.rope_parameters, factor)
    layer = next((key for key, value in config.rope_parameters.items() if isinstance(value, dict)), None)
    compute: Any = owners[0].compute_default_rope_parameters
    found = compute(config, layer_type=layer) if layer is not None else compute(config)
    return len(found[0])


# Latent heads have a width of their own; Gemma 4 and DeepSeek-V4 state theirs per layer.
OTHER_WIDTHS = {"deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "glm_moe_dsa", "minicpm3", "mistral4",
                "gemma4_text"}  # fmt: skip


def partial() -> dict[str, str]:
    """Whether a class rotates half of a head or the whole where a config without schedule asks for half."""
    found = {}
    for name in sorted({*configs_of.FAMILIES, *configs_of.ALSO} - OTHER_WIDTHS):
        half = pairs_of(name, 0.5)
        if half is not None:
            found[name] = "whole" if half == pairs_of(name, 1.0) else "half"
    return found


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    parts = {"slopes": slopes(), "buckets": buckets(), "rows": rows_of_sinusoids(), "partial": partial()}
    lines = [f' "transformers": {json.dumps(transformers.__version__)}']
    for name, part in parts.items():
        if isinstance(part, dict):
            lines.append(f' "{name}": {json.dumps(part)}')
            continue
        entries = [f"  {json.dumps(row, separators=(',', ':'))}" for row in part]
        lines.append(f' "{name}": [\n' + ",\n".join(entries) + "\n ]")
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    path = HERE / "tables.json"
    if not arguments:
        path.write_text(text)
        return 0
    if not path.exists() or path.read_text() != text:
        print(f"differs: {path.name}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
