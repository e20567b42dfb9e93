# SPDX-License-Identifier: Apache-2.0
"""load(): models that run from Python."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import locant
import tiny
from budgets import assert_within


@pytest.mark.parametrize("name", ["rope", "alibi", "learned", "sinusoidal", "rope-yarn"])
def test_logits_are_those_of_transformers(name: str) -> None:
    from locant.capture.decoding import load_model

    ids = tiny.ids(2, 20)
    with torch.no_grad():
        want = load_model(str(tiny.MODELS / name))(input_ids=torch.from_numpy(ids)).logits.numpy()
    model = locant.load(name)
    assert_within(model.logits(ids), want, "conformance_family", name)


def test_shapes_follow_the_ids() -> None:
    model = locant.load("rope")
    row = [76, 108, 105, 36]
    one = model.logits(row)
    assert one.shape == (4, model.vocab)
    assert np.array_equal(model.logits(np.array(row)), one)
    assert np.array_equal(model.logits(torch.tensor(row)), one)
    uneven = model.logits([row, [69]])
    assert uneven.shape == (2, 4, model.vocab)
    assert np.isnan(uneven[1, 1:]).all()
    assert_within(uneven[0], one, "conformance_padding", "uneven rows")
    moved = model.logits(row, positions=[3, 4, 5, 6])
    assert moved.shape == one.shape
    assert_within(moved, one, "conformance_shift", "moved positions")  # rotations see distances alone


def test_what_a_model_says() -> None:
    model = locant.load("learned")
    assert model.spec.family == "gpt2"
    assert model.recipe == "hf"
    assert model.plan == locant.plan("learned")
    assert model.last_position == model.plan.embedding[0].rows - 1
    assert model.parameters > 500_000
    assert "gpt2" in repr(model)
    assert locant.load("rope", weights="bf16").weight_bytes < locant.load("rope", weights="f32").weight_bytes


def test_generate_is_greedy_row_by_row() -> None:
    model = locant.load("rope")
    rows = [[76, 108, 105, 36], [69]]
    made = model.generate(rows, 6, end_tokens=[])
    assert [len(row) for row in made] == [6, 6]
    for prompt, answer in zip(rows, made, strict=True):
        fed = list(prompt)
        for token in answer:
            assert int(model.logits(fed)[-1].argmax()) == token
            fed.append(token)
    assert model.generate(rows, 6, end_tokens=[made[0][0]])[0] == made[0][:1]
    assert model.generate(rows, 0) == [[], []]
    text = model.continue_text("It is a truth", 12)
    assert isinstance(text, str)
    assert text


def test_a_tokenizer_is_there() -> None:
    tokenizer = locant.load("rope").tokenizer
    ids = tokenizer.encode("Lily")
    assert tokenizer.decode(ids) == "Lily"
    assert tokenizer.kind == "byte-level"
    assert tokenizer.piece(ids[0]) == "L"


def test_sessions_outlive_the_name_of_their_model() -> None:
    session = locant.load("rope", threads=1).open(8)
    fork = session.fork()
    del session
    assert np.isfinite(fork.forward(np.array([[5, 6]]))).all()


def test_bad_input_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(locant.FileError, match="no such path"):
        locant.load("nope")
    with pytest.raises(locant.SpecError, match="weights are kept as_stored, f32, f16 or bf16"):
        locant.load("rope", weights="int3")
    with pytest.raises(locant.SpecError, match="dtype: one of"):
        locant.load("rope", run_dtype="f8")
    model = locant.load("learned")
    with pytest.raises(IndexError):
        model.logits([10**6])
    with pytest.raises(IndexError):
        model.open(10**6)
    with pytest.raises(locant.SpecError, match="a row must hold a token"):
        model.logits([])
    with pytest.raises(locant.SpecError, match="ids: whole numbers"):
        model.logits("words")
    with pytest.raises(locant.SpecError, match="generate: row 1 is empty"):
        model.generate([[1], []], 2)
    with pytest.raises(locant.SpecError, match="tokens are 0 or more"):
        model.generate([1], -1)


def test_threads_of_python_can_share_a_model() -> None:
    model = locant.load("rope")
    ids = tiny.ids(1, 30)[0]
    want = model.logits(ids)
    got: list[Any] = [None] * 4

    def run(index: int) -> None:
        got[index] = model.logits(ids)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(one, want) for one in got)


def test_a_forked_process_can_compute() -> None:
    locant.head(np.ones((64, 512), dtype=np.float32), np.ones((4096, 512), dtype=np.float32))  # threads are up
    child = os.fork()
    if child == 0:
        out = locant.head(np.ones((64, 512), dtype=np.float32), np.ones((4096, 512), dtype=np.float32))
        os._exit(0 if float(out[0, 0]) == 512.0 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
