# SPDX-License-Identifier: Apache-2.0
"""Runtimes in Python: the adapters hold what runtime.h demands, and check() drives them."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import locant
import tiny
from budgets import assert_within, budget
from locant import _locant
from locant.runtime import Runtime, from_callable, from_transformers


def callable_of(model: Any) -> Runtime:
    def call(ids: Any, mask: Any, positions: Any) -> Any:
        with torch.no_grad():
            return model(
                input_ids=torch.from_numpy(ids),
                attention_mask=torch.from_numpy(mask),
                position_ids=torch.from_numpy(positions),
                use_cache=False,
            ).logits

    return from_callable(call, model.config.vocab_size)


def runtimes(family: str = "llama") -> list[Runtime]:
    model = tiny.model(family)
    return [from_transformers(model), callable_of(model)]


def alone(model: Any, row: list[int]) -> Any:
    with torch.no_grad():
        return model(input_ids=torch.tensor([row])).logits[0].numpy()


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_padding_is_not_seen_and_takes_no_position(which: int, family: str) -> None:
    model = tiny.model(family)
    long, short = tiny.ids(1, 9)[0].tolist(), [9, 8, 7, 6]
    for side in ("left", "right"):
        session = runtimes(family)[which].open(32)
        gap = [0] * 5
        ids = np.array([long, gap + short if side == "left" else short + gap])
        mask = np.array([[1] * 9, [0] * 5 + [1] * 4 if side == "left" else [1] * 4 + [0] * 5])
        logits = session.forward(ids, mask)
        assert logits.shape == (2, 9, 97)
        assert logits.dtype == np.float32
        assert np.isnan(logits[1][mask[1] == 0]).all()
        assert_within(logits[0], alone(model, long), "conformance_padding", f"{family} {side}")
        assert_within(logits[1][mask[1] == 1], alone(model, short), "conformance_padding", f"{family} {side}")
        # a later call goes on behind the content
        step = session.forward(np.array([[11], [12]]))
        assert_within(step[1], alone(model, [*short, 12])[-1:], "conformance_padding", f"{family} {side} step")


@pytest.mark.parametrize("which", [0, 1])
def test_chunks_and_forks(which: int) -> None:
    model = tiny.model("llama")
    row = tiny.ids(1, 12)[0].tolist()
    session = runtimes()[which].open(16)
    session.forward(np.array([row[:5]]))
    fork = session.fork()
    assert fork is not None
    other = fork.forward(np.array([[3, 4]]))
    rest = session.forward(np.array([row[5:]]))
    assert_within(rest[0], alone(model, row)[5:], "conformance_padding", "chunks")
    assert_within(other[0], alone(model, [*row[:5], 3, 4])[5:], "conformance_padding", "fork")


@pytest.mark.parametrize("which", [0, 1])
def test_positions_that_are_asked_for(which: int) -> None:
    model = tiny.model("gpt2")
    row = [9, 8, 7]
    session = runtimes("gpt2")[which].open(16)
    got = session.forward(np.array([row]), None, np.array([[[5, 6, 7]]]))
    with torch.no_grad():
        want = model(input_ids=torch.tensor([row]), position_ids=torch.tensor([[5, 6, 7]])).logits[0].numpy()
    assert_within(got[0], want, "conformance_padding", "positions")
    # counting goes on behind the largest position
    step = session.forward(np.array([[6]]))
    with torch.no_grad():
        want = model(input_ids=torch.tensor([[*row, 6]]), position_ids=torch.tensor([[5, 6, 7, 8]])).logits[0, -1:]
    assert_within(step[0], want.numpy(), "conformance_padding", "after positions")


@pytest.mark.parametrize("which", [0, 1])
def test_a_refused_call_feeds_nothing(which: int) -> None:
    model = tiny.model("llama")
    session = runtimes()[which].open(4)
    session.forward(np.array([[9, 8]]))
    for ids, mask, error, said in [
        (np.array([[97]]), None, IndexError, "token 97 is outside vocab 97"),
        (np.array([[-1]]), None, IndexError, "token -1 is outside"),
        (np.array([[1, 2, 3]]), None, IndexError, "5 tokens are past the capacity 4"),
        (np.array([[1], [2]]), None, ValueError, "ids must have the session's 1 rows, got 2"),
        (np.array([1]), None, ValueError, "ids must be"),
        (np.array([[1, 2]]), np.array([[1]]), ValueError, "mask must be"),
    ]:
        with pytest.raises(error, match=said):
            session.forward(ids, mask)
    with pytest.raises(ValueError, match="positions must be"):
        session.forward(np.array([[1]]), None, np.array([[1]]))
    after = session.forward(np.array([[7]]))
    assert_within(after[0], alone(model, [9, 8, 7])[-1:], "conformance_padding", "after a refusal")


def test_ids_at_padding_may_be_anything() -> None:
    session = from_transformers(tiny.model("llama")).open(8)
    logits = session.forward(np.array([[10**6, 9]]), np.array([[0, 1]]))
    assert np.isfinite(logits[0, 1]).all()


def test_a_table_ends_and_a_model_may_take_no_positions() -> None:
    with pytest.raises(IndexError, match="capacity 65 is past the table's end, it has 64 rows"):
        from_transformers(tiny.model("gpt2")).open(65)
    bloom = from_transformers(tiny.model("bloom"))
    with pytest.raises(ValueError, match="takes no position_ids"):
        bloom.open(8).forward(np.array([[5]]), None, np.array([[[3]]]))
    with pytest.raises(ValueError, match="at least 1 token"):
        bloom.open(0)
    with pytest.raises(ValueError, match="a causal language model or its path, got int"):
        from_transformers(3)


def test_a_callable_may_count_for_itself() -> None:
    model = tiny.model("bloom")

    def call(ids: Any, mask: Any) -> Any:
        with torch.no_grad():
            return model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).logits

    session = from_callable(call, 97).open(8)
    logits = session.forward(np.array([[0, 0, 9, 8], [5, 6, 7, 8]]), np.array([[0, 0, 1, 1], [1, 1, 1, 1]]))
    assert_within(logits[0, 2:], alone(model, [9, 8]), "conformance_padding", "a callable of two")
    with pytest.raises(locant.SpecError, match="this callable takes no positions"):
        session.forward(np.array([[1], [2]]), None, np.array([[[1], [2]]]))


def test_the_models_own_count_is_judged() -> None:
    """A model that counts padding too gives other answers in a padded batch; positions that are asked for stand."""
    model = tiny.model("gpt2")

    def counted(inputs: Any, given: Any) -> Any:
        return torch.arange(given["attention_mask"].shape[1])[None]

    ids, mask = np.array([[0, 0, 0, 9, 8, 7], [5, 6, 7, 8, 9, 3]]), np.array([[0, 0, 0, 1, 1, 1], [1] * 6])
    asked = np.array([[[0, 0, 0, 0, 1, 2], [0, 1, 2, 3, 4, 5]]])
    right = from_transformers(model).open(8).forward(ids, mask)
    with mock.patch.object(model, "_prepare_position_ids_for_generation", counted):
        wrong = from_transformers(model).open(8).forward(ids, mask)
        stated = from_transformers(model).open(8).forward(ids, mask, asked)
    assert np.array_equal(wrong[1], right[1])
    assert np.array_equal(stated, right, equal_nan=True)
    assert np.abs(wrong[0, 3:] - right[0, 3:]).max() > 100 * budget("conformance_padding")


def test_a_callable_of_the_wrong_shape_is_told() -> None:
    runtime = from_callable(lambda ids, mask, positions: np.zeros((1, 1, 1)), 5)
    with pytest.raises(locant.SpecError, match=r"logits must be \[1, 2, 5\], got \[1, 1, 1\]"):
        runtime.open(4).forward(np.array([[1, 2]]))
    with pytest.raises(locant.SpecError, match="vocab must be 1 or more"):
        from_callable(lambda *given: None, 0)


def test_locants_own_sessions_speak_the_same() -> None:
    model = locant.load("rope")
    session = model.open(16)
    whole = session.forward(np.array([[76, 108, 105, 36], [0, 0, 69, 70]]), np.array([[1, 1, 1, 1], [0, 0, 1, 1]]))
    assert np.isnan(whole[1, :2]).all()
    assert_within(whole[0], model.logits([76, 108, 105, 36]), "conformance_padding", "own session")
    fork = session.fork()
    assert np.array_equal(fork.forward(np.array([[3], [4]])), session.forward(np.array([[3], [4]])))
    with pytest.raises(IndexError):
        session.forward(np.full((2, 1), 10**6))
    with pytest.raises(ValueError, match="ids is"):
        session.forward(np.zeros((2, 1), dtype=np.float32))


def test_check_drives_every_kind_of_runtime() -> None:
    model = tiny.model("llama")
    calls: list[tuple[int, ...]] = []

    class Watched(Runtime):
        inner = from_transformers(model)
        name = "watched"
        vocab = 97

        def open(self, capacity: int) -> locant.RuntimeSession:
            calls.append((capacity,))
            return self.inner.open(capacity)

    for runtime in (from_transformers(model), Watched(), callable_of(model), "hf"):
        report = locant.check(model, runtime=runtime, ids=[5, 6, 7, 8, 9, 10, 11, 12])
        assert report.findings == []
    if any(rule.id.startswith("M") for rule in locant.rules()):
        assert calls
    assert locant.check("rope", runtime="locant").errors == []
    assert locant.check("rope", runtime=locant.load("rope")).errors == []


def test_the_rules_side_of_a_python_runtime() -> None:
    """The same calls through the interface that the rules use."""
    model = tiny.model("llama")
    row = tiny.ids(1, 6)[0].tolist()
    session = _locant.open_session(from_transformers(model), 16)
    logits = session.forward(np.array([row, [0, 0, 0, 9, 8, 7]]), np.array([[1] * 6, [0, 0, 0, 1, 1, 1]]))
    assert np.isnan(logits[1, :3]).all()
    assert_within(logits[0], alone(model, row), "conformance_padding", "through the interface")
    fork = session.fork()
    assert np.array_equal(fork.forward(np.array([[3], [4]])), session.forward(np.array([[3], [4]])))
    positions = np.array([[[20, 21], [5, 6]]])
    assert session.forward(np.array([[3, 4], [4, 5]]), None, positions).shape == (2, 2, 97)
    with pytest.raises(IndexError, match="token 97 is outside vocab 97"):
        session.forward(np.array([[97], [1]]))
    with pytest.raises(locant.SpecError, match="the session's 2 rows"):
        session.forward(np.array([[1]]))


def test_exceptions_of_a_runtime_come_back_as_they_are() -> None:
    class Own(Exception):
        pass

    def call(ids: Any, mask: Any, positions: Any) -> Any:
        raise Own("mine")

    session = _locant.open_session(from_callable(call, 5), 4)
    with pytest.raises(Own, match="mine"):
        session.forward(np.array([[1]]))

    class Held(locant.RuntimeSession):
        def forward(self, ids: Any, mask: Any = None, positions: Any = None) -> Any:
            return torch.zeros(*ids.shape, 5, dtype=torch.float64)

    class Bare(Runtime):
        name, vocab = "bare", 5

        def open(self, capacity: int) -> locant.RuntimeSession:
            return Held()

    session = _locant.open_session(Bare(), 4)
    assert session.forward(np.array([[1, 2]])).shape == (1, 2, 5)
    with pytest.raises(locant.SpecError, match="fork: the runtime cannot copy a session"):
        session.fork()
    assert Bare().with_positions(locant.PositionSpec("rope")) is None
