# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct as a real Q4_1 file, against transformers, which de-quantises it to float32."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray

from budgets import assert_within, budget
from command import Locant

PARIS = "The capital of France is"
MIB = 1 << 20
FULL = os.environ.get("LOCANT_FULL") == "1"


@dataclass
class Expanded:
    """The model and tokenizer that transformers makes of the file."""

    model: transformers.PreTrainedModel
    tokenizer: transformers.PreTrainedTokenizerBase

    def ids(self, text: str) -> list[int]:
        return [int(i) for i in self.tokenizer(text)["input_ids"]]

    def logits(self, ids: list[int]) -> NDArray[np.float32]:
        with torch.no_grad():
            return self.model(torch.tensor([ids])).logits[0].numpy()


@pytest.fixture(scope="session")
def expanded(smollm2: Path) -> Expanded:
    options = {"gguf_file": smollm2.name, "local_files_only": True}
    model = transformers.AutoModelForCausalLM.from_pretrained(smollm2.parent, dtype=torch.float32, **options)
    tokenizer = transformers.AutoTokenizer.from_pretrained(smollm2.parent, **options)
    return Expanded(model.eval(), tokenizer)


@pytest.fixture(scope="session")
def prose(data: Path, expanded: Expanded) -> list[int]:
    text = (data / "austen-novels" / "persuasion.txt").read_text()
    return expanded.ids(text[2000:26000])


@pytest.mark.parametrize("recipe", ["llama.cpp", "hf"])
def test_logits(locant: Locant, smollm2: Path, expanded: Expanded, prose: list[int], recipe: str) -> None:
    ids = prose[:200]
    got = locant.run(smollm2, "--recipe", recipe, ids=ids, logits=True).logits[0]
    assert_within(got, expanded.logits(ids), "conformance_zoo", f"SmolLM2 Q4_1, {recipe}")


def test_int8_activations(locant: Locant, smollm2: Path, expanded: Expanded, prose: list[int]) -> None:
    """Opt-in: what llama.cpp does to a product's inputs, no more; the best next token stays nearly always."""
    ids = prose[:200]
    got = locant.run(smollm2, "--activations", "int8", ids=ids, logits=True).logits[0]
    want = expanded.logits(ids)
    assert_within(got, want, "conformance_int8", "SmolLM2 Q4_1, int8 activations")
    assert (got.argmax(-1) == want.argmax(-1)).mean() > 0.9


def test_paris(locant: Locant, smollm2: Path, expanded: Expanded) -> None:
    ids = expanded.ids(PARIS)
    row = locant.run(smollm2, "--continue", "1", ids=ids).rows[0]
    assert row["continuation"]["text"] == " Paris"
    assert row["continuation"]["ids"] == expanded.ids(" Paris")


def test_loss_on_long_text(locant: Locant, smollm2: Path, expanded: Expanded, prose: list[int]) -> None:
    ids = prose[: 4000 if FULL else 500]
    assert len(ids) == (4000 if FULL else 500)
    got = locant.run(smollm2, "--loss", "--ids-file", str(locant.ids_file(np.array(ids)))).rows[0]["loss"]
    logits = torch.from_numpy(expanded.logits(ids)).double()
    want = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:])).item()
    assert abs(got - want) < budget("conformance_loss"), f"{got} nats, transformers {want}"


def test_memory_at_2048_tokens(locant: Locant, smollm2: Path, prose: list[int]) -> None:
    ids = (prose * 2)[:2048]
    result = locant.run(smollm2, "--ids-file", str(locant.ids_file(np.array(ids))))
    layers, kv_heads, width = 30, 3, 64
    cache = layers * 2 * kv_heads * width * 4 * len(ids)
    peak = result.json["timing"]["peak_bytes"]
    assert peak <= smollm2.stat().st_size + cache + 40 * MIB, f"{peak} bytes"


def test_load_is_short(locant: Locant, smollm2: Path) -> None:
    """No copy of the weights: a warm file is mapped. The best of five, on a machine that may be busy."""
    locant.run(smollm2, ids=[1])
    loads = []
    for _ in range(5):
        start = time.perf_counter()
        timing = locant.run(smollm2, ids=[1]).json["timing"]
        loads.append((timing["load_s"], time.perf_counter() - start))
    print(f"load {min(load for load, _ in loads):.3f} s, whole command {min(whole for _, whole in loads):.3f} s")
    assert min(load for load, _ in loads) > 0
