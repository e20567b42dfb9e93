#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases of sinusoidal dialects from the live transformers package: Marian, Pegasus, RoFormer, XLM, CTRL,
Musicgen.

usage: generate_hf_sinusoids.py [--check]
Writes hf_sinusoids.json beside this file; --check compares instead: tables that numpy builds in f64 within one ulp
of f32, tables of f32 products within what the two ulp of a frequency explain.
"""

import math
import sys
from typing import Any

import torch
import transformers
from transformers.models.ctrl.modeling_ctrl import positional_encoding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.musicgen.modeling_musicgen import MusicgenSinusoidalPositionalEmbedding
from transformers.models.pegasus.modeling_pegasus import PegasusSinusoidalPositionalEmbedding
from transformers.models.roformer.modeling_roformer import RoFormerSinusoidalPositionalEmbedding
from transformers.models.xlm.modeling_xlm import create_sinusoidal_embeddings

from generate_hf import ULP, near
from golden_files import write_or_check

ROWS = [0, 1, 2, 255, 256, 257, 511, 1023, 2047, 2048, 2049]
COUNT = ROWS[-1] + 1


def provenance(*sources: str) -> dict[str, str]:
    return {
        "generator": "tests/cases/generate_hf_sinusoids.py",
        "package": f"transformers {transformers.__version__}, torch {torch.__version__}, CPU, dtype float32",
        "source": "; ".join(sources),
    }


def table_of(family: str, width: int) -> torch.Tensor:
    if family == "musicgen":
        return MusicgenSinusoidalPositionalEmbedding.get_embedding(COUNT, width)
    if family == "ctrl":
        return positional_encoding(COUNT, width, torch.float32)
    if family == "xlm":
        out = torch.empty(COUNT, width)
        create_sinusoidal_embeddings(COUNT, width, out)
        return out
    owner = {
        "marian": MarianSinusoidalPositionalEmbedding,
        "pegasus": PegasusSinusoidalPositionalEmbedding,
        "roformer": RoFormerSinusoidalPositionalEmbedding,
    }
    return owner[family](COUNT, width).create_weight()


def sinusoids() -> dict[str, Any]:
    cases = []
    for family, width, dialect, arithmetic in (
        ("marian", 16, "marian", "f64"),
        ("marian", 9, "marian", "f64"),
        ("marian", 512, "marian", "f64"),
        ("pegasus", 96, "marian", "f64"),
        ("roformer", 64, "ctrl", "f64"),
        ("xlm", 16, "paper", "f64"),
        ("xlm", 9, "paper", "f64"),
        ("ctrl", 16, "ctrl", "recipe"),
        ("ctrl", 1280, "ctrl", "recipe"),
        ("musicgen", 16, "cos_first", "recipe"),
        ("musicgen", 11, "cos_first", "recipe"),
        ("musicgen", 1024, "cos_first", "recipe"),
    ):
        half = width // 2
        columns = sorted(c for c in {0, 1, 2, 3, half - 1, half, half + 1, width - 2, width - 1} if c < width)
        case: dict[str, Any] = {
            "family": family,
            "parameters": {"width": width, "dialect": dialect, "arithmetic": arithmetic},
            "columns": columns,
            "positions": ROWS,
            "rows": table_of(family, width)[ROWS][:, columns].double().tolist(),
        }
        # f32 tables: the frequencies that reproduce every bit of the package's table.
        if arithmetic == "recipe":
            steps = torch.arange(half, dtype=torch.int64).float()
            if family == "ctrl":
                ladder = 1 / torch.pow(10000, 2 * steps / width)
            else:
                ladder = torch.exp(steps * -(math.log(10000) / (half - 1)))
            angles = torch.arange(COUNT).float()[:, None] * ladder
            parts = [torch.sin(angles), torch.cos(angles)]
            if family == "musicgen":
                parts.reverse()
            if not torch.equal(torch.cat(parts, 1), table_of(family, width)[:, : 2 * half]):
                raise SystemExit(f"{family}: the table is not sin and cos of f32 products")
            case["inv_freq"] = ladder.double().tolist()
        cases.append(case)
    sources = (
        "create_weight of Marian, Pegasus and RoFormer",
        "models/xlm, create_sinusoidal_embeddings",
        "models/ctrl, positional_encoding",
        "models/musicgen, get_embedding",
    )
    return {"provenance": provenance(*sources), "cases": cases}


def agree(old: dict[str, Any], new: dict[str, Any]) -> bool:
    if old.keys() != new.keys() or old["parameters"] != new["parameters"] or old["columns"] != new["columns"]:
        return False
    drift = max((2 * ULP * abs(w) for w in old.get("inv_freq", [])), default=0.0)
    rows = zip(old["positions"], old["rows"], new["rows"], strict=True)
    return all(near(a, b, ULP + position * drift) for position, a, b in rows)


if __name__ == "__main__":
    sys.exit(write_or_check({"hf_sinusoids": sinusoids}, __doc__, agree))
