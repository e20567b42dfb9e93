#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases of biases from the live transformers package.

usage: generate_hf_bias.py [--check]
Writes hf_t5_buckets.json, hf_deberta.json, hf_xlnet.json, hf_alibi_scores.json and hf_falcon_slopes.json beside this
file; --check compares instead.
The package takes the logarithm of a bucket in f32; FROM_HF holds the only distances of the cases where that is
another bucket than the one of whole numbers.
"""

import sys
from typing import Any

import torch
import transformers
from transformers import DebertaV2Config, XLNetConfig, XLNetModel
from transformers.models.bloom.modeling_bloom import build_alibi_tensor as build_bloom
from transformers.models.deberta_v2.modeling_deberta_v2 import (
    DisentangledSelfAttention,
    build_relative_position,
    make_log_bucket_position,
)
from transformers.models.falcon.modeling_falcon import build_alibi_tensor
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor as build_mpt
from transformers.models.t5.modeling_t5 import T5Attention

from generate_bias import RELATIVE, deberta_bucket, t5_bucket
from generate_hf import ULP, near
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


def xlnet_scores_are_live(direction: str, clamp: int) -> None:
    """The package's scores are the published sum: R[i - j] and content, each under a bias of its own."""
    heads, size, tokens = 3, 8, 17
    torch.manual_seed(5)
    config = XLNetConfig(
        vocab_size=11, d_model=heads * size, n_layer=1, n_head=heads, d_inner=8, attn_type=direction, clamp_len=clamp
    )
    model = XLNetModel(config).double().eval()
    attention = model.layer[0].rel_attn
    query, key, value = torch.randn(3, tokens, 1, heads, size, dtype=torch.float64)
    with torch.no_grad():
        for bias in (attention.r_w_bias, attention.r_r_bias):
            bias.copy_(torch.randn(heads, size, dtype=torch.float64))
        table = model.relative_positional_encoding(tokens, tokens, bsz=1).double()
        relative = torch.einsum("ibh,hnd->ibnd", table, attention.r)
        # "uni" has no rows for keys after the query; its callers mask them.
        later = torch.ones(tokens, tokens, dtype=torch.float64).triu(1) * (direction == "uni")
        mask = later[:, :, None, None]
        _, got = attention.rel_attn_core(query, key, value, relative, attn_mask=mask, output_attentions=True)
        steps = torch.arange(0, heads * size, 2).float()
        ladder = (1 / torch.pow(10000, steps / (heads * size))).double()
        expected = torch.zeros(tokens, tokens, heads, dtype=torch.float64)
        for i in range(tokens):
            for j in range(tokens):
                held = float(min(max(i - j, -clamp), clamp) if clamp > 0 else i - j)
                row = torch.cat([torch.sin(held * ladder), torch.cos(held * ladder)])
                at = torch.einsum("h,hnd->nd", row, attention.r)
                content = ((query[i, 0] + attention.r_w_bias) * key[j, 0]).sum(-1)
                expected[i, j] = (content + ((query[i, 0] + attention.r_r_bias) * at).sum(-1)) / size**0.5
        expected = torch.softmax(expected - 1e30 * later[:, :, None], dim=1)
    # The package's table is f32.
    if (got[:, :, 0] - expected).abs().max() > 16 * ULP:
        raise SystemExit(f"xlnet {direction}: off by {(got[:, :, 0] - expected).abs().max().item()}")


def xlnet() -> dict[str, Any]:
    cases = []
    for width, tokens, clamp in ((8, 5, 0), (96, 300, 0), (1024, 2049, 0), (64, 40, 13)):
        for direction in ("bi", "uni"):
            xlnet_scores_are_live(direction, clamp)
        config = XLNetConfig(vocab_size=3, d_model=width, n_layer=1, n_head=4, d_inner=4, clamp_len=clamp)
        table = XLNetModel(config).eval().relative_positional_encoding(tokens, tokens, bsz=1)[:, 0]
        distances = [d for d in (-tokens + 1, -257, -14, -1, 0, 1, 13, 256, tokens - 1, tokens) if abs(d) <= tokens]
        columns = sorted({0, 1, width // 2 - 1, width // 2, width // 2 + 1, width - 1})
        steps = torch.arange(0, width, 2.0, dtype=torch.int64).float()
        cases.append(
            {
                "parameters": {"heads": 4, "width": width, "clamp": clamp},
                "inv_freq": (1 / torch.pow(10000, steps / width)).double().tolist(),
                "columns": columns,
                "distances": distances,
                # rows run from distance klen down
                "rows": table[[tokens - d for d in distances]][:, columns].double().tolist(),
            }
        )
    sources = ("XLNetModel.relative_positional_encoding", "rel_attn_core against its formula")
    return {"provenance": provenance(*sources), "cases": cases}


def alibi_scores() -> dict[str, Any]:
    """Slope times position as each class adds it, in the dtype the model runs in."""
    cases = []
    keys = [0, 1, 255, 256, 257, 1023, 2047]
    for family, heads, dtype in (
        ("bloom", 8, "f32"),
        ("bloom", 12, "bf16"),
        ("bloom", 8, "f16"),
        ("falcon", 12, "f32"),
        ("falcon", 71, "bf16"),
        ("mpt", 12, "f32"),
        ("mpt", 8, "bf16"),
    ):
        torch_dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[dtype]
        if family == "mpt":
            bias = build_mpt(heads, keys[-1] + 1)[:, 0]
        else:
            build = build_bloom if family == "bloom" else build_alibi_tensor
            bias = build(torch.ones(1, keys[-1] + 1, dtype=torch.long), heads, torch_dtype)[:, 0]
        cases.append(
            {"family": family, "heads": heads, "dtype": dtype, "keys": keys, "scores": bias[:, keys].double().tolist()}
        )
    return {"provenance": provenance("build_alibi_tensor of BLOOM and Falcon, build_mpt_alibi_tensor"), "cases": cases}


def falcon_slopes() -> dict[str, Any]:
    cases = []
    for heads in (1, 8, 12, 64, 71):
        bias = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), heads, torch.float32)
        parameters = {"heads": heads, "slope_dtype": "bf16", "scale_order": "before_scale"}
        cases.append({"parameters": parameters, "slopes": bias[:, 0, 1].tolist()})
    return {"provenance": provenance("models/falcon, build_alibi_tensor at key position 1"), "cases": cases}


def agree(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Equal, but for an ulp of torch's power, exponential and sines."""
    if "distances" not in old:
        return old == new
    same = all(old[key] == new[key] for key in ("parameters", "columns", "distances"))
    drift = 2 * ULP * max(map(abs, old["distances"]))
    return (
        same
        and near(old["inv_freq"], new["inv_freq"], ULP)
        and all(near(a, b, ULP + drift) for a, b in zip(old["rows"], new["rows"], strict=True))
    )


if __name__ == "__main__":
    makes = {f"hf_{make.__name__}": make for make in (t5_buckets, deberta, xlnet, alibi_scores, falcon_slopes)}
    sys.exit(write_or_check(makes, __doc__, agree))
