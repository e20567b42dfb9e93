# SPDX-License-Identifier: Apache-2.0
"""What onnxruntime-genai's builder makes of schedules that one of its model classes does not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")

from onnxruntime_genai.models.builders.base import Model
from onnxruntime_genai.models.builders.llama import LlamaModel

from generate_peer_onnxruntime import builder, caches_of

SCHEDULES: tuple[dict[str, Any], ...] = (
    {"rope_type": "linear", "factor": 8.0},
    {"rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0},
    {"rope_type": "dynamic", "factor": 8.0},
)


@pytest.mark.parametrize("rope", SCHEDULES, ids=str)
def test_a_llama_is_built_without_them(rope: dict[str, Any]) -> None:
    """LlamaModel reads llama3 alone; the other classes scale by linear and yarn and refuse dynamic NTK."""
    plain = caches_of(builder(LlamaModel, 64, 150000.0, {"rope_type": "default"}))
    for cache, expected in zip(caches_of(builder(LlamaModel, 64, 150000.0, rope)), plain, strict=True):
        assert np.array_equal(cache, expected)
    if rope["rope_type"] == "dynamic":
        with pytest.raises(NotImplementedError):
            builder(Model, 64, 150000.0, rope)
    else:
        assert not np.array_equal(caches_of(builder(Model, 64, 150000.0, rope))[0], plain[0])


def test_yarn_needs_its_edges() -> None:
    """beta_fast and beta_slow are taken for 0 where a config does not state them."""
    with np.errstate(all="ignore"), pytest.raises((AssertionError, ZeroDivisionError)):
        caches_of(builder(Model, 64, 150000.0, {"rope_type": "yarn", "factor": 8.0}))
