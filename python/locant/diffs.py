# SPDX-License-Identifier: Apache-2.0
"""diff(): where two traces of the same tokens begin to differ by more than rounding."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

from locant import _locant
from locant._locant import SpecError
from locant.reports import trace_paths


class Diff:
    """What `locant diff` says of two traces. It is true when they agree."""

    def __init__(self, told: dict[str, Any], text: str) -> None:
        self._told = told
        self._text = text

    @property
    def tensors_compared(self) -> int:
        return int(self._told["tensors_compared"])

    @property
    def first(self) -> dict[str, Any] | None:
        """The first element beyond rounding, in the order of the data's flow: tensor, step, row, token, head, got,
        want, difference, budget.
        """
        found: dict[str, Any] | None = self._told["first"]
        return found

    @property
    def hypotheses(self) -> list[dict[str, Any]]:
        """What explains `first`, best first."""
        return list(self._told["hypotheses"])

    @property
    def missing(self) -> list[Any]:
        """Tensors that only one trace has."""
        return list(self._told["missing"])

    @property
    def differing(self) -> list[dict[str, Any]]:
        """Every tensor that differs, in the order of the data's flow."""
        return list(self._told["differing"])

    def __bool__(self) -> bool:
        return not self.differing and self.first is None

    def to_dict(self) -> dict[str, Any]:
        return self._told

    def to_json(self) -> str:
        """The object of `locant diff --json`."""
        return json.dumps(self._told)

    def __str__(self) -> str:
        return self._text


def diff(want: Any, got: Any) -> Diff:
    """Compares two traces of the same tokens: paths, or what locant.trace() gave. `want` is what it should be.

    Raises SpecError for damaged traces and for traces of other tokens.
    """
    with ExitStack() as stack:
        paths = [*trace_paths(want, stack), *trace_paths(got, stack)]
        status, text, said = _locant.command_text(["diff", *paths, "--color", "never"])
        if status > 1:
            raise SpecError(said.removeprefix("locant: ").strip())
        _, told, _ = _locant.command_text(["diff", *paths, "--json"])
        return Diff(json.loads(told), text.rstrip("\n"))
