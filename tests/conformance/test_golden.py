# SPDX-License-Identifier: Apache-2.0
"""Real checkpoints against logits that plain numpy computed in float64 from the published files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from budgets import assert_within
from command import Locant
from reference import Reference

CHECKPOINTS = {"stories260k": "stories260k/hf", "capp-gpt2": "capp-gpt2"}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_logits_are_the_golden_ones(locant: Locant, data: Path, name: str) -> None:
    ids = np.load(data / name / "golden-ids.npy")
    golden = np.load(data / name / "golden-logits.npy")
    got = locant.run(data / CHECKPOINTS[name], ids=ids.tolist(), logits=True).logits[0]
    assert_within(got, golden, "conformance_golden", name)
    assert (got.argmax(-1) == golden.argmax(-1)).all()


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_reference_agrees_with_the_golden_logits(reference: Reference, data: Path, name: str) -> None:
    ids = np.load(data / name / "golden-ids.npy")
    golden = np.load(data / name / "golden-logits.npy")
    got = reference.logits(data / CHECKPOINTS[name], ids.tolist())
    assert_within(got, golden, "conformance_golden", f"transformers on {name}")


def test_ids_from_a_file_are_the_same_call(locant: Locant, data: Path) -> None:
    ids = np.load(data / "stories260k" / "golden-ids.npy").astype(np.int64)
    model = data / "stories260k" / "hf"
    flat = locant.run(model, "--ids-file", str(locant.save(ids)), logits=True)
    batch = locant.run(model, "--ids-file", str(locant.save(ids[None])), logits=True)
    flags = locant.run(model, ids=ids.tolist(), logits=True)
    assert flat.logits.tobytes() == flags.logits.tobytes() == batch.logits.tobytes()
    assert flat.rows[0]["ids"] == ids.tolist()


def test_capp_gpt2_plans_the_documented_process(locant: Locant, data: Path) -> None:
    """The golden ids are an 8-token prompt and its greedy continuation up to the end token 51."""
    ids = np.load(data / "capp-gpt2" / "golden-ids.npy").tolist()
    result = locant.run(data / "capp-gpt2", "--continue", "30", ids=ids[:8])
    assert ids[-1] == 51
    assert result.continuation() == ids[8:]
