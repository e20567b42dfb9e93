# SPDX-License-Identifier: Apache-2.0
"""Families as GGUF files: tiny random models of transformers, written with the gguf package, under --recipe hf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from budgets import assert_within
from command import Locant
from family_zoo import TOKENS, Zoo
from gguf_convert import convert
from models import random_ids
from zoo_encoder_decoders import PairZoo
from zoo_gguf import FILES

# One file of each way in which tensors are named, fused, turned or chosen.
ALWAYS = {
    "llama tied biased", "mixtral", "qwen2moe", "gemma3", "phi2", "phi3", "gpt2", "gptneox", "bloom", "mpt clipped",
    "falcon 40b", "stablelm normed", "command-r normed", "olmo", "olmo2", "glm4", "gpt-oss", "deepseek3 in parts",
    "t5 gated", "bert",
}  # fmt: skip


def reference_of(name: str, model: Any, ids: list[int]) -> np.ndarray:
    rows = torch.tensor([ids])
    with torch.no_grad():
        if name.startswith("t5"):
            return np.asarray(model(input_ids=rows, decoder_input_ids=rows[:, :20]).logits[0].numpy())
        if name == "bert":
            return np.asarray(model.base_model(input_ids=rows).last_hidden_state[0].numpy())
        return np.asarray(model(input_ids=rows, use_cache=False).logits[0].numpy())


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return PairZoo(tmp_path_factory.mktemp("gguf"), {name: file.case for name, file in FILES.items()})


@pytest.mark.parametrize(
    "name", [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.full) for name in FILES]
)
def test_logits(locant: Locant, zoo: Zoo, tmp_path: Path, name: str) -> None:
    file, ids = FILES[name], random_ids(TOKENS, seed=1)
    model = zoo.build(name)
    path = convert(model, file.architecture, file.keys, tmp_path / "model.gguf", file.changes)
    want = reference_of(name, model, ids)
    if name == "bert":
        pooled = tmp_path / "pooled.npy"
        locant.run(path, "--recipe", "hf", "--embed", str(pooled), "--pool", "mean", ids=ids)
        assert_within(np.load(pooled)[0], want.mean(0), "conformance_gguf", f"{name} gguf")
        return
    flags = ["--decoder-ids", ",".join(str(i) for i in ids[:20])] if name.startswith("t5") else []
    got = locant.run(path, "--recipe", "hf", *flags, ids=ids, logits=True).logits[0]
    assert_within(got, want, "conformance_gguf", f"{name} gguf")
