# SPDX-License-Identifier: Apache-2.0
"""CTranslate2 against transformers on random tiny models, through CTranslate2's own converter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")

from ctranslate2.converters.transformers import LlamaLoader
from transformers import LlamaConfig, LlamaForCausalLM

from budgets import assert_within, budget, difference
from generate_peer_ctranslate2 import generator
from peer_cases import Floats
from peer_probe import VOCABULARY

IDS = [int(one) for one in np.random.default_rng(7).integers(0, VOCABULARY, 300)]
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def both(folder: Path, rope: dict[str, Any]) -> tuple[Floats, Floats]:
    """Logits [T, V] of CTranslate2 and of transformers for the same random weights."""
    folder.mkdir(exist_ok=True)
    torch.manual_seed(11)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
            rope_parameters={"rope_theta": 20000.0, **rope},
        )
    )
    with torch.no_grad():
        for one in model.parameters():
            if one.dim() == 2:
                one.copy_(torch.randn_like(one) * 0.2)
        theirs = model(torch.tensor([IDS])).logits[0].numpy()
    mine = generator(LlamaLoader().get_model_spec(model), str(folder))(IDS)
    return mine, theirs


@pytest.mark.parametrize("rope", [{"rope_type": "default"}, {"rope_type": "linear", "factor": 4.0}], ids=str)
def test_converted_llama_is_that_of_transformers(tmp_path: Path, rope: dict[str, Any]) -> None:
    mine, theirs = both(tmp_path, rope)
    assert_within(mine, theirs, "conformance_family", str(rope))


def test_llama3_is_plain_rope(tmp_path: Path) -> None:
    """The spec has no place for the factor of a llama3 schedule, so that the runtime takes 1."""
    mine, theirs = both(tmp_path, LLAMA3)
    _, plain = both(tmp_path / "plain", {"rope_type": "default"})
    assert_within(mine, plain, "conformance_family", "llama3")
    assert difference(mine, theirs) > 100 * budget("conformance_family")
