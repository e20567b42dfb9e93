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


# Recipes that are put into files instead of passes.
ELSEWHERE = {
    "F16": "weights permuted with a wrong head count: test_conversions.py",
    "F33 resize": "rows that resizing filled anew: test_conversions.py",
}
# Recipes that a trace of one process does not show, or that rules about files would name.
NOT_YET = {
    "F34": "vocabulary shards: a trace of one process has no ranks",
    "F36": "context-parallel slices: a trace of one process has no ranks",
    "F38 ring": "ring buffers cut by logical length: transformers has none to break",
    "F41 pooling": "pooling over padding and the last token's index: no rule reads `pooled` yet",
    "F42": "config keys: a config is judged without a trace, in tests/spec/config_rules_test.cc",
}
