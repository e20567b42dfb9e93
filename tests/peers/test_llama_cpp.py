# SPDX-License-Identifier: Apache-2.0
"""What llama.cpp makes of a file where no golden case can say it: constants outside the rotation, and keys that count
or do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

from budgets import budget
from peer_cases import Floats
from peer_llama import opened, write_gguf
from peer_probe import LOUD, Probe

HEAD = 64
YARN: dict[str, Any] = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 8.0,
    "rope.scaling.original_context_length": 1024,
}


def logits(folder: Path, arch: str, ids: list[int], keys: dict[str, Any], heads: int = 1, **tensors: Any) -> Floats:
    """Logits of the last token. tensors: by name with "__" for ".", None for none."""
    path = folder / "one.gguf"
    probe = Probe(HEAD, heads, (0, 1, 20), interleaved=True)
    given = {f"{name.replace('__', '.')}.weight": values for name, values in tensors.items()}
    write_gguf(path, arch, probe, {"rope.freq_base": 10000.0, **keys}, given)
    with opened(path, 256) as context:
        return context.forward(ids)[-1]


def test_gemma_embeddings_are_scaled_by_the_unrounded_root(tmp_path: Path) -> None:
    """Token 3 is a one-hot row; attention adds a known amount on channel 5, so that two logits have the scale as
    their ratio. The head is the embedding."""
    hidden, token, other = 640, 3, 5
    value = np.zeros((hidden, hidden), np.float32)
    value[0, token] = 1 / np.sqrt(hidden)
    output = np.zeros((hidden, hidden), np.float32)
    output[other, 0] = LOUD
    row = logits(tmp_path, "gemma", [token], {}, 10, output=None, blk__0__attn_v=value, blk__0__attn_output=output)
    found = float(row[token]) / float(row[other])
    assert abs(found - np.sqrt(hidden)) <= budget("peer_value") * np.sqrt(hidden)
    rounded = 25.25  # sqrt(640) in bf16
    assert abs(found - rounded) > 1000 * budget("peer_value") * rounded


def test_minicpm_without_a_logit_scale_multiplies(tmp_path: Path) -> None:
    """A stated scale divides the logits; the default is 256/hidden, which divides where hidden/256 should."""
    ids = [3, 2]
    plain = logits(tmp_path, "minicpm", ids, {"logit_scale": 1.0})
    divided = logits(tmp_path, "minicpm", ids, {"logit_scale": 4.0})
    default = logits(tmp_path, "minicpm", ids, {})
    assert np.allclose(divided * 4, plain, rtol=budget("peer_value"), atol=0)
    assert np.allclose(default, plain * HEAD / 256, rtol=budget("peer_value"), atol=0)
    assert plain.max() > 0


def test_yarn_reads_one_of_its_two_attention_factors(tmp_path: Path) -> None:
    """yarn_attn_factor is overwritten; attn_factor, the key of longrope, multiplies what yarn computes."""
    ids = [3, *[2] * 40]
    without = logits(tmp_path, "llama", ids, YARN)
    assert np.array_equal(logits(tmp_path, "llama", ids, YARN | {"rope.scaling.yarn_attn_factor": 1.5}), without)
    assert not np.array_equal(logits(tmp_path, "llama", ids, YARN | {"rope.scaling.attn_factor": 1.5}), without)


def test_the_context_chooses_the_factors_once(tmp_path: Path) -> None:
    """The same short text, in contexts on both sides of the original length and past it."""
    keys = {"rope.scaling.type": "longrope", "rope.scaling.original_context_length": 512}
    path = tmp_path / "long.gguf"
    short, long = np.full(HEAD // 2, 1.5, np.float32), np.full(HEAD // 2, 20.0, np.float32)
    tensors = {"rope_factors_short.weight": short, "rope_factors_long.weight": long}
    probe = Probe(HEAD, 1, (0, 1, 20), interleaved=True)
    write_gguf(path, "llama", probe, {"rope.freq_base": 10000.0, **keys}, tensors)
    found = []
    for capacity in (256, 512, 768, 2048):
        with opened(path, capacity) as context:
            found.append(context.forward([3, *[2] * 40])[-1])
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[2], found[3])
    assert not np.array_equal(found[1], found[2])
