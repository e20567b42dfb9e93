# SPDX-License-Identifier: Apache-2.0
"""Frequency schedules of a llama that do not depend on the length, against transformers in float32."""

from __future__ import annotations

from typing import Any

import pytest

from budgets import assert_within, budget, difference
from command import Locant
from models import ModelShop, Variant, random_ids
from reference import Reference

TOKENS = 300
SCHEDULES: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    "yarn, mscale pair": {
        "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "mscale": 0.7,
        "mscale_all_dim": 1.2, "beta_fast": 16.0, "beta_slow": 2.0,
    },
    "yarn, attention_factor": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "attention_factor": 1.3,
    },
    "yarn, not truncated": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "truncate": False,
    },
    "llama3": {
        "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 128, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(locant: Locant, reference: Reference, shop: ModelShop, name: str) -> None:
    model = shop.make(Variant("llama", {"rope_parameters": {"rope_theta": 20000.0, **SCHEDULES[name]}}))
    ids = random_ids(TOKENS, seed=17)
    want = reference.logits(model, ids)
    assert_within(locant.run(model, ids=ids, logits=True).logits[0], want, "conformance_family", name)
    plain = shop.make(Variant("llama", {"rope_parameters": {"rope_theta": 20000.0, "rope_type": "default"}}))
    assert difference(reference.logits(plain, ids), want) > budget("conformance_family"), f"{name} changed nothing"
