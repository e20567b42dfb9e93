# SPDX-License-Identifier: Apache-2.0
"""locant.trace(): what is recorded is what the model computed, and nothing is left behind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import locant
import tiny
from locant.capture.decoding import record_rows


def state(model: Any) -> dict[str, Any]:
    """Everything that a recorder could leave changed."""
    module = sys.modules[type(model).__module__]
    hooks = {
        name: tuple(len(getattr(part, kind)) for kind in ("_forward_hooks", "_forward_pre_hooks"))
        for name, part in model.named_modules()
    }
    return {
        "hooks": hooks,
        "functions": {name: value for name, value in vars(module).items() if callable(value)},
        "attention": dict(ALL_ATTENTION_FUNCTIONS._global_mapping),
        "local": dict(getattr(ALL_ATTENTION_FUNCTIONS, "_local_mapping", {})),
        "softmax": nn.functional.softmax,
        "implementation": model.config._attn_implementation,
        "training": model.training,
        "forward": model.forward.__func__,
        "gradients": torch.is_grad_enabled(),
    }


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", ["llama", "qwen3", "bloom", "gpt2"])
def test_nothing_is_left_behind(family: str, attention: str) -> None:
    if (family, attention) == ("bloom", "sdpa"):
        pytest.skip("transformers has no such attention")
    model = tiny.model(family, attention)
    before = state(model)
    with locant.trace(model):
        model(input_ids=torch.from_numpy(tiny.ids(1, 5)))
        assert state(model) != before
    assert state(model) == before
    with pytest.raises(KeyError, match="mine"), locant.trace(model):
        model(input_ids=torch.from_numpy(tiny.ids(1, 5)))
        raise KeyError("mine")
    assert state(model) == before
    with pytest.raises(IndexError), locant.trace(model):
        model(input_ids=torch.tensor([[10**6]]))  # fails in the middle of a pass
    assert state(model) == before


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_recording_changes_no_bit(attention: str) -> None:
    model = tiny.model("llama", attention)
    ids = torch.from_numpy(tiny.ids(2, 9))
    with torch.no_grad():
        alone = model(input_ids=ids).logits
    with locant.trace(model) as recorded:
        watched = model(input_ids=ids).logits
    assert torch.equal(alone, watched)
    assert torch.equal(recorded.tensors["logits"], alone)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_padded_batch_with_a_cache_is_recorded_pass_by_pass(attention: str, tmp_path: Path) -> None:
    model = tiny.model("llama", attention)
    recorded = record_rows(model, [[9, 8, 7], tiny.ids(1, 12)[0].tolist()], steps=2, pad="left")
    path = tmp_path / "run.safetensors"
    recorded.save(path)
    trace = locant.TraceReader(str(path))
    assert trace.steps == 3
    assert trace["input_ids"].shape == (2, 12)
    assert trace["attention_mask"][0].tolist() == [0] * 9 + [1] * 3
    assert trace["position_ids"][0].tolist() == [0] * 9 + [0, 1, 2]
    assert trace["step.2/input_ids"].shape == (2, 1)
    assert trace["step.2/layers.1.cache.k"].shape == (2, 14, 2, 12)
    assert trace["step.1/position_ids"].tolist() == [[3], [12]]
    assert ("layers.0.attn.scores" in trace) == (attention == "eager")
    assert trace.metadata("locant.dtype") == "f32"
    assert trace.metadata("no.such.key") == ""
    with pytest.raises(KeyError, match="there is no tensor"):
        trace["no.such.tensor"]
    # greedy: the token fed next is the best one
    assert trace["step.1/input_ids"][:, 0].tolist() == trace["logits"][:, -1].argmax(-1).tolist()
    assert locant.check(model, trace=path).findings == []


@pytest.mark.parametrize("family", ["llama", "bloom", "gpt2"])
def test_generation_is_recorded(family: str) -> None:
    model = tiny.model(family)
    with locant.trace(model) as recorded:
        made = model.generate(torch.from_numpy(tiny.ids(1, 24)), max_new_tokens=4, do_sample=False, eos_token_id=None)
    assert recorded.step == made.shape[1] - 24 - 1
    assert recorded.tensors["step.2/input_ids"].tolist() == [[int(made[0, 25])]]
    report = locant.check(model, trace=recorded)
    assert report.findings == []
    assert "R103" in report.passed or family != "llama"


def test_padding_on_the_right_and_arguments() -> None:
    model = tiny.model("gpt2")
    recorded = record_rows(model, [[9, 8, 7], tiny.ids(1, 12)[0].tolist()], steps=1, pad="right")
    assert recorded.tensors["attention_mask"][0].tolist() == [1] * 3 + [0] * 9
    best = recorded.tensors["logits"][0, 2].argmax()
    assert recorded.tensors["step.1/input_ids"][0, 0] == best
    with pytest.raises(ValueError, match="every row must hold a token"):
        record_rows(model, [[]])
    with pytest.raises(ValueError, match="left or right"):
        record_rows(model, [[1]], pad="none")


def test_a_reader_shares_the_files_memory(tmp_path: Path) -> None:
    model = tiny.model("llama")
    path = tmp_path / "run.safetensors"
    record_rows(model, [[9, 8, 7]]).save(path)
    trace = locant.TraceReader(str(path))
    logits = trace["logits"]
    assert not logits.flags.writeable
    assert np.shares_memory(logits, trace["logits"])
    del trace
    assert np.isfinite(logits).all()
