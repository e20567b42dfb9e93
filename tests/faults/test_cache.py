# SPDX-License-Identifier: Apache-2.0
"""Caches that were cut, joined or moved between two passes: P113 names the slot, and a right shift is silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import passes
from detector import Detector

PROMPT = 12
Change = Callable[[torch.Tensor], torch.Tensor]  # of keys [B, heads, S, head_dim]


def angles(moves: torch.Tensor, width: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    inv_freq = 1.0 / theta ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    product = torch.cat([moves[:, None] * inv_freq] * 2, -1)
    return product.cos().float(), product.sin().float()


def moved(keys: torch.Tensor, moves: torch.Tensor, theta: float = 50000.0) -> torch.Tensor:
    """Every slot turned on by its number of positions (pairs in halves)."""
    cos, sin = angles(moves.double(), keys.shape[-1], theta)
    first, second = keys.chunk(2, -1)
    return keys * cos + torch.cat([-second, first], -1) * sin


def findings(
    detector: Detector, change: Change, *, position: int = PROMPT, stands: torch.Tensor | None = None
) -> list[dict[str, Any]]:
    """A prompt, a change of all cached keys, and one more token; `stands` = cache.positions of layer 0."""
    model = detector.zoo.model("llama", "f32")
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(5, 90, (1, PROMPT), generator=generator)
    with passes.trace(model) as recorded:
        cache = model(input_ids=ids, use_cache=True).past_key_values
        for layer in cache.layers:
            layer.keys = change(layer.keys)
            layer.values = layer.values[:, :, PROMPT - layer.keys.shape[2] :]
        model(input_ids=ids[:, :1], past_key_values=cache, position_ids=torch.tensor([[position]]))
    if stands is not None:
        recorded.put("layers.0.cache.positions", stands)
    path = detector.folder / "cache.safetensors"
    recorded.save(path)
    result = detector.locant.raw("check", str(detector.zoo.path("llama")), "--trace", str(path), "--json")
    assert result.status in (0, 1), result.stderr
    assert "P113" in [*result.json["passed"], *(f["rule"] for f in result.json["findings"])]
    return [finding for finding in result.json["findings"] if finding["severity"] != "note"]


def exchanged(keys: torch.Tensor) -> torch.Tensor:
    order = torch.arange(PROMPT)
    order[3], order[9] = 9, 3
    return keys[:, :, order]


def emptied(keys: torch.Tensor) -> torch.Tensor:
    keys = keys.clone()
    keys[:, :, 4] = 0
    return keys


def half_moved(keys: torch.Tensor) -> torch.Tensor:
    return moved(keys, torch.where(torch.arange(PROMPT) >= 8, -4, 0))


def other(keys: torch.Tensor) -> torch.Tensor:
    keys = keys.clone()
    keys[:, :, 6] = torch.randn(keys.shape[-1], generator=torch.Generator().manual_seed(2))
    return keys


CASES: list[tuple[str, Change, str, float, Any]] = [
    ("two slots exchanged", exchanged, "slot 3 holds the key of token 9", 3, 9),
    ("a slot that was not written", emptied, "slot 4 is empty", 4, "zeros"),
    ("only the later half moved", half_moved, "slot 8 stands -4 positions from its token's count", 0, -4),
    ("a key of nobody", other, "slot 6 holds no key that was written", 6, "another key"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].replace(" ", "_"))
def test_is_named(case: tuple[str, Change, str, float, Any], detector: Detector) -> None:
    _, change, text, expected, observed = case
    found = findings(detector, change)
    assert [f["rule"] for f in found] == ["P113"], found
    assert text in found[0]["message"]
    assert (found[0]["expected"], found[0]["observed"]) == (expected, observed)
    assert found[0]["where"]["step"] == 1


def test_an_untouched_cache_is_silent(detector: Detector) -> None:
    assert findings(detector, lambda keys: keys) == []


DROPPED = 5


def shifted(keys: torch.Tensor) -> torch.Tensor:
    """A context shift: the oldest go, the others are turned back to their places."""
    return moved(keys[:, :, DROPPED:], torch.full((PROMPT - DROPPED,), -DROPPED))


def test_a_context_shift_is_silent(detector: Detector) -> None:
    assert findings(detector, shifted, position=PROMPT - DROPPED) == []
    stands = torch.arange(PROMPT - DROPPED + 1)[None]
    assert findings(detector, shifted, position=PROMPT - DROPPED, stands=stands) == []


def test_a_context_shift_that_one_side_missed(detector: Detector) -> None:
    """The keys were turned, the new token was not; and the other way round."""
    found = findings(detector, shifted)
    assert [f["rule"] for f in found] == ["P103"], found
    assert (found[0]["expected"], found[0]["observed"]) == (PROMPT - DROPPED, PROMPT)
    found = findings(detector, lambda keys: keys[:, :, DROPPED:], position=PROMPT - DROPPED)
    assert [f["rule"] for f in found] == ["P108"], found


def test_what_is_stated_of_slots_is_held_against_them(detector: Detector) -> None:
    found = findings(detector, shifted, position=PROMPT - DROPPED, stands=torch.arange(PROMPT - DROPPED + 1)[None] + 1)
    assert [f["rule"] for f in found] == ["P113"]
    assert "stands at position 0, cache.positions says 1" in found[0]["message"]


def test_parts_that_were_joined_as_they_were(detector: Detector) -> None:
    """One document's keys twice in a cache from before the recording, both from position 0."""
    model = detector.zoo.model("llama", "f32")
    ids = torch.randint(5, 90, (1, PROMPT), generator=torch.Generator().manual_seed(5))
    cache = model(input_ids=ids, use_cache=True).past_key_values
    for layer in cache.layers:
        layer.keys, layer.values = torch.cat([layer.keys] * 2, 2), torch.cat([layer.values] * 2, 2)
    with passes.trace(model) as recorded:
        model(input_ids=ids[:, :1], past_key_values=cache, attention_mask=torch.ones(1, 2 * PROMPT + 1),
              position_ids=torch.tensor([[2 * PROMPT]]))  # fmt: skip
    path = detector.folder / "joined.safetensors"
    recorded.save(path)
    result = detector.locant.raw("check", str(detector.zoo.path("llama")), "--trace", str(path), "--json")
    found = [finding for finding in result.json["findings"] if finding["severity"] != "note"]
    assert [f["rule"] for f in found] == ["P113"], found
    assert "slots 0 and 12 hold one key" in found[0]["message"]
    assert (found[0]["expected"], found[0]["observed"]) == (PROMPT, 0)
