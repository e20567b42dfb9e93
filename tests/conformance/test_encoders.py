# SPDX-License-Identifier: Apache-2.0
"""Encoders against transformers in float32: pooled hidden states, logits of masked-LM heads, real models."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoModelForMaskedLM

from budgets import assert_within, budget, difference
from command import Locant
from family_zoo import DTYPES, TOKENS, Zoo
from models import random_ids
from zoo_encoders import ENCODERS

F32 = NDArray[np.float32]
ALWAYS = {"bert", "roberta", "xlm-roberta", "albert two groups", "distilbert", "electra", "modernbert"}
ALWAYS_BF16 = {"albert"}
POOLS = ("mean", "cls", "last")


@dataclass
class Encoders:
    """transformers, one row at a time, without padding."""

    _models: dict[tuple[Path, bool], Any] = field(default_factory=dict)

    def model(self, path: Path, head: bool) -> Any:
        if (path, head) not in self._models:
            opener = AutoModelForMaskedLM if head else AutoModel
            self._models[path, head] = opener.from_pretrained(
                path, dtype=torch.float32, attn_implementation="eager", local_files_only=True
            ).eval()
        return self._models[path, head]

    def logits(self, path: Path, ids: list[int]) -> F32:
        with torch.no_grad():
            logits: F32 = self.model(path, head=True)(input_ids=torch.tensor([ids])).logits[0].numpy()
        return logits

    def states(self, path: Path, ids: list[int]) -> F32:
        with torch.no_grad():
            out = self.model(path, head=False)(input_ids=torch.tensor([ids]))
        states: F32 = out.last_hidden_state[0].numpy()
        return states


def pooled(states: F32, pool: str) -> F32:
    if pool == "mean":
        return states.mean(0, dtype=np.float64).astype(np.float32)
    vector: F32 = states[0 if pool == "cls" else -1]
    return vector


def embed(locant: Locant, model: Path, rows: list[list[int]], pool: str) -> F32:
    file = locant.save(np.zeros(0))
    locant.run(model, "--embed", str(file), "--pool", pool, ids=rows)
    vectors: F32 = np.load(file)
    assert vectors.dtype == np.float32
    return vectors


def cases() -> list[Any]:
    chosen = []
    for name in ENCODERS:
        for dtype in DTYPES:
            always = name in (ALWAYS if dtype == "f32" else ALWAYS_BF16)
            chosen.append(pytest.param(name, dtype, marks=[] if always else pytest.mark.full, id=f"{name}-{dtype}"))
    return chosen


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return Zoo(tmp_path_factory.mktemp("encoders"), ENCODERS)


@pytest.fixture(scope="module")
def theirs() -> Encoders:
    return Encoders()


@pytest.mark.parametrize(("name", "dtype"), cases())
def test_logits(locant: Locant, theirs: Encoders, zoo: Zoo, name: str, dtype: str) -> None:
    model, rows = zoo.path(name, dtype), [random_ids(TOKENS, seed=1), random_ids(37, seed=2)]
    batch = locant.run(model, "--pad", "right", ids=rows, logits=True).logits
    for index, row in enumerate(rows):
        got = batch[index, : len(row)]
        assert_within(got, theirs.logits(model, row), "conformance_zoo", f"{name} {dtype} row {index}")


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(("name", "dtype"), cases())
def test_pooled_states(locant: Locant, theirs: Encoders, zoo: Zoo, name: str, dtype: str, pool: str) -> None:
    model, rows = zoo.path(name, dtype), [random_ids(TOKENS, seed=1), random_ids(37, seed=2)]
    want = np.stack([pooled(theirs.states(model, row), pool) for row in rows])
    assert_within(embed(locant, model, rows, pool), want, "conformance_zoo", f"{name} {dtype} {pool}")


@pytest.mark.parametrize("name", [name for name, case in ENCODERS.items() if case.of])
def test_its_keys_change_the_logits(theirs: Encoders, zoo: Zoo, name: str) -> None:
    ids = random_ids(TOKENS, seed=1)
    changed = difference(theirs.logits(zoo.path(name), ids), theirs.logits(zoo.path(ENCODERS[name].of), ids))
    assert changed > 10 * budget("conformance_zoo")


@pytest.mark.parametrize("name", ["bert", "roberta", "albert", "electra", "distilbert", "modernbert"])
def test_a_bare_encoder_has_states_and_no_logits(
    locant: Locant, theirs: Encoders, zoo: Zoo, name: str, tmp_path: Path
) -> None:
    zoo.build(name).base_model.save_pretrained(tmp_path)
    ids = random_ids(50, seed=3)
    want = pooled(theirs.states(tmp_path, ids), "mean")[None]
    assert_within(embed(locant, tmp_path, [ids], "mean"), want, "conformance_zoo", f"bare {name}")
    refused = locant.attempt(tmp_path, ids=ids, logits=True)
    assert refused.status == 2
    assert "head" in refused.stderr


def test_trained_albert(locant: Locant, theirs: Encoders, data: Path) -> None:
    model = data / "rxnmapper-albert"
    if not model.is_dir():
        pytest.skip(f"{model} is missing")
    rows = [[12, *random_ids(150, seed=4, vocab=591), 13], [12, *random_ids(41, seed=5, vocab=591), 13]]
    batch = locant.run(model, "--pad", "right", ids=rows, logits=True).logits
    for index, row in enumerate(rows):
        got = batch[index, : len(row)]
        assert_within(got, theirs.logits(model, row), "conformance_real", f"rxnmapper logits, row {index}")
    for pool in POOLS:
        want = np.stack([pooled(theirs.states(model, row), pool) for row in rows])
        assert_within(embed(locant, model, rows, pool), want, "conformance_real", f"rxnmapper {pool}")


def test_minilm(locant: Locant, theirs: Encoders, minilm: Path) -> None:
    """Sentence vectors before they are normalised: [CLS] text [SEP], the mean of all tokens."""
    rows = [[101, *random_ids(count, seed=count, vocab=30522), 102] for count in (7, 120, 254)]
    for pool in POOLS:
        want = np.stack([pooled(theirs.states(minilm, row), pool) for row in rows])
        assert_within(embed(locant, minilm, rows, pool), want, "conformance_real", f"MiniLM {pool}")
