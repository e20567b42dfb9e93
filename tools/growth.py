#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Costs against length and batch: runs bench_growth, keeps its JSON in bench/results, draws docs/images/growth-*.svg.

usage: growth.py [--draw]    --draw: from the JSON that is there, nothing is run
`./dev bench --growth` builds the program and calls this.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from charts import Chart, Line, draw
from dev_system import Stop

ROOT = Path(__file__).resolve().parents[1]
RESULT = Path("bench/results/growth.json")
IMAGES = Path("docs/images")
MIB = 1 << 20


def time_text(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:g} {unit}"
    return f"{ns:g} ns"


def length_text(tokens: float) -> str:
    return f"{tokens / 1024:g} K" if tokens >= 1024 else f"{tokens:g}"


def bytes_text(size: float) -> str:
    return f"{size:g} MiB"


def lengths(part: dict[str, Any], field: str, over: str = "length") -> list[tuple[float, float]]:
    return [(point[over], point[field]) for point in part["points"]]


def charts(found: dict[str, Any]) -> dict[str, Chart]:
    model = found["model"]["name"].removesuffix(".gguf")
    memory, batch = found["memory"]["points"], found["batch"]["points"]
    held = [(p["capacity"], p["peak_bytes"] / MIB) for p in memory]
    stated = [(p["capacity"], (p["cache_bytes"] + p["workspace_bytes"]) / MIB) for p in memory]
    return {
        "growth-decode": Chart(
            "Attention of one token: linear in the context", "slots in the cache",
            [Line("Locant", lengths(found["decode"], "ns")),
             Line("reading it once", lengths(found["decode"], "limit_ns"), 2, True)],
            time_text, length_text,
        ),
        "growth-prompt": Chart(
            "Attention of a prompt: quadratic in its length", "tokens",
            [Line("Locant", lengths(found["prefill"], "ns")),
             Line("its multiply-adds", lengths(found["prefill"], "limit_ns"), 2, True)],
            time_text, length_text,
        ),
        "growth-memory": Chart(
            f"Memory above the weights: {model}", "tokens that the session can hold",
            [Line("held at most", held), Line("cache + workspace", stated, 2, True)],
            bytes_text, length_text,
        ),
        "growth-batch": Chart(
            f"One more token in every row: {model}", "rows in the batch",
            [Line("the step", lengths(found["batch"], "ns", "rows")),
             Line("for each row", [(p["rows"], p["ns"] / p["rows"]) for p in batch], 1)],
            time_text, lambda rows: f"{rows:g}",
        ),
    }  # fmt: skip


def draw_all(root: Path) -> dict[Path, str]:
    found = json.loads((root / RESULT).read_text())
    return {root / IMAGES / f"{name}.svg": draw(chart) for name, chart in charts(found).items()}


def main(root: Path, program: Path | None) -> int:
    (root / IMAGES).mkdir(parents=True, exist_ok=True)
    if program is not None:
        done = subprocess.run([str(program)], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise Stop(f"bench --growth: {program.name} ended with status {done.returncode}")
        (root / RESULT).parent.mkdir(parents=True, exist_ok=True)
        (root / RESULT).write_text(done.stdout)
    for path, text in draw_all(root).items():
        path.write_text(text)
        print(f"bench: wrote {path.relative_to(root)}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:] != ["--draw"]:
        sys.exit(__doc__)
    sys.exit(main(ROOT, None))
