# SPDX-License-Identifier: Apache-2.0
"""Models without a fault are silent, in f32 and bf16, and so are the things that only look like faults."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch

import injections as put
import passes
from detector import Detector, full
from faults import Fault
from passes import Run
from zoo import BUNDLED, CONFIGS, FURTHER, REAL, VISION
from zoo_families import NOT_TRACED, OTHERS

RUNS = {"padded": passes.PADDED, "plain": passes.PLAIN, "long": passes.LONG, "chunk": passes.CHUNK,
        "packed": passes.PACKED, "middle": passes.MIDDLE}  # fmt: skip
# ALiBi families take no position_ids to find documents by; the others do not hand them to the mask
MASKS_DOCUMENTS_NOT = {
    "bloom", "bloom8", "mpt", "bundled_alibi", "gpt_oss", "opt", "xglm", "bundled_sine",
}  # fmt: skip
FEW = ("padded",)


def expected(family: str, run: str) -> set[str]:
    """What transformers itself does wrong in these passes."""
    if run == "packed" and family in MASKS_DOCUMENTS_NOT:
        return {"B106"}
    return set()


@pytest.mark.parametrize("run", RUNS if full() else FEW)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("family", [*(name for name in CONFIGS if name not in OTHERS), *BUNDLED, REAL])
def test_is_silent(family: str, dtype: str, run: str, detector: Detector) -> None:
    if not detector.zoo.has(family):
        pytest.skip(f"no real checkpoints: {detector.zoo.data} is missing (LOCANT_DATA names the folder)")
    if family in BUNDLED and max(RUNS[run].lengths) > 120:
        pytest.skip("longer than the bundled models")
    if family in FURTHER and (run != "padded" or not full()):
        pytest.skip("further families: one run, in the whole matrix" if full() else "not in the fixed sample")
    if family in VISION and run != "padded":
        pytest.skip("one way to run a model with images")
    answer = detector.ask(family, dtype, RUNS[run], [])
    assert set(answer.rules) == expected(family, run), answer.text()
    assert answer.passed


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("family", OTHERS)
def test_other_families_are_silent(family: str, dtype: str, detector: Detector) -> None:
    other = OTHERS[family]
    if other.f32_only and dtype != "f32":
        pytest.skip("transformers runs it in f32 alone")
    if not full() and (dtype != "f32" or sum(map(ord, family)) % 6):
        pytest.skip("not in the fixed sample")
    run = passes.PADDED if other.padded else passes.PLAIN
    run = replace(run, ids=other.ids, steps=run.steps if other.steps else 0)
    answer = detector.ask(family, dtype, run, [])
    assert set(answer.loud()) == set(other.rules), answer.text()
    assert answer.passed


def test_every_causal_type_of_transformers_is_there_or_says_why_not() -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    have = {kind for kind, _ in CONFIGS.values()} | set(NOT_TRACED)
    assert sorted(set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) - have) == []
    assert not set(NOT_TRACED) & set(OTHERS)


# -- what only looks like a fault


def nothing(_model: Any, _strength: float) -> Any:
    return nullcontext()


def same_constant(model: Any, strength: float) -> Any:
    """All positions are moved by one number: distances stay."""
    return put.positions_at_call(model, lambda ids, _: ids + int(strength))


def bias_of_rows(model: Any, strength: float) -> Any:
    """A constant for all keys of a query, which the softmax does not see."""

    def change(mask: torch.Tensor, _layer: int, _step: int) -> torch.Tensor:
        rows = torch.arange(mask.shape[2], dtype=mask.dtype)[:, None]
        return torch.where(mask < -1e4, mask, mask + strength * rows)

    return put.masks(model, change)


CONTROLS = [
    ("all positions moved alike", "llama", same_constant, 5, passes.PADDED),
    ("all positions moved alike, far", "qwen2", same_constant, 300, passes.PLAIN),
    ("a constant for each query", "llama", bias_of_rows, 0.5, passes.PADDED),
    ("padding that has outputs", "opt", nothing, 0, passes.PADDED),
    ("slopes of twelve heads as trained", "bloom", nothing, 0, passes.PADDED),
    ("layers without a rotation by design", "smollm3", nothing, 0, passes.PADDED),
    ("heads permuted for another pairing", "cohere", nothing, 0, passes.PADDED),
    ("a rotation that permutes on the way", "deepseek_v3", nothing, 0, passes.PADDED),
    ("rounding of a cache in bf16", "llama", nothing, 0, passes.CHUNK),
    ("a dynamic base that old keys keep", "dynamic", nothing, 0, Run(lengths=(60,), steps=8, mask=False)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control[0].replace(" ", "_"))
def test_is_no_error(control: tuple[str, str, Any, float, Run], dtype: str, detector: Detector) -> None:
    name, family, inject, strength, run = control
    fault = Fault("control", name, (), (family,), inject)
    answer = detector.ask(family, dtype, run, [(fault, strength)])
    errors = [finding for finding in answer.findings if finding["severity"] == "error"]
    assert not errors, answer.text()
