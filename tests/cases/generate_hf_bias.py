#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases of biases from the live transformers package.

usage: generate_hf_bias.py [--check]
Writes hf_t5_buckets.json, hf_deberta.json and hf_falcon_slopes.json beside this file; --check compares instead.
The package takes the logarithm of a bucket in f32; FROM_HF holds the only distances of the cases where that is
another bucket than the one of whole numbers.
"""

import sys
from typing import Any

import torch
import transformers
from transformers import DebertaV2Config
from transformers.models.deberta_v2.modeling_deberta_v2 import (
    DisentangledSelfAttention,
    build_relative_position,
    make_log_bucket_position,
)
from transformers.models.falcon.modeling_falcon import build_alibi_tensor
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder
from transformers.models.t5.modeling_t5 import T5Attention

from generate_bias import RELATIVE, deberta_bucket, t5_bucket
from generate_hf import ULP
from golden_files import write_or_check

# (buckets, max_distance, relative): the package's f32 bucket. Two of the 1,026,036 distances of 2 to 129 causal
# buckets and 16 kinds of max_distance up to 2048; no published model has such buckets.
FROM_HF = {(83, 1000, -796): 80, (99, 784, -426): 88}


def provenance(*sources: str) -> dict[str, str]:
    return {
        "generator": "tests/cases/generate_hf_bias.py",
        "package": f"transformers {transformers.__version__}, torch {torch.__version__}, CPU",
        "source": "; ".join(sources),
    }


def t5_buckets() -> dict[str, Any]:
    cases = []
    relative = [r for r in sorted({*RELATIVE, -796, -426}) if abs(r) <= 100000]
    for family, buckets, max_distance, direction in (
        ("t5", 32, 128, "bidirectional"),
        ("t5", 32, 128, "causal"),
        ("t5", 64, 256, "bidirectional"),
        ("t5", 320, 800, "bidirectional"),
        ("t5", 12, 100, "causal"),
        ("t5", 33, 128, "bidirectional"),
        ("t5", 83, 1000, "causal"),
        ("t5", 99, 784, "causal"),
        ("mpnet", 32, 128, "bidirectional"),
    ):
        both = direction == "bidirectional"
        given = torch.tensor(relative)
        if family == "mpnet":
            found = MPNetEncoder.relative_position_bucket(given, buckets, max_distance).tolist()
        else:
            found = T5Attention._relative_position_bucket(given, both, buckets, max_distance).tolist()
        differing = []
        for r, bucket in zip(relative, found, strict=True):
            exact = t5_bucket(r, buckets, max_distance, both)
            if bucket != FROM_HF.get((buckets, max_distance, r), exact):
                raise SystemExit(f"{family} {buckets} {max_distance}: bucket {bucket} at {r}, {exact} in whole numbers")
            differing += [r] if bucket != exact else []
        cases.append(
            {
                "family": family,
                "parameters": {
                    "heads": 12,
                    "buckets": buckets,
                    "max_distance": max_distance,
                    "direction": direction,
                },
                "relative": relative,
                "buckets": found,
                "differing": differing,
            }
        )
    sources = ("T5Attention._relative_position_bucket", "MPNetEncoder.relative_position_bucket")
    return {"provenance": provenance(*sources), "cases": cases}


def terms_are_live(buckets: int, max_distance: int, types: list[str]) -> None:
    """The package's bias is the published sum of terms: rows of the relative table, divided by sqrt(d (1 + n))."""
    heads, size, tokens = 3, 8, 23
    torch.manual_seed(7)
    config = DebertaV2Config(
        hidden_size=heads * size,
        num_attention_heads=heads,
        relative_attention=True,
        max_relative_positions=max_distance,
        position_buckets=buckets or -1,
        pos_att_type=types,
        share_att_key=False,
        attention_probs_dropout_prob=0.0,
        hidden_dropout_prob=0.0,
    )
    attention = DisentangledSelfAttention(config).double().eval()
    span = buckets or max_distance
    table = torch.randn(2 * span, heads * size, dtype=torch.float64)
    query, key = torch.randn(2, heads, tokens, size, dtype=torch.float64)
    relative = build_relative_position(query, key, buckets or -1, max_distance)
    with torch.no_grad():
        got = attention.disentangled_attention_bias(query, key, relative, table, 1 + len(types))
        expected = torch.zeros_like(got)
        for i in range(tokens):
            for j in range(tokens):
                at = min(max(deberta_bucket(i - j, buckets, max_distance) + span, 0), 2 * span - 1)
                if "c2p" in types:
                    row = attention.pos_key_proj(table[at]).view(heads, size)
                    expected[:, i, j] += (query[:, i] * row).sum(-1)
                if "p2c" in types:
                    row = attention.pos_query_proj(table[at]).view(heads, size)
                    expected[:, i, j] += (key[:, j] * row).sum(-1)
        expected /= (size * (1 + len(types))) ** 0.5
    # The package takes the square root in f32: half an ulp of the value.
    if (got - expected).abs().max() > ULP * expected.abs().max():
        raise SystemExit(f"deberta {types}: off by {(got - expected).abs().max().item()}")


def deberta() -> dict[str, Any]:
    cases = []
    relative = [r for r in RELATIVE if abs(r) <= 5000]
    for buckets, max_distance, types in (
        (256, 512, ["c2p", "p2c"]),
        (0, 512, ["p2c"]),
        (32, 128, ["c2p"]),
        (64, 257, ["p2c", "c2p"]),
        (16, 65, ["c2p", "p2c"]),
        (10, 100, ["c2p", "p2c"]),
    ):
        terms_are_live(buckets, max_distance, types)
        given = torch.tensor(relative)
        found = make_log_bucket_position(given, buckets, max_distance).long().tolist() if buckets else relative
        span = buckets or max_distance
        cases.append(
            {
                "parameters": {
                    "heads": 3,
                    "max_relative_positions": max_distance,
                    "position_buckets": buckets or -1,
                    "pos_att_type": "|".join(types),
                },
                "terms": 1 + len(types),
                "relative": relative,
                "buckets": found,
                "rows": torch.clamp(torch.tensor(found) + span, 0, 2 * span - 1).tolist(),
            }
        )
    sources = ("models/deberta_v2, make_log_bucket_position", "disentangled_attention_bias against its formula")
    return {"provenance": provenance(*sources), "cases": cases}


def falcon_slopes() -> dict[str, Any]:
    cases = []
    for heads in (1, 8, 12, 64, 71):
        bias = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), heads, torch.float32)
        parameters = {"heads": heads, "slope_dtype": "bf16", "scale_order": "before_scale"}
        cases.append({"parameters": parameters, "slopes": bias[:, 0, 1].tolist()})
    return {"provenance": provenance("models/falcon, build_alibi_tensor at key position 1"), "cases": cases}


if __name__ == "__main__":
    makes = {f"hf_{make.__name__}": make for make in (t5_buckets, deberta, falcon_slopes)}
    sys.exit(write_or_check(makes, __doc__, lambda old, new: old == new))
