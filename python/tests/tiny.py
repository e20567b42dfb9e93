# SPDX-License-Identifier: Apache-2.0
"""Small random transformers models, and where the repository's files are."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "models"

BASE: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "head_dim": 12, "intermediate_size": 40, "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "rope_parameters": {"rope_type": "default", "rope_theta": 50000.0},
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": BASE,
    "qwen3": BASE,
    "bloom": {"vocab_size": 97, "hidden_size": 48, "n_layer": 2, "n_head": 6},
    "gpt2": {"vocab_size": 97, "n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1,
             "eos_token_id": 2},
}  # fmt: skip


@cache
def model(family: str, attention: str = "eager") -> Any:
    """Of random weights, the same in every run."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(7)
    config = AutoConfig.for_model(family, **CONFIGS[family])
    made = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 1.2 / parameter.shape[1] ** 0.5)
    return made.eval()


def ids(rows: int, tokens: int, seed: int = 3) -> Any:
    """[rows, tokens] int64."""
    import numpy as np

    return np.random.default_rng(seed).integers(5, 91, (rows, tokens), dtype=np.int64)
