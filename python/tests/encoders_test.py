# SPDX-License-Identifier: Apache-2.0
"""load(): states and vectors of encoders, decoders beside encoders."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from transformers import BertConfig, BertModel, T5Config, T5ForConditionalGeneration

import locant
from budgets import assert_within

ROWS = [[5, 6, 7, 8, 9], [4, 3]]
VOCAB = 97


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tuple[BertModel, locant.Model]:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCAB, hidden_size=20, num_hidden_layers=2, num_attention_heads=5, intermediate_size=28,
        max_position_embeddings=32,
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False).eval()
    path = tmp_path_factory.mktemp("bert")
    model.save_pretrained(path)
    return model, locant.load(path)


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> tuple[T5ForConditionalGeneration, locant.Model]:
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=VOCAB, d_model=20, d_kv=6, d_ff=28, num_layers=2, num_decoder_layers=3, num_heads=5,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config).eval()
    path = tmp_path_factory.mktemp("t5")
    model.save_pretrained(path)
    return model, locant.load(path)


def wanted(model: BertModel, row: list[int]) -> npt.NDArray[np.float32]:
    with torch.no_grad():
        states: npt.NDArray[np.float32] = model(torch.tensor([row])).last_hidden_state[0].numpy()
    return states


def test_states_are_those_of_transformers(bert: tuple[BertModel, locant.Model]) -> None:
    reference, model = bert
    assert not model.has_head
    assert not model.has_encoder
    states = model.states(ROWS)
    assert states.shape == (2, 5, 20)
    assert np.isnan(states[1, 2:]).all()
    for row, own in zip(ROWS, states, strict=True):
        assert_within(own[: len(row)], wanted(reference, row), "conformance_family", "states")
    assert np.array_equal(model.states(ROWS[0]), states[0])


@pytest.mark.parametrize("pool", ["mean", "cls", "last"])
def test_vectors_pool_the_row_alone(bert: tuple[BertModel, locant.Model], pool: str) -> None:
    reference, model = bert
    vectors = model.embed(ROWS, pool=pool)
    assert vectors.shape == (2, 20)
    for row, vector in zip(ROWS, vectors, strict=True):
        states = wanted(reference, row)
        want = {"mean": states.mean(axis=0), "cls": states[0], "last": states[-1]}[pool]
        assert_within(vector, want, "conformance_family", pool)
    assert np.array_equal(model.embed(ROWS[1], pool=pool), vectors[1])


def test_vectors_of_a_decoder_and_of_text() -> None:
    model = locant.load("rope")
    vectors = model.embed_text(["a truth", "It"])
    assert vectors.shape == (2, model.spec.hidden)
    assert np.array_equal(model.embed_text("It"), vectors[1])


def test_logits_beside_an_encoder(t5: tuple[T5ForConditionalGeneration, locant.Model]) -> None:
    reference, model = t5
    assert model.has_encoder
    decoder = [[0, 3, 4], [0, 9]]
    logits = model.logits(decoder, encoder_ids=ROWS)
    for row, read, own in zip(decoder, ROWS, logits, strict=True):
        with torch.no_grad():
            want = reference(input_ids=torch.tensor([read]), decoder_input_ids=torch.tensor([row])).logits[0].numpy()
        assert_within(own[: len(row)], want, "conformance_family", "t5")


def test_generation_beside_an_encoder(t5: tuple[T5ForConditionalGeneration, locant.Model]) -> None:
    reference, model = t5
    start = model.spec.decoder_start
    assert start == 0
    made = model.generate([[start]] * 2, 6, encoder_ids=ROWS)
    for read, own in zip(ROWS, made, strict=True):
        row = [start]
        while len(row) < 7 and row[-1] not in model.spec.eos:
            with torch.no_grad():
                logits = reference(
                    input_ids=torch.tensor([read]), decoder_input_ids=torch.tensor([row]), use_cache=False
                ).logits
            row.append(int(logits[0, -1].argmax()))
        assert own == row[1:]
    assert model.states(ROWS).shape == (2, 5, 20)


def test_what_is_refused(
    bert: tuple[BertModel, locant.Model], t5: tuple[T5ForConditionalGeneration, locant.Model]
) -> None:
    with pytest.raises(locant.SpecError, match="pool is mean, cls or last, got 'max'"):
        bert[1].embed(ROWS, pool="max")
    with pytest.raises(locant.SpecError, match="states: row 1 is empty, expected a token or more"):
        bert[1].states([[1], []])
    with pytest.raises(locant.SpecError, match="predicts the next token is needed, got bert"):
        bert[1].generate([1], 3)
    with pytest.raises(locant.SpecError, match="encoder_ids are for a model with an encoder, llama has none"):
        locant.load("rope").logits([1], encoder_ids=[2])
    with pytest.raises(locant.SpecError, match="t5 has an encoder, give encoder_ids"):
        t5[1].logits([0])
    with pytest.raises(locant.SpecError, match="encoder_ids must hold 2 rows, as many as ids, got 1"):
        t5[1].generate([[0], [0]], 3, encoder_ids=[5, 6])
    with pytest.raises(IndexError, match="outside vocab"):
        t5[1].logits([0], encoder_ids=[VOCAB])
