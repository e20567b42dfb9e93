# SPDX-License-Identifier: Apache-2.0
"""`locant compare` says how far two readings of a model move its logits; two runtimes that have these readings are run
on the same weights and tokens, and move them as far.

The models are small and random, the weights larger than a trained model's where a difference would drown in f32
otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers", reason="transformers is not installed")

import torch
from compare_peers import by_llama_cpp, by_mlx, by_onnxruntime, by_transformers, made

from budgets import Array, budget
from command import Locant
from gguf_convert import Keys
from models import VOCAB, random_ids

LLAMA: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "intermediate_size": 96, "max_position_embeddings": 256, "tie_word_embeddings": False,
}  # fmt: skip
MISTRAL: dict[str, Any] = LLAMA | {"sliding_window": None}
PHI3: dict[str, Any] = {key: value for key, value in LLAMA.items() if key != "head_dim"} | {
    "original_max_position_embeddings": 64, "pad_token_id": 0, "sliding_window": None,
}  # fmt: skip
FALCON: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 256, "tie_word_embeddings": False,
}  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """A model of transformers and the runtime it is held against: the keys of its GGUF file, or its builder."""

    runtime: str
    kind: str
    config: dict[str, Any]
    keys: Keys = field(default_factory=dict)
    builder: str = ""
    run_dtype: str = "f32"
    tokens: int = 96


def rope(**scaling: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_theta": 10000.0, **scaling}}


YARN_KEYS: Keys = {
    "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64,
}  # fmt: skip
YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
# edges inside the head, which genai's builder asks for
EDGED: dict[str, Any] = YARN | {"beta_fast": 4.0, "beta_slow": 1.0}
LONGROPE: dict[str, Any] = {
    "rope_type": "longrope", "short_factor": [1.0 + pair / 16 for pair in range(8)],
    "long_factor": [1.0 + pair / 2 for pair in range(8)],
}  # fmt: skip

PAIRS: dict[str, Pair] = {
    "yarn attention_factor, llama.cpp": Pair(
        "llama.cpp", "llama", {**LLAMA, **rope(**YARN, attention_factor=1.0)}, YARN_KEYS
    ),
    "yarn truncate, llama.cpp": Pair("llama.cpp", "llama", {**LLAMA, **rope(**YARN, truncate=False)}, YARN_KEYS),
    "dynamic ntk, llama.cpp": Pair(
        "llama.cpp", "llama", {**LLAMA, "max_position_embeddings": 32, **rope(rope_type="dynamic", factor=4.0)}
    ),
    "gemma, llama.cpp": Pair(
        "llama.cpp", "gemma", {**LLAMA, "hidden_size": 160, "tie_word_embeddings": True}, run_dtype="bf16"
    ),
    "falcon, llama.cpp": Pair(
        "llama.cpp",
        "falcon",
        {**FALCON, **rope(**YARN, attention_factor=1.0)},
        YARN_KEYS | {"attention.head_count_kv": 1},
    ),
    "yarn attention_factor, mlx": Pair("mlx", "llama", {**LLAMA, **rope(**YARN, attention_factor=1.0)}),
    "yarn truncate, mlx": Pair("mlx", "llama", {**LLAMA, **rope(**YARN, truncate=False)}),
    "longrope, mlx": Pair("mlx", "phi3", {**PHI3, **rope(**LONGROPE)}, tokens=48),
    "yarn attention_factor, onnxruntime": Pair(
        "onnxruntime", "mistral", {**MISTRAL, **rope(**EDGED, attention_factor=1.0)}, builder="mistral.MistralModel"
    ),
    "yarn edges, onnxruntime": Pair(
        "onnxruntime", "mistral", {**MISTRAL, **rope(**EDGED)}, builder="mistral.MistralModel"
    ),
    "yarn mscale, onnxruntime": Pair(
        "onnxruntime", "mistral", {**MISTRAL, **rope(**EDGED, mscale=1.0)}, builder="mistral.MistralModel"
    ),
}


def as_in_bf16(model: Any) -> None:
    """Gemma's factor and the tables of cos and sin as a model in bf16 has them, the rest stays in f32."""
    width = model.config.hidden_size
    ratio = float(torch.tensor(width**0.5).bfloat16()) / width**0.5
    model.get_input_embeddings().register_forward_hook(lambda module, inputs, output: output * ratio)
    model.model.rotary_emb.register_forward_hook(
        lambda module, inputs, output: tuple(table.bfloat16().float() for table in output)
    )


def by_the_other(pair: Pair, model: Any, ids: list[int], folder: Path) -> Array:
    if pair.runtime == "mlx":
        return by_mlx(folder / "hf", ids)
    if pair.runtime == "onnxruntime":
        return by_onnxruntime(folder / "hf", pair.builder, ids)
    return by_llama_cpp(model, pair.kind, pair.keys, ids, folder)


@pytest.mark.parametrize("name", PAIRS)
def test_the_predicted_change_is_the_measured_one(locant: Locant, tmp_path: Path, name: str) -> None:
    pair = PAIRS[name]
    model = made(pair.kind, pair.config, tmp_path / "hf")
    ids = random_ids(pair.tokens, seed=3)
    other = by_the_other(pair, model, ids, tmp_path)
    done = locant.raw(
        "compare", str(tmp_path / "hf"), "--recipes", f"hf,{pair.runtime}", "--run-dtype", pair.run_dtype,
        "--distance", str(pair.tokens), "--ids", ",".join(map(str, ids)), "--json",
    )  # fmt: skip
    assert done.status == 1, done.stderr
    predicted = done.json["effect"]["pairs"][0]["largest"]
    if pair.run_dtype == "bf16":
        as_in_bf16(model)
    change = np.abs(other - by_transformers(model, ids)).max()
    print(f"{name}: predicted {predicted:.4g}, measured {change:.4g}")
    assert abs(predicted - change) <= budget("compare_prediction") * change
