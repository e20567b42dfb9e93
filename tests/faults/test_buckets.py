# SPDX-License-Identifier: Apache-2.0
"""Faults of T5's relative buckets, put into a running encoder: B109 names them, and a right one is silent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from transformers import T5Config, T5EncoderModel
from transformers.models.t5.modeling_t5 import T5Attention

from budgets import budget
from detector import Detector
from locant.capture.transformers import trace

Buckets = Callable[..., torch.Tensor]
ORIGINAL: Buckets = T5Attention._relative_position_bucket


def patched(change: Callable[..., torch.Tensor]) -> Any:
    return mock.patch.object(T5Attention, "_relative_position_bucket", staticmethod(change))


def biased(change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    compute = T5Attention.compute_bias
    return mock.patch.object(T5Attention, "compute_bias", lambda self, *a, **k: change(compute(self, *a, **k)))


def one_direction(position: torch.Tensor, bidirectional: bool = True, **keys: int) -> torch.Tensor:
    return ORIGINAL(position, bidirectional=not bidirectional, **keys)


def nearer(position: torch.Tensor, bidirectional: bool = True, **keys: int) -> torch.Tensor:
    return ORIGINAL(position, bidirectional=bidirectional, **{**keys, "max_distance": 64})


def turned(position: torch.Tensor, bidirectional: bool = True, **keys: int) -> torch.Tensor:
    return ORIGINAL(-position, bidirectional=bidirectional, **keys)


def shifted(position: torch.Tensor, bidirectional: bool = True, **keys: int) -> torch.Tensor:
    return ORIGINAL(position + 3, bidirectional=bidirectional, **keys)


def exchanged() -> Any:
    def change(self: T5Attention, *args: Any, **keys: Any) -> torch.Tensor:
        weight = self.relative_attention_bias.weight
        kept = weight.data.clone()
        weight.data = kept.flatten().reshape(kept.shape[1], kept.shape[0]).T.contiguous()
        try:
            return compute(self, *args, **keys)
        finally:
            weight.data = kept

    compute = T5Attention.compute_bias
    return mock.patch.object(T5Attention, "compute_bias", change)


FAULTS: list[tuple[str, Callable[[], Any], str, Any]] = [
    ("one direction", lambda: patched(one_direction), "one direction, where both have their own", "causal"),
    ("max_distance 64", lambda: patched(nearer), "max_distance is 64 where 128 is due", 64.0),
    ("query - key", lambda: patched(turned), "the other sign", "query - key"),
    ("three further", lambda: patched(shifted), "3 tokens", -3.0),
    ("rows and columns exchanged", exchanged, "[heads, buckets]", None),
    ("none", lambda: biased(torch.zeros_like), "no bias is added", 0.0),
    ("twice", lambda: biased(lambda bias: 2 * bias), "added twice", 2.0),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("t5")
    torch.manual_seed(4)
    config = T5Config(vocab_size=97, d_model=48, d_kv=12, d_ff=40, num_layers=2, num_heads=6)
    model = T5EncoderModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= 2:
                parameter.normal_(std=0.3)
        # as large as trained tables are beside the scores
        model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight.mul_(10)
    model.save_pretrained(place)
    return place


def findings(folder: Path, detector: Detector, fault: Any, dtype: torch.dtype) -> list[dict[str, Any]]:
    model = T5EncoderModel.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    ids = torch.randint(5, 90, (2, 150), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, :20] = 0
    with fault, trace(model) as recorded:
        model(input_ids=ids, attention_mask=mask)
    path = detector.folder / "t5.safetensors"
    recorded.save(path)
    result = detector.locant.raw("check", str(folder), "--trace", str(path), "--json")
    assert result.status in (0, 1), result.stderr
    assert "B109" in [*result.json["passed"], *(f["rule"] for f in result.json["findings"])]
    return result.json["findings"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_a_right_encoder_is_silent(folder: Path, detector: Detector, dtype: torch.dtype) -> None:
    assert [f["message"] for f in findings(folder, detector, nullcontext(), dtype) if f["severity"] != "note"] == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[0].replace(" ", "_"))
def test_faults_are_named(
    fault: tuple[str, Callable[[], Any], str, Any], folder: Path, detector: Detector, dtype: torch.dtype
) -> None:
    _, inject, text, observed = fault
    found = [f for f in findings(folder, detector, inject(), dtype) if f["severity"] != "note"]
    assert [f["rule"] for f in found] == ["B109"], found
    assert text in found[0]["message"]
    if isinstance(observed, str) or observed is None:
        assert found[0]["observed"] == observed
    else:
        allowed = budget("fault_number_f32" if dtype == torch.float32 else "fault_number_bf16")
        assert abs(found[0]["observed"] - observed) <= allowed * abs(observed)
