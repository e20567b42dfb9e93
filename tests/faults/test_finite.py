# SPDX-License-Identifier: Apache-2.0
"""Numbers that are not finite are named where they begin; ways of generating that only look like faults are silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import passes
from detector import Detector


def found(detector: Detector, tensors: passes.Recorder, *arguments: str) -> list[dict[str, Any]]:
    path = detector.folder / "finite.safetensors"
    tensors.save(path)
    result = detector.locant.raw("check", str(detector.zoo.path("llama")), "--trace", str(path), "--json", *arguments)
    assert result.status in (0, 1), result.stderr
    return [finding for finding in result.json["findings"] if finding["severity"] != "note"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["layers.1.out", "layers.1.attn.scores", "embed.out", "logits"])
def test_the_first_tensor_is_named(name: str, value: float, detector: Detector) -> None:
    recorded = passes.record(detector.zoo.model("llama", "f32"), passes.PLAIN)
    recorded.tensors[name].view(-1)[-1] = value
    named = found(detector, recorded)
    assert "E113" in [f["rule"] for f in named] or "B110" in [f["rule"] for f in named], named
    first = next(f for f in named if f["rule"] in ("E113", "B110"))
    assert name in first["message"] or first["where"]["tensor"] == name


def test_padding_may_hold_anything(detector: Detector) -> None:
    recorded = passes.record(detector.zoo.model("llama", "f32"), passes.PADDED)
    recorded.tensors["layers.1.out"][0, :7] = float("nan")
    assert found(detector, recorded) == []


IDS = torch.randint(5, 90, (2, 12), generator=torch.Generator().manual_seed(1))
WAYS: dict[str, Callable[[Any], Any]] = {
    "beams": lambda model: model.generate(IDS, max_new_tokens=4, num_beams=3, do_sample=False),
    "without_a_cache": lambda model: model.generate(IDS, max_new_tokens=4, use_cache=False, do_sample=False),
    "two_texts": lambda model: (model(IDS), model(IDS[:, :7])),
}


@pytest.mark.parametrize("way", WAYS)
def test_is_silent(way: str, detector: Detector) -> None:
    model = detector.zoo.model("llama", "f32")
    with passes.trace(model) as recorded:
        WAYS[way](model)
    assert found(detector, recorded) == []


def test_what_is_not_asked_for_explains_nothing(detector: Detector) -> None:
    """A table of another base explains q and k; asked for q and k alone, they are told themselves."""
    model = detector.zoo.model("llama", "f32")
    rotary = model.model.rotary_emb
    kept = rotary.inv_freq.clone()
    rotary.inv_freq.copy_(1.0 / 10000.0 ** (torch.arange(0, 12, 2) / 12))
    try:
        recorded = passes.record(model, passes.MIDDLE)
    finally:
        rotary.inv_freq.copy_(kept)
    assert [f["rule"] for f in found(detector, recorded)] == ["T101"]
    assert [f["rule"] for f in found(detector, recorded, "--select", "R")] == ["R106"]
    assert [f["rule"] for f in found(detector, recorded, "--ignore", "T101")] == ["R106"]
