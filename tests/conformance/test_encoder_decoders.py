# SPDX-License-Identifier: Apache-2.0
"""Decoders beside encoders against transformers in float32: the decoder's logits and its greedy continuation."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM

from budgets import assert_within, budget, difference
from command import Locant, ids_text
from family_zoo import CONTINUED, DTYPES, TOKENS, Zoo
from models import random_ids
from zoo_encoder_decoders import ENCODER_DECODERS, PairZoo

F32 = NDArray[np.float32]
ALWAYS = {"t5", "t5 gated", "bart", "mbart", "marian", "m2m_100"}
ALWAYS_BF16 = {"t5"}


@dataclass
class Pairs:
    """transformers, one row at a time, without padding."""

    _models: dict[Path, Any] = field(default_factory=dict)

    def model(self, path: Path) -> Any:
        if path not in self._models:
            self._models[path] = AutoModelForSeq2SeqLM.from_pretrained(
                path, dtype=torch.float32, attn_implementation="eager", local_files_only=True
            ).eval()
        return self._models[path]

    def start(self, path: Path) -> int:
        return int(self.model(path).config.decoder_start_token_id)

    def logits(self, path: Path, ids: list[int], decoder: list[int]) -> F32:
        with torch.no_grad():
            out = self.model(path)(input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([decoder]))
        logits: F32 = out.logits[0].numpy()
        return logits

    def greedy(self, path: Path, ids: list[int], count: int) -> tuple[list[int], float]:
        """The best tokens behind the start token, and how near the nearest tie was."""
        decoder, gap = [self.start(path)], float("inf")
        for _ in range(count):
            logits = self.logits(path, ids, decoder)
            best = np.sort(logits[-1])
            gap = min(gap, float((best[-1] - best[-2]) / np.abs(logits).max()))
            decoder.append(int(logits[-1].argmax()))
        return decoder[1:], gap


def cases() -> list[Any]:
    chosen = []
    for name in ENCODER_DECODERS:
        for dtype in DTYPES:
            always = name in (ALWAYS if dtype == "f32" else ALWAYS_BF16)
            chosen.append(pytest.param(name, dtype, marks=[] if always else pytest.mark.full, id=f"{name}-{dtype}"))
    return chosen


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return PairZoo(tmp_path_factory.mktemp("pairs"), ENCODER_DECODERS)


@pytest.fixture(scope="module")
def theirs() -> Pairs:
    return Pairs()


def check_logits(locant: Locant, theirs: Pairs, model: Path, what: str) -> None:
    rows = [random_ids(TOKENS, seed=1), random_ids(37, seed=2)]
    decoders = [[theirs.start(model), *random_ids(count, seed=count)] for count in (120, 9)]
    flags = [part for decoder in decoders for part in ("--decoder-ids", ids_text(decoder))]
    batch = locant.run(model, "--pad", "right", *flags, ids=rows, logits=True).logits
    for index, (row, decoder) in enumerate(zip(rows, decoders, strict=True)):
        want = theirs.logits(model, row, decoder)
        assert_within(batch[index, : len(decoder)], want, "conformance_zoo", f"{what} row {index}")


@pytest.mark.parametrize(("name", "dtype"), cases())
def test_logits(locant: Locant, theirs: Pairs, zoo: Zoo, name: str, dtype: str) -> None:
    check_logits(locant, theirs, zoo.path(name, dtype), f"{name} {dtype}")


@pytest.mark.parametrize(("name", "dtype"), cases())
def test_greedy(locant: Locant, theirs: Pairs, zoo: Zoo, name: str, dtype: str) -> None:
    """From the decoder's start token alone."""
    model = zoo.path(name, dtype)
    for seed in range(6, 26):
        ids = random_ids(60, seed)
        want, gap = theirs.greedy(model, ids, CONTINUED)
        if gap > 2 * budget("conformance_zoo"):
            break
    else:
        raise AssertionError("every continuation of the reference has a tie")
    assert locant.run(model, "--continue", str(CONTINUED), ids=ids).continuation() == want


@pytest.mark.parametrize("name", [name for name, case in ENCODER_DECODERS.items() if case.of])
def test_its_keys_change_the_logits(theirs: Pairs, zoo: Zoo, name: str) -> None:
    path, plain = zoo.path(name), zoo.path(ENCODER_DECODERS[name].of)
    ids, decoder = random_ids(TOKENS, seed=1), [theirs.start(path), *random_ids(40, seed=2)]
    changed = difference(theirs.logits(path, ids, decoder), theirs.logits(plain, ids, decoder))
    assert changed > 10 * budget("conformance_zoo")


def test_t5_takes_a_head_of_its_own(locant: Locant, theirs: Pairs, zoo: Zoo, tmp_path: Path) -> None:
    """Where a checkpoint holds one, whatever tie_word_embeddings says."""
    zoo.build("t5 gated").save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["lm_head.weight"] = torch.flip(tensors["shared.weight"], [0]).contiguous()
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    check_logits(locant, theirs, tmp_path, "t5 with a head of its own")
