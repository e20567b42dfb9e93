#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/families.md: what run computes, by what it marks positions, and how near transformers it was seen; the
same of GGUF files, beside llama.cpp.

usage: families_table.py                  runs the whole matrix of families (minutes) and writes the page
       families_table.py --seen FILE...   writes it from what such runs measured (LOCANT_SEEN=FILE pytest ...)
Needs build/locant and what tests/conformance needs; llama.cpp's column .venv-peers (./dev test --peers makes it).
tests/structure/families_test.py holds the page against the code.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dev_peers

ROOT = Path(__file__).resolve().parents[1]
CONFORMANCE = ROOT / "tests/conformance"
PAGE = ROOT / "docs/families.md"
HEAD = """# Families

What `locant run` computes, written by `tools/families_table.py` from a run of the whole matrix of `tests/conformance`.
Each case is a random model of uneven shape, 200 tokens past every window and original length. Its logits (states, where
a model has no others) are held against transformers' computing in float32, with weights in f32 and in bf16; the numbers
are the largest difference seen in any case of the family, as a share of the largest value. The budget is 2e-5. The
greedy continuation of 24 tokens is the same in each case. `-` stands where the matrix has no case.

Falcon with ALiBi is compared with transformers' `sdpa`: its `eager` attention adds the slopes twice in 5.24, once in
the mask and once to the scores ([disagreements](disagreements.md)). All others are compared with `eager`.

The last three columns are of GGUF files with f32 weights: the architectures that hold the family, the difference from
transformers under `--recipe hf` (budget 1e-4), and from llama.cpp under the recipe `llama.cpp`, with its cache in f32
(`tests/peers/test_gguf_families_llama_cpp.py`; budget 2e-5, with GELU 1e-2, since llama.cpp looks that up in a table of
f16). `-` stands where no case has a file, or llama.cpp does not compute it.

| model_type | positions | cases | f32 | bf16 | GGUF | hf | llama.cpp |
|---|---|---|---|---|---|---|---|
"""
# What the fixed sample and the whole matrix are made of; the same files run in the environment of the peers.
MATRIX = ("test_zoo.py", "test_encoders.py", "test_encoder_decoders.py", "test_gguf_families.py")
PEERS = ROOT / "tests/peers/test_gguf_families_llama_cpp.py"


def runnable(binary: Path) -> list[str]:
    done = subprocess.run([binary, "list", "families", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    return sorted(row["name"] for row in json.loads(done.stdout)["families"] if row["runs"])


def families_of_page(text: str) -> list[str]:
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| `")]
    return [row.strip("`") for row in rows]


def architectures_of_page(text: str) -> set[tuple[str, str]]:
    """(model_type, architecture of a GGUF file) of every row."""
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.startswith("| `")]
    return {(row[1].strip("`"), name.strip("` ")) for row in rows for name in row[6].split(",") if name != "-"}


def measured_by(python: str, *tests: Path) -> tuple[dict[str, float], int]:
    with tempfile.TemporaryDirectory() as folder:
        seen = Path(folder) / "seen.json"
        environment = {**os.environ, "LOCANT_FULL": "1", "LOCANT_SEEN": str(seen)}
        status = subprocess.run(
            [python, "-m", "pytest", *map(str, tests), "-q"], env=environment, check=False
        ).returncode
        numbers: dict[str, float] = json.loads(seen.read_text())
        return numbers, status


def measure() -> tuple[dict[str, float], int]:
    """The difference of each "case dtype" that passed, and the first exit status of pytest that is not 0."""
    seen, status = measured_by(sys.executable, *(CONFORMANCE / name for name in MATRIX))
    peers = dev_peers.python(ROOT)
    if not peers.exists():
        print("no .venv-peers: the column llama.cpp stays empty", file=sys.stderr)
        return seen, status
    beside, their_status = measured_by(str(peers), PEERS)
    return {**seen, **beside}, status or their_status


def numbers_of(case: str, what: str, seen: dict[str, float]) -> list[float]:
    """Of "case what", and of "case what row 1" or "case what mean" where a case has several."""
    key = f"{case} {what}"
    return [number for name, number in seen.items() if name == key or name.startswith(key + " ")]


def largest(cases: Iterable[str], what: str, seen: dict[str, float]) -> str:
    numbers = [number for case in cases for number in numbers_of(case, what, seen)]
    return f"{max(numbers):.1e}" if numbers else "-"


def mechanisms(binary: Path, case: Any) -> set[str]:
    from transformers import AutoConfig

    with tempfile.TemporaryDirectory() as folder:
        AutoConfig.for_model(case.kind, **copy.deepcopy(case.keys)).save_pretrained(folder)
        done = subprocess.run([binary, "inspect", folder, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    rows = json.loads(done.stdout)["positions"]
    found = {row["mechanism"] for row in rows}
    embedded = any(row["site"] == "embedding" for row in rows)  # then no layer has positions of its own
    return found - {"none"} if embedded else found


def row_of(family: str, cases: dict[str, Any], files: dict[str, Any], seen: dict[str, float], binary: Path) -> str:
    own = {
        name: case
        for name, case in cases.items()
        if case.kind == family and (numbers_of(name, "f32", seen) or numbers_of(name, "bf16", seen))
    }
    marks = sorted(set().union(*(mechanisms(binary, case) for case in own.values()))) if own else []
    names = ", ".join(name.removeprefix(family).strip() or "plain" for name in own)
    held = [name for name, file in files.items() if file.case.kind == family and numbers_of(name, "gguf", seen)]
    architectures = sorted({files[name].architecture for name in held})
    columns = (
        f"`{family}`", ", ".join(marks) or "-", names or "-", largest(own, "f32", seen), largest(own, "bf16", seen),
        ", ".join(f"`{name}`" for name in architectures) or "-", largest(held, "gguf", seen),
        largest(held, "llama.cpp", seen),
    )  # fmt: skip
    return f"| {' | '.join(columns)} |\n"


def all_cases() -> dict[str, Any]:
    import zoo_decoders
    import zoo_encoder_decoders
    import zoo_encoders
    import zoo_mixtures

    return {
        **zoo_decoders.DECODERS, **zoo_mixtures.MIXTURES, **zoo_encoders.ENCODERS,
        **zoo_encoder_decoders.ENCODER_DECODERS,
    }  # fmt: skip


def read(paths: list[str]) -> dict[str, float]:
    return {name: number for path in paths for name, number in json.loads(Path(path).read_text()).items()}


def main() -> int:
    binary = Path(os.environ.get("LOCANT_BIN", ROOT / "build/locant"))
    sys.path.insert(0, str(CONFORMANCE))
    from zoo_gguf import FILES

    cases = all_cases()
    seen, status = (read(sys.argv[2:]), 0) if sys.argv[1:2] == ["--seen"] else measure()
    PAGE.write_text(HEAD + "".join(row_of(family, cases, FILES, seen, binary) for family in runnable(binary)))
    if status != 0:
        print("some cases fail: the page has no numbers of theirs", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
