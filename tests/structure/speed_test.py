# SPDX-License-Identifier: Apache-2.0
"""docs/speed.md and its pictures are what bench/results says; comparing runs and counts finds what got slower."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import bench_compare
import bench_counts
import charts
import speed_tables
from dev_system import Stop
from tree import ROOT


def test_the_page_is_what_the_results_say() -> None:
    assert speed_tables.changed(ROOT) == []


def run(ns: float, median_ns: float, limit_ns: float, **machine: str) -> dict[str, Any]:
    row = {"operation": "rotation", "shape": "T=1", "dtype": "f32", "threads": 1}
    times = {"ns": ns, "median_ns": median_ns, "limit_ns": limit_ns}
    about = {"cpu": "one", "target": "AVX2", **machine}
    return {"command": "bench", "machine": about, "rows": [{**row, **times}]}


def compared(tmp_path: Path, old: dict[str, Any], new: dict[str, Any]) -> int:
    for name, found in (("old.json", old), ("new.json", new)):
        (tmp_path / name).write_text(json.dumps(found))
    return bench_compare.main(tmp_path / "old.json", tmp_path / "new.json")


@pytest.mark.parametrize(
    ("new", "status"),
    [
        (run(100, 102, 50), 0),
        (run(120, 122, 50), 1),  # slower at the same limit
        (run(120, 122, 60), 0),  # the machine was slower as much
        (run(120, 150, 50), 0),  # within the spread of its own run
    ],
)
def test_a_slower_row_is_found(tmp_path: Path, new: dict[str, Any], status: int) -> None:
    assert compared(tmp_path, run(100, 102, 50), new) == status


def test_other_machines_and_targets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Stop, match="times of one CPU say nothing of another: old is one, new is two"):
        compared(tmp_path, run(1, 1, 1), run(1, 1, 1, cpu="two"))
    with pytest.raises(Stop, match="old is AVX2, new is AVX3"):
        compared(tmp_path, run(1, 1, 1), run(1, 1, 1, target="AVX3"))


def test_more_instructions_are_found() -> None:
    wanted = {"tolerance_percent": 3, "counts": {"a": 1000, "b": 1000, "c": 1000}}
    found = bench_counts.compared(wanted, {"a": 1029, "b": 1031, "c": 900})
    assert (found.passed, found.failed) == (2, 1)
    assert bench_counts.compared(wanted, {"a": 1000, "b": 1000}).failed == 1


def test_marks_of_an_axis_span_the_values() -> None:
    assert charts.marks(2.2, 36) == [2, 5, 10, 20, 50]
    assert charts.marks(0.02, 6000) == [0.02, 0.1, 1, 10, 100, 1000, 10000]
    assert charts.marks(10, 100) == [10, 20, 50, 100]
