# SPDX-License-Identifier: Apache-2.0
"""diff(): where two traces part."""

from __future__ import annotations

import json

import pytest

import locant
import tiny
from locant import _locant
from locant.capture.decoding import record_rows


@pytest.fixture(autouse=True)
def _command() -> None:
    if "no command" in _locant.command_text(["diff", "--help"])[2]:
        pytest.skip("the command has no diff")


def test_two_runs_of_one_model_agree() -> None:
    model = tiny.model("llama")
    first, second = (record_rows(model, [[9, 8, 7, 6]], steps=1) for _ in range(2))
    told = locant.diff(first, second)
    assert told
    assert told.first is None
    assert told.differing == []
    assert told.tensors_compared > 10


def test_the_first_difference_is_named() -> None:
    model = tiny.model("llama")
    want = record_rows(model, [[9, 8, 7, 6]])
    got = record_rows(model, [[9, 8, 7, 6]])
    got.tensors["layers.1.attn.q"] = got.tensors["layers.1.attn.q"] * 1.5
    told = locant.diff(want, got)
    assert not told
    assert told.first is not None
    assert told.first["tensor"] == "layers.1.attn.q"
    assert json.loads(told.to_json()) == told.to_dict()
    assert "layers.1.attn.q" in str(told)


def test_damaged_traces_are_refused() -> None:
    with pytest.raises(locant.SpecError):
        locant.diff(tiny.ROOT / "README.md", tiny.ROOT / "README.md")
