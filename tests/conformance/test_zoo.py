# SPDX-License-Identifier: Apache-2.0
"""The matrix of families: each case in f32 and bf16 weights against transformers computing in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from budgets import assert_within, budget, difference
from command import Locant
from family_zoo import CONTINUED, DTYPES, TOKENS, Zoo
from models import random_ids
from reference import Greedy, Reference
from zoo_decoders import DECODERS
from zoo_mixtures import MIXTURES

CASES = {**DECODERS, **MIXTURES}
# One case of each way in which a layer, a norm, a fused matrix or a rotation differs from Llama's.
ALWAYS = {
    "mistral window", "qwen2 window", "gemma2", "gemma3", "gemma3 inside", "phi normed", "phi3 longrope", "gptj",
    "gpt_neox", "opt 350m", "mpt clipped", "falcon 40b", "falcon rw", "stablelm normed", "cohere normed", "olmo3",
    "granite", "glm4", "smollm3 window", "codegen", "hunyuan_v1_dense", "nemotron", "persimmon", "gpt_bigcode",
    "mixtral window", "gpt_oss", "deepseek_v3 yarn", "deepseek_v2", "qwen2_moe", "qwen3_moe", "olmoe clipped",
    "llama4_text", "granitemoe", "ernie4_5_moe", "glm4_moe qk norm",
}  # fmt: skip
ALWAYS_BF16 = {"gemma3", "opt 350m", "falcon rw", "cohere2", "gpt_oss", "deepseek_v3"}
ROWS = (
    "gemma3",
    "falcon rw",
    "phi3 longrope",
    "mpt",
    "opt",
    "cohere2",
    "mistral dynamic",
    "gpt_oss",
    "deepseek_v3",
    "llama4_text",
)


def cases(dtypes: tuple[str, ...] = tuple(DTYPES)) -> list[object]:
    chosen: list[object] = []
    for name in CASES:
        for dtype in dtypes:
            always = name in (ALWAYS if dtype == "f32" else ALWAYS_BF16)
            chosen.append(pytest.param(name, dtype, marks=[] if always else pytest.mark.full, id=f"{name}-{dtype}"))
    return chosen


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return Zoo(tmp_path_factory.mktemp("zoo"), CASES)


def untied(reference: Reference, model: Path, prompt: int) -> tuple[list[int], Greedy]:
    """Ids whose greedy continuation is decided by no rounding."""
    for seed in range(5, 25):
        ids = random_ids(prompt, seed)
        want = reference.greedy(model, ids, CONTINUED)
        if want.gap > 2 * budget("conformance_zoo"):
            return ids, want
    raise AssertionError("every continuation of the reference has a tie")


@pytest.mark.parametrize(("name", "dtype"), cases())
def test_logits(locant: Locant, reference: Reference, zoo: Zoo, name: str, dtype: str) -> None:
    model, ids = zoo.path(name, dtype), random_ids(TOKENS, seed=1)
    got = locant.run(model, ids=ids, logits=True).logits[0]
    assert_within(got, reference.logits(model, ids), "conformance_zoo", f"{name} {dtype}")


@pytest.mark.parametrize(("name", "dtype"), cases())
def test_greedy(locant: Locant, reference: Reference, zoo: Zoo, name: str, dtype: str) -> None:
    """From 50 tokens past 64, where schedules and windows change."""
    model = zoo.path(name, dtype)
    ids, want = untied(reference, model, 50)
    assert locant.run(model, "--continue", str(CONTINUED), ids=ids).continuation() == want.ids


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.of])
def test_its_keys_change_the_logits(reference: Reference, zoo: Zoo, name: str) -> None:
    ids = random_ids(TOKENS, seed=1)
    plain = reference.logits(zoo.path(CASES[name].of), ids)
    assert difference(reference.logits(zoo.path(name), ids), plain) > 100 * budget("conformance_zoo")


@pytest.mark.parametrize("name", ROWS)
def test_uneven_rows(locant: Locant, reference: Reference, zoo: Zoo, name: str) -> None:
    model, rows = zoo.path(name), [random_ids(TOKENS, seed=2), random_ids(31, seed=3)]
    batch = locant.run(model, "--pad", "right", ids=rows, logits=True).logits
    for index, row in enumerate(rows):
        want = reference.logits(model, row)
        assert_within(batch[index, : len(row)], want, "conformance_zoo", f"{name} row {index}")
        assert np.isnan(batch[index, len(row) :]).all()
