# SPDX-License-Identifier: Apache-2.0
"""`locant compare` says how far two readings of a model move its logits; two runtimes that have these readings are run
on the same weights and tokens, and move them as far.

The models are small and random, the weights larger than a trained model's where a difference would drown in f32
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from budgets import Array, budget
from command import Locant
from gguf_convert import Keys, convert
from models import random_ids
from peer_llama import opened

TOKENS = 96
CAPACITY = 256
LLAMA: dict[str, Any] = {
    "vocab_size": 320, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "intermediate_size": 96, "max_position_embeddings": 256, "tie_word_embeddings": False,
}  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """A model of transformers, the keys of its GGUF file, and the recipes whose readings are compared."""

    kind: str
    config: dict[str, Any]
    architecture: str
    keys: Keys = field(default_factory=dict)
    changes: str = ""
    run_dtype: str = "f32"


def rope(**scaling: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_theta": 10000.0, **scaling}}


YARN_KEYS: Keys = {
    "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64,
}  # fmt: skip
YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}

PAIRS: dict[str, Pair] = {
    "yarn attention_factor": Pair("llama", {**LLAMA, **rope(**YARN, attention_factor=1.0)}, "llama", YARN_KEYS),
    "yarn truncate": Pair("llama", {**LLAMA, **rope(**YARN, truncate=False)}, "llama", YARN_KEYS),
    "dynamic ntk": Pair(
        "llama", {**LLAMA, "max_position_embeddings": 32, **rope(rope_type="dynamic", factor=4.0)}, "llama"
    ),
    "gemma": Pair("gemma", {**LLAMA, "hidden_size": 80, "tie_word_embeddings": True}, "gemma", run_dtype="bf16"),
}


def made(pair: Pair, folder: Path) -> Any:
    """Seeded, saved, in f32. Queries and keys are larger than usual, so that attention looks somewhere."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(pair.kind, **pair.config)).float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "q_proj" in name or "k_proj" in name:
                weight.mul_(12)
    model.save_pretrained(folder)
    return model


def by_transformers(model: Any, ids: list[int]) -> Array:
    with torch.no_grad():
        logits: Array = model(torch.tensor([ids]), use_cache=False).logits[0].float().numpy()
    return logits


def by_llama_cpp(path: Path, ids: list[int]) -> Array:
    with opened(path, CAPACITY) as context:
        return context.forward(ids)


def rounded_scale(model: Any) -> Callable[[Any, Any, Any], Any]:
    """Gemma's factor as a model in bf16 has it, the rest in f32."""
    width = model.config.hidden_size
    exact, rounded = width**0.5, float(torch.tensor(width**0.5).bfloat16())
    return lambda module, inputs, output: output * (rounded / exact)


@pytest.mark.parametrize("name", PAIRS)
def test_the_predicted_change_is_the_measured_one(locant: Locant, tmp_path: Path, name: str) -> None:
    pair = PAIRS[name]
    model = made(pair, tmp_path / "hf")
    file = convert(model, pair.architecture, pair.keys, tmp_path / "model.gguf", pair.changes)
    ids = random_ids(TOKENS, seed=3)
    done = locant.raw(
        "compare", str(tmp_path / "hf"), "--recipes", "hf,llama.cpp", "--run-dtype", pair.run_dtype, "--distance",
        str(TOKENS), "--ids", ",".join(map(str, ids)), "--json",
    )  # fmt: skip
    assert done.status == 1, done.stderr
    predicted = done.json["effect"]["pairs"][0]["largest"]
    if pair.run_dtype == "bf16":
        model.get_input_embeddings().register_forward_hook(rounded_scale(model))
    change = np.abs(by_llama_cpp(file, ids) - by_transformers(model, ids)).max()
    print(f"{name}: predicted {predicted:.4g}, measured {change:.4g}")
    assert abs(predicted - change) <= budget("compare_prediction") * change
