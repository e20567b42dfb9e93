#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/families.md: what run computes, by what it marks positions, and how near transformers it was seen.

usage: families_table.py              runs the whole matrix of families (minutes) and writes the page
       families_table.py --seen FILE  writes it from what such a run measured (LOCANT_SEEN=FILE pytest ...)
Needs build/locant and what tests/conformance needs. tests/structure/families_test.py holds the page against the code.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CONFORMANCE = ROOT / "tests/conformance"
PAGE = ROOT / "docs/families.md"
HEAD = """# Families

What `locant run` computes, written by `tools/families_table.py` from a run of the whole matrix of
`tests/conformance/test_zoo.py`. Each case is a random model of uneven shape, 200 tokens past every window and original
length. Its logits are held against transformers' computing in float32, with weights in f32 and in bf16; the numbers are
the largest difference seen in any case of the family, as a share of the largest logit. The budget is 2e-5. The greedy
continuation of 24 tokens is the same in each case. `-` stands where the matrix has no case.

Falcon with ALiBi is compared with transformers' `sdpa`: its `eager` attention adds the slopes twice in 5.24, once in
the mask and once to the scores ([disagreements](disagreements.md)). All others are compared with `eager`.

| model_type | positions | cases | f32 | bf16 |
|---|---|---|---|---|
"""


def runnable(binary: Path) -> list[str]:
    done = subprocess.run([binary, "list", "families", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    return sorted(row["name"] for row in json.loads(done.stdout)["families"] if row["runs"])


def families_of_page(text: str) -> list[str]:
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| `")]
    return [row.strip("`") for row in rows]


def measure() -> tuple[dict[str, float], int]:
    """The difference of each "case dtype" that passed, and pytest's exit status."""
    with tempfile.TemporaryDirectory() as folder:
        seen = Path(folder) / "seen.json"
        environment = {**os.environ, "LOCANT_FULL": "1", "LOCANT_SEEN": str(seen)}
        command = [sys.executable, "-m", "pytest", str(CONFORMANCE), "-q", "-k", "zoo"]
        status = subprocess.run(command, env=environment, check=False).returncode
        numbers: dict[str, float] = json.loads(seen.read_text())
        return numbers, status


def mechanisms(binary: Path, case: Any) -> set[str]:
    from transformers import AutoConfig

    with tempfile.TemporaryDirectory() as folder:
        AutoConfig.for_model(case.kind, **copy.deepcopy(case.keys)).save_pretrained(folder)
        done = subprocess.run([binary, "inspect", folder, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    rows = json.loads(done.stdout)["positions"]
    found = {row["mechanism"] for row in rows}
    embedded = any(row["site"] == "embedding" for row in rows)  # then no layer has positions of its own
    return found - {"none"} if embedded else found


def row_of(family: str, cases: dict[str, Any], seen: dict[str, float], binary: Path) -> str:
    passed = {name.rsplit(" ", 1)[0] for name in seen}
    own = {name: case for name, case in cases.items() if case.kind == family and name in passed}
    marks = sorted(set().union(*(mechanisms(binary, case) for case in own.values()))) if own else []

    def largest(dtype: str) -> str:
        numbers = [seen[f"{name} {dtype}"] for name in own if f"{name} {dtype}" in seen]
        return f"{max(numbers):.1e}" if numbers else "-"

    names = ", ".join(name.removeprefix(family).strip() or "plain" for name in own)
    return f"| `{family}` | {', '.join(marks) or '-'} | {names or '-'} | {largest('f32')} | {largest('bf16')} |\n"


def all_cases() -> dict[str, Any]:
    import zoo_decoders
    import zoo_encoder_decoders
    import zoo_encoders
    import zoo_mixtures

    return {
        **zoo_decoders.DECODERS, **zoo_mixtures.MIXTURES, **zoo_encoders.ENCODERS,
        **zoo_encoder_decoders.ENCODER_DECODERS,
    }  # fmt: skip


def main() -> int:
    binary = Path(os.environ.get("LOCANT_BIN", ROOT / "build/locant"))
    sys.path.insert(0, str(CONFORMANCE))
    cases = all_cases()
    given = sys.argv[1:3] if sys.argv[1:2] == ["--seen"] else []
    seen, status = (json.loads(Path(given[1]).read_text()), 0) if given else measure()
    PAGE.write_text(HEAD + "".join(row_of(family, cases, seen, binary) for family in runnable(binary)))
    if status != 0:
        print("some cases fail: the page has no numbers of theirs", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
