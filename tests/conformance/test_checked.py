# SPDX-License-Identifier: Apache-2.0
"""Traces of Locant's own passes, and Locant driven live, give the checker nothing to say: families of every kind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from command import Locant
from family_zoo import Zoo
from models import random_ids
from zoo_decoders import DECODERS
from zoo_mixtures import MIXTURES

CASES = {**DECODERS, **MIXTURES}
SAMPLE = (
    "gemma3", "phi3 longrope", "mistral dynamic", "falcon rw", "cohere2", "opt", "gpt_oss", "deepseek_v3",
    "llama4_text", "hunyuan_v1_dense",
)  # fmt: skip
FULL = os.environ.get("LOCANT_FULL") == "1"


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return Zoo(tmp_path_factory.mktemp("zoo"), CASES)


def findings(locant: Locant, *arguments: str) -> list[dict[str, Any]]:
    """Of more than a note, but for what the tiny configs themselves get wrong (C)."""
    result = locant.raw("check", *arguments, "--json")
    assert result.status in (0, 1), result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    return [one for one in found if one["severity"] != "note" and not one["rule"].startswith("C")]


@pytest.mark.parametrize("name", CASES if FULL else SAMPLE)
def test_own_trace(locant: Locant, zoo: Zoo, tmp_path: Path, name: str) -> None:
    """Two rows of unlike length, a prompt and two steps."""
    model, trace = zoo.path(name, "f32"), tmp_path / "trace.safetensors"
    rows = [random_ids(70, seed=3), random_ids(23, seed=4)]
    ids = [part for row in rows for part in ("--ids", ",".join(map(str, row)))]
    result = locant.raw("run", str(model), *ids, "--continue", "2", "--trace", str(trace), "--json")
    assert result.status == 0, result.stderr
    assert findings(locant, str(model), "--trace", str(trace)) == []


@pytest.mark.parametrize("name", CASES if FULL else SAMPLE)
def test_own_runtime(locant: Locant, zoo: Zoo, name: str) -> None:
    assert findings(locant, str(zoo.path(name, "f32")), "--live") == []
