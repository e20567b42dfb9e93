# SPDX-License-Identifier: Apache-2.0
"""Pooled rows of a left- and a right-padded batch: made of content they are silent, of padding E111 says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import passes
from detector import Detector

Pool = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # states [B, T, width], mask [B, T] -> [B, width]


def last_content(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    index = (mask * torch.arange(mask.shape[1])).argmax(1)
    return states[torch.arange(len(states)), index]


def content_mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


RIGHT: dict[str, Pool] = {
    "last": last_content,
    "mean": content_mean,
    "mean_of_length_1": lambda s, m: torch.nn.functional.normalize(content_mean(s, m), dim=-1),
    "behind_a_layer": lambda s, m: torch.tanh(last_content(s, m)),
}
WRONG: dict[str, tuple[Pool, str, str]] = {
    "whole_mean": (lambda s, m: s.mean(1), "left", "the mean over all columns"),
    "last_column": (lambda s, m: s[:, -1], "right", "the last column"),
    "first_column": (lambda s, m: s[:, 0], "left", "the first column"),
}


def ask(detector: Detector, pool: Pool, side: str) -> list[dict[str, Any]]:
    model = detector.zoo.model("llama", "f32")
    ids = torch.randint(5, 90, (2, 24), generator=torch.Generator().manual_seed(5))
    mask = torch.ones_like(ids)
    mask[0, slice(0, 7) if side == "left" else slice(17, 24)] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    with passes.trace(model) as recorded:
        model(input_ids=ids, attention_mask=mask, position_ids=positions)
    states = recorded.get("final_norm.out")
    assert states is not None
    recorded.put("pooled", pool(states, mask))
    path = detector.folder / "pooled.safetensors"
    recorded.save(path)
    result = detector.locant.raw("check", str(detector.zoo.path("llama")), "--trace", str(path), "--json")
    assert result.status in (0, 1), result.stderr
    return [finding for finding in result.json["findings"] if finding["severity"] != "note"]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("pool", RIGHT)
def test_content_is_silent(pool: str, side: str, detector: Detector) -> None:
    assert ask(detector, RIGHT[pool], side) == []


@pytest.mark.parametrize("pool", WRONG)
def test_padding_is_named(pool: str, detector: Detector) -> None:
    wrong, side, text = WRONG[pool]
    found = ask(detector, wrong, side)
    assert [f["rule"] for f in found] == ["E111"], found
    assert text in found[0]["message"]
    assert found[0]["where"]["row"] == 0
