# SPDX-License-Identifier: Apache-2.0
"""The error budgets of tests/budgets.json by name, and the one comparison that uses them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

MEASURED: dict[str, tuple[float, str]] = {}
"""Largest difference seen per budget in this run, and where; printed at the end."""

SEEN: dict[str, float] = {}
"""The difference of each case of the matrix of families that passed in this run, by "case dtype", and of its GGUF file
by "case gguf" (against transformers) and "case llama.cpp"."""

IN_TABLE = ("conformance_zoo", "conformance_gguf", "peer_gguf", "peer_gguf_gelu")
"""Budgets of the cases that tools/families_table.py shows."""


@cache
def _table() -> dict[str, float]:
    entries = json.loads((Path(__file__).parents[1] / "budgets.json").read_text())
    return {entry["name"]: float(entry["value"]) for entry in entries}


def budget(name: str) -> float:
    return _table()[name]


def difference(got: Array, want: Array) -> float:
    """max |got - want| / max |want|; infinite where `got` is not finite or has another shape."""
    if got.shape != want.shape or not np.isfinite(got).all():
        return float("inf")
    if want.size == 0:
        return 0.0
    largest = float(np.abs(want).max())
    return float(np.abs(got.astype(np.float64) - want.astype(np.float64)).max()) / (largest or 1.0)


def assert_within(got: Array, want: Array, name: str, what: str) -> None:
    """Holds `got` against `want` under the budget `name` (of the largest |want|)."""
    assert np.isfinite(want).all(), f"{what}: the reference is not finite"
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    bad = np.argwhere(~np.isfinite(got))
    assert bad.size == 0, f"{what}: {len(bad)} values are not finite, the first at {bad[0].tolist()}"
    seen = difference(got, want)
    if seen >= MEASURED.get(name, (-1.0, ""))[0]:
        MEASURED[name] = (seen, what)
    if seen > budget(name):
        at = np.unravel_index(int(np.abs(got - want).argmax()), got.shape)
        raise AssertionError(
            f"{what}: differs by {seen:.3g} of the largest value, budget {name} = {budget(name):.3g}; "
            f"worst at {[int(i) for i in at]}: got {got[at]:.9g}, expected {want[at]:.9g}"
        )
    if name in IN_TABLE:
        SEEN[what] = max(seen, SEEN.get(what, 0.0))
