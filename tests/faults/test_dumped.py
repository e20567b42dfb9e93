# SPDX-License-Identifier: Apache-2.0
"""Tables that a runtime dumped as it keeps them, without any forward pass, and ends of tables and vocabularies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from detector import Detector

METADATA = {"locant.trace": "1", "locant.producer": "test", "locant.model": "dump", "locant.dtype": "f32"}
THETA = 50000.0


def frequencies(theta: float = THETA, width: int = 12) -> torch.Tensor:
    return (1.0 / theta ** (torch.arange(0, width, 2, dtype=torch.float64) / width)).float()


def ask(detector: Detector, family: str, tmp_path: Path, **tensors: torch.Tensor) -> tuple[list[dict[str, Any]], Any]:
    path = tmp_path / "dump.safetensors"
    save_file({name.replace("__", "."): tensor.contiguous() for name, tensor in tensors.items()}, path, METADATA)
    result = detector.locant.raw("check", str(detector.zoo.path(family)), "--trace", str(path), "--json")
    assert result.status in (0, 1), result.stderr
    return [finding for finding in result.json["findings"] if finding["severity"] != "note"], result.json["passed"]


def with_duplicate() -> torch.Tensor:
    values = frequencies()
    values[3] = values[2]
    return values


WRONG: list[tuple[str, torch.Tensor, str, str]] = [
    ("theta", frequencies(10000.0), "T101", "theta 10000"),
    ("rounded", frequencies().bfloat16().float(), "T103", "bf16"),
    ("duplicate", with_duplicate(), "T104", "pairs 2 and 3 share the frequency"),
    ("zeros", torch.zeros(6), "T104", ""),
    ("not_finite", torch.full((6,), float("nan")), "T104", "not finite"),
    ("another_count", frequencies(width=16), "T104", "8 frequencies, and no layer of the plan has so many"),
    ("linear", frequencies() / 4, "T102", "4"),
]


def test_right_frequencies_are_silent(detector: Detector, tmp_path: Path) -> None:
    found, passed = ask(detector, "llama", tmp_path, rope__inv_freq=frequencies())
    assert found == []
    assert {"T101", "T102", "T103", "T104"} <= set(passed)


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case[0])
def test_wrong_frequencies_are_named(
    case: tuple[str, torch.Tensor, str, str], detector: Detector, tmp_path: Path
) -> None:
    _, values, rule, text = case
    found, _ = ask(detector, "llama", tmp_path, rope__inv_freq=values)
    assert [f["rule"] for f in found] == [rule], found
    assert text in found[0]["message"]


@pytest.mark.parametrize("family", ["llama3", "yarn", "linear", "dynamic", "longrope", "gpt_neox"])
def test_schedules_of_transformers_are_silent(family: str, detector: Detector, tmp_path: Path) -> None:
    model = detector.zoo.model(family, "f32")
    rotary = next(module for name, module in model.named_modules() if name.endswith("rotary_emb"))
    found, passed = ask(detector, family, tmp_path, rope__inv_freq=rotary.original_inv_freq)
    assert found == []
    assert "T101" in passed


def test_a_table_of_cosines_alone_is_judged(detector: Detector, tmp_path: Path) -> None:
    def tables(theta: float) -> dict[str, torch.Tensor]:
        angles = (torch.arange(400)[:, None] * frequencies(theta).double()).float()
        return {"rope__cos": angles.cos(), "rope__sin": angles.sin()}

    assert ask(detector, "llama", tmp_path, **tables(THETA))[0] == []
    found, _ = ask(detector, "llama", tmp_path, **tables(10000.0))
    assert [f["rule"] for f in found] == ["T101"]


def test_slopes(detector: Detector, tmp_path: Path) -> None:
    """Twelve heads: the slopes of eight, then every other one of sixteen."""
    right = torch.tensor([2.0 ** (-8 * (i + 1) / 8) for i in range(8)]
                         + [2.0 ** (-8 * (2 * i + 1) / 16) for i in range(4)])  # fmt: skip
    found, passed = ask(detector, "bloom", tmp_path, bias__slopes=right)
    assert found == [] and "B101" in passed
    plain = torch.tensor([2.0 ** (-8 * (i + 1) / 12) for i in range(12)])
    found, _ = ask(detector, "bloom", tmp_path, bias__slopes=plain)
    assert [f["rule"] for f in found] == ["B101"]
    assert "one geometric series" in found[0]["message"]
    found, _ = ask(detector, "bloom", tmp_path, bias__slopes=right[:6])
    assert (found[0]["expected"], found[0]["observed"]) == (12, 6)


def test_the_end_of_a_trained_table(detector: Detector, tmp_path: Path) -> None:
    """GPT-2 with 512 rows: position 511 has one, 512 has none; OPT's rows begin at 2 and there are two more."""
    ids = torch.full((1, 4), 7)
    for family in ("gpt2", "opt"):
        inside = torch.arange(508, 512)[None]
        found, passed = ask(detector, family, tmp_path, input_ids=ids, position_ids=inside)
        assert "T106" in passed, found
        found, _ = ask(detector, family, tmp_path, input_ids=ids, position_ids=inside + 1)
        ends = next(f for f in found if f["rule"] == "T106")
        rows = 512 if family == "gpt2" else 514
        assert (ends["expected"], ends["observed"], ends["where"]["token"]) == (rows - 1, rows, 3)


def test_a_row_of_padding_that_wins(detector: Detector, tmp_path: Path) -> None:
    ids = torch.full((1, 3), 7)
    logits = torch.zeros(1, 3, 100)
    logits[0, :, 5] = 1
    assert ask(detector, "llama", tmp_path, input_ids=ids, logits=logits)[0] == []
    logits[0, 1, 98] = 2
    found, _ = ask(detector, "llama", tmp_path, input_ids=ids, logits=logits)
    assert [f["rule"] for f in found] == ["E112"]
    assert (found[0]["expected"], found[0]["observed"], found[0]["where"]["token"]) == (96, 98, 1)
