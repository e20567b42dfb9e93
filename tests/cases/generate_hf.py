#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases from the live transformers package: what recipe `hf` has to imitate.

usage: generate_hf.py [--check]
Writes hf_*.json beside this file. --check compares instead: whole numbers exactly, frequencies and slopes
within 2 ulp of f32 (torch's power differs by one between CPUs), tables within what such frequencies explain.
"""

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from transformers import GPTNeoXConfig, LlamaConfig
from transformers.generation.utils import GenerationMixin
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
from transformers.models.speecht5.modeling_speecht5 import SpeechT5ScaledPositionalEncoding
from transformers.models.xglm.modeling_xglm import XGLMSinusoidalPositionalEmbedding

from generate import text_of

FOLDER = Path(__file__).resolve().parent
ULP = 2.0**-23
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
EPSILON = {"f32": ULP, "bf16": 2.0**-8, "f16": 2.0**-11}
POSITIONS = [0, 1, 255, 256, 257, 2047, 2048, 2049, 4097, 131071, 1000000, 2**24 - 1]
ROWS = [0, 1, 2, 255, 256, 257, 1023, 2047, 2048, 2049, 4097]


def provenance(*sources: str) -> dict[str, str]:
    return {
        "generator": "tests/cases/generate_hf.py",
        "package": f"transformers {transformers.__version__}, torch {torch.__version__}, CPU, dtype float32",
        "source": "; ".join(sources),
    }


def rope() -> dict[str, Any]:
    cases = []
    for family, theta, head_dim, rotary_dim, table in (
        ("llama", 10000.0, 8, 8, "f32"),
        ("llama", 500000.0, 10, 10, "f32"),
        ("llama", 150000.0, 64, 64, "f32"),
        ("llama", 10000.0, 96, 96, "f32"),
        ("llama", 1000000.0, 128, 128, "f32"),
        ("llama", 123456.0, 64, 64, "bf16"),
        ("llama", 10000.0, 64, 64, "f16"),
        ("gpt_neox", 10000.0, 64, 16, "f32"),
    ):
        if family == "llama":
            config = LlamaConfig(
                hidden_size=2 * head_dim,
                num_attention_heads=2,
                head_dim=head_dim,
                rope_parameters={"rope_type": "default", "rope_theta": theta},
            )
            rotary = LlamaRotaryEmbedding(config)
        else:
            config = GPTNeoXConfig(
                hidden_size=2 * head_dim,
                num_attention_heads=2,
                rope_parameters={
                    "rope_type": "default",
                    "rope_theta": theta,
                    "partial_rotary_factor": rotary_dim / head_dim,
                },
            )
            rotary = GPTNeoXRotaryEmbedding(config)
        ladder = rotary.inv_freq.tolist()
        if len(ladder) != rotary_dim // 2:
            raise SystemExit(f"{family}: {len(ladder)} frequencies, expected {rotary_dim // 2}")
        pairs = sorted({0, 1, len(ladder) // 4, len(ladder) // 2, len(ladder) - 1})
        cos, sin = rotary(torch.zeros(1, dtype=DTYPES[table]), torch.tensor([POSITIONS]))
        cases.append(
            {
                "family": family,
                "parameters": {"theta": theta, "head_dim": head_dim, "rotary_dim": rotary_dim},
                "table": table,
                "inv_freq": ladder,
                "pairs": pairs,
                "positions": POSITIONS,
                "cos": cos[0][:, pairs].double().tolist(),
                "sin": sin[0][:, pairs].double().tolist(),
            }
        )
    sources = ("LlamaRotaryEmbedding", "GPTNeoXRotaryEmbedding")
    return {"provenance": provenance(*sources), "cases": cases}


def alibi() -> dict[str, Any]:
    cases = []
    for heads in (1, 2, 3, 5, 7, 8, 12, 16, 20, 40, 71, 112):
        bias = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), heads, torch.float32)
        cases.append({"parameters": {"heads": heads}, "slopes": bias[:, 0, 1].tolist()})
    return {"provenance": provenance("models/bloom, build_alibi_tensor at key position 1"), "cases": cases}


def sinusoidal() -> dict[str, Any]:
    cases = []
    for family, width, offset, zero_row in (
        ("xglm", 16, 2, 1),
        ("xglm", 1024, 2, 1),
        ("m2m_100", 9, 2, 1),
        ("m2m_100", 512, 2, 1),
        ("speecht5", 16, 0, None),
        ("speecht5", 512, 0, None),
    ):
        half = width // 2
        if family == "speecht5":
            rows = SpeechT5ScaledPositionalEncoding(0.0, width).pe[0]
            step = math.log(10000.0) / width
            ladder = torch.exp(torch.arange(0, width, 2, dtype=torch.int64).float() * -step)
            sines, cosines = rows[:, 0::2], rows[:, 1::2]
        else:
            owner = {
                "xglm": XGLMSinusoidalPositionalEmbedding,
                "m2m_100": M2M100SinusoidalPositionalEmbedding,
            }
            rows = owner[family].get_embedding(5000, width, zero_row)
            step = math.log(10000) / (half - 1)
            ladder = torch.exp(torch.arange(half, dtype=torch.int64).float() * -step)
            sines, cosines = rows[:, :half], rows[:, half : 2 * half]
        # The package keeps no frequencies: these are the ones that reproduce every bit of its table.
        angles = torch.arange(rows.shape[0]).float()[:, None] * ladder
        content = torch.tensor([row != zero_row for row in range(rows.shape[0])])
        if not (
            torch.equal(torch.sin(angles)[content], sines[content])
            and torch.equal(torch.cos(angles)[content], cosines[content])
        ):
            raise SystemExit(f"{family}: the table is not sin and cos of f32 products")
        wanted = {0, 1, 2, 3, half - 1, half, half + 1, width - 2, width - 1}
        columns = sorted(c for c in wanted if c < width)
        positions = [row - offset for row in ROWS]
        parameters: dict[str, Any] = {
            "width": width,
            "dialect": "paper" if family == "speecht5" else "halves",
            "offset": offset,
        }
        if zero_row is not None:
            parameters["zero_row"] = zero_row
        cases.append(
            {
                "family": family,
                "parameters": parameters,
                "inv_freq": ladder.tolist(),
                "columns": columns,
                "positions": positions,
                "rows": rows[ROWS][:, columns].tolist(),
            }
        )
    sources = ("models/xglm and models/m2m_100, get_embedding", "SpeechT5ScaledPositionalEncoding.pe")
    return {"provenance": provenance(*sources), "cases": cases}


MASKS = [
    [[1, 1, 1, 1, 1]],
    [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]],
    [[1, 1, 1, 0, 0], [1, 0, 0, 0, 0]],
    [[1, 0, 1, 1, 0], [0, 1, 0, 0, 1]],
]


def learned() -> dict[str, Any]:
    cases = []
    for mask in MASKS[:3]:
        table = OPTLearnedPositionalEmbedding(16, 1)
        with torch.no_grad():
            table.weight[:, 0] = torch.arange(18)
            rows = table(torch.tensor(mask))[..., 0].long()
        parameters = {"rows": 18, "width": 1, "offset": 2}
        cases.append({"parameters": parameters, "mask": mask, "rows": rows.tolist()})
    source = "OPTLearnedPositionalEmbedding over a table of row numbers"
    return {"provenance": provenance(source), "cases": cases}


def position_ids() -> dict[str, Any]:
    cases = []
    for mask in MASKS:
        ids = torch.tensor(mask)
        owner = SimpleNamespace()
        positions = GenerationMixin._prepare_position_ids_for_generation(owner, ids, {"attention_mask": ids})
        cases.append({"mask": mask, "positions": positions.tolist()})
    source = "GenerationMixin._prepare_position_ids_for_generation"
    return {"provenance": provenance(source), "cases": cases}


def near(old: Any, new: Any, tolerance: float) -> bool:
    if isinstance(old, list):
        return len(old) == len(new) and all(near(a, b, tolerance) for a, b in zip(old, new, strict=True))
    return bool(abs(old - new) <= tolerance)


def tables_agree(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Frequencies within 2 ulp, table values within rounding plus what their frequencies explain."""
    pairs = list(zip(old["inv_freq"], new["inv_freq"], strict=True))
    if not all(abs(a - b) <= 2 * ULP * abs(a) for a, b in pairs):
        return False
    drift = max(abs(a - b) for a, b in pairs)
    rounding = 2 * EPSILON[old.get("table", "f32")]
    offset = old["parameters"].get("offset", 0)
    for name in ("cos", "sin", "rows"):
        for position, a, b in zip(old["positions"], old.get(name, []), new.get(name, []), strict=False):
            if not near(a, b, rounding + abs(position + offset) * drift):
                return False
    return True


def agree(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether a written case still says what the package does."""
    if old.keys() != new.keys() or old.get("parameters") != new.get("parameters"):
        return False
    if "inv_freq" in old:
        return old["positions"] == new["positions"] and tables_agree(old, new)
    if "slopes" in old:
        return all(abs(a - b) <= 2 * ULP * a for a, b in zip(old["slopes"], new["slopes"], strict=True))
    return old == new


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = []
    for make in (rope, alibi, sinusoidal, learned, position_ids):
        path = FOLDER / f"hf_{make.__name__}.json"
        text = text_of(make()) + "\n"
        if not arguments:
            path.write_text(text)
            continue
        old = json.loads(path.read_text())["cases"] if path.exists() else []
        new = json.loads(text)["cases"]
        if len(old) != len(new) or not all(map(agree, old, new)):
            stale.append(path.name)
    for name in stale:
        print(f"{name} is not what transformers {transformers.__version__} does", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
