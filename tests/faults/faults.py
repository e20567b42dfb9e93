# SPDX-License-Identifier: Apache-2.0
"""Faults that were reported in public, rebuilt inside running transformers models.

Each is put into a model of transformers, never into Locant's own. `rules` are those that name it: one of them must
speak. `also` may speak besides, because the fault breaks two things. Recipe numbers are those of the catalogue that
the project was designed from.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import passes
from passes import Run

Inject = Callable[[Any, float], AbstractContextManager[Any]]
Number = Callable[[Any, float], float]


@dataclass(frozen=True)
class Fault:
    recipe: str
    name: str
    rules: tuple[str, ...]
    families: tuple[str, ...]
    inject: Inject
    run: Run = passes.PADDED
    strengths: tuple[float, ...] = (1,)
    also: tuple[str, ...] = ()
    number: Number | None = None  # what the finding must observe
    parameter: str = ""  # of the first hypothesis, instead of `observed`
    dtypes: tuple[str, ...] = ("f32", "bf16")

    @property
    def title(self) -> str:
        return f"{self.recipe} {self.name}"


def nothing(_model: Any, _strength: float) -> AbstractContextManager[None]:
    """The run itself is the fault."""
    return nullcontext()


# Recipes that are not put into one running model, and the tests that have them.
ELSEWHERE = {
    "F16": "weights permuted with a wrong head count: test_conversions.py",
    "F33 resize": "an embedding from the head, a head filled anew: test_conversions.py",
    "F34": "shards of the vocabulary: test_ranks.py",
    "F36": "slices of a context-parallel run: test_ranks.py",
    "F38 ring": "caches cut, joined and moved: test_cache.py",
    "F41 pooling": "pooled rows of padding: test_pooled.py",
    "F42": "config keys: tests/spec/config_rules_test.cc",
}
