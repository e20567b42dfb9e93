# SPDX-License-Identifier: Apache-2.0
"""Checkpoints beside their conversions: right ones are silent in every family, wrong ones are named with numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conversions import FAMILIES, Checkpoint, Converted, convert, permuted, unpermuted
from detector import Detector
from gguf_writer import Array
from zoo import REAL, Zoo

Finding = dict[str, Any]
# what llama.cpp's architectures have no key for
NOTES = {"mistral": "the window", "starcoder2": "the window", "gemma2": "the factor on q.k", "gemma3": "the factor"}
RULES = ["W105", "W106", "W107", "W108"]


def ask(detector: Detector, model: Path, other: Path) -> tuple[list[Finding], dict[str, Any]]:
    result = detector.locant.raw("check", str(model), "--against", str(other), "--json", "--select", ",".join(RULES))
    assert result.status in (0, 1), result.stderr
    return result.json["findings"], result.json


def shown(findings: list[Finding]) -> str:
    return "; ".join(f"{f['rule']} {f['severity']}: {f['message']}" for f in findings) or "nothing"


def source_of(zoo: Zoo, family: str) -> Checkpoint:
    """A checkpoint of the zoo whose vectors are no constants: those look alike however they are moved."""
    source = Checkpoint.read(zoo.path(family))
    numbers = np.random.default_rng(11)
    for name, values in source.tensors.items():
        if values.ndim == 1:
            source.tensors[name] = (values + 0.1 * numbers.normal(size=values.shape)).astype(np.float32)
    return source


@pytest.mark.parametrize("kind", ["f32", "f16", "q8_0"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_right_conversion_is_silent(family: str, kind: str, detector: Detector, tmp_path: Path) -> None:
    source = source_of(detector.zoo, family)
    made = convert(source, FAMILIES[family]).write(tmp_path / "m.gguf", kind)
    hf = source.write(tmp_path / "hf")
    for model, other in ((made, hf), (hf, made)):
        findings, answer = ask(detector, model, other)
        loud = [f for f in findings if f["severity"] != "note" or not f["message"].startswith(NOTES.get(family, "-"))]
        assert not loud, shown(findings)
        assert len(answer["passed"]) + len(findings) == len(RULES)


Change = Callable[[Checkpoint, Converted], None]


def each(role: str, change: Callable[[Array], Array]) -> Change:
    """Changes one tensor of every layer of the conversion."""

    def apply(_source: Checkpoint, made: Converted) -> None:
        for name, values in made.tensors.items():
            if name.endswith(role):
                made.tensors[name] = np.array(change(values), dtype=np.float32, order="C")

    return apply


def taken(place: str, other: str) -> Change:
    def apply(_source: Checkpoint, made: Converted) -> None:
        made.tensors[place] = made.tensors[other]

    return apply


def without(*parts: str) -> Change:
    def apply(_source: Checkpoint, made: Converted) -> None:
        for name in [name for name in made.tensors if any(part in name for part in parts)]:
            del made.tensors[name]

    return apply


def both(*changes: Change) -> Change:
    def apply(source: Checkpoint, made: Converted) -> None:
        for change in changes:
            change(source, made)

    return apply


def swapped(one: str, two: str) -> Change:
    def apply(_source: Checkpoint, made: Converted) -> None:
        for name in [name for name in made.tensors if one in name]:
            other = name.replace(one, two)
            made.tensors[name], made.tensors[other] = made.tensors[other], made.tensors[name]

    return apply


def no_key(key: str) -> Change:
    def apply(_source: Checkpoint, made: Converted) -> None:
        del made.keys[key]

    return apply


def more_rows(count: int) -> Change:
    def add(values: Array) -> Array:
        return np.concatenate([values, np.full((count, values.shape[1]), 0.01, dtype=np.float32)])

    return both(each("token_embd.weight", add), lambda _s, made: made.tensors.update(
        {"output.weight": add(made.tensors["output.weight"])}))  # fmt: skip


def drawn_rows(first: int) -> Change:
    def change(values: Array) -> Array:
        fresh = values.copy()
        fresh[first:] = np.random.default_rng(2).normal(size=fresh[first:].shape)
        return fresh

    return each("token_embd.weight", change)


def per_head_kept(source: Checkpoint, made: Converted) -> None:
    for name, values in source.tensors.items():
        if ".query_key_value." in name:
            layer = next(part for part in name.split(".") if part.isdigit())
            made.tensors[f"blk.{layer}.attn_qkv.{name.rsplit('.', 1)[1]}"] = values


@dataclass(frozen=True)
class Mistake:
    title: str
    family: str
    change: Change
    rule: str
    said: str
    expected: Any = None
    observed: Any = None


# the llama of the zoo: 6 query heads of 12 over 2, 3 layers, theta 50000
MISTAKES = [
    Mistake("k with the heads of q", "llama", each("attn_k.weight", lambda w: permuted(unpermuted(w, 2), 6)), "W106",
            "k of layers 0 to 2 is permuted to neighbouring pairs with 6 heads where 2 are due", 2, 6),
    Mistake("q with the heads of k", "llama", each("attn_q.weight", lambda w: permuted(unpermuted(w, 6), 2)), "W106",
            "q of layers 0 to 2 is permuted to neighbouring pairs with 2 heads where 6 are due", 6, 2),
    Mistake("k not permuted", "llama", each("attn_k.weight", lambda w: unpermuted(w, 2)), "W106",
            "k of layers 0 to 2 is not permuted where rows permuted to neighbouring pairs with 2 heads are due"),
    Mistake("k permuted twice", "llama", each("attn_k.weight", lambda w: permuted(w, 2)), "W106",
            "k of layers 0 to 2 is permuted twice to neighbouring pairs with 2 heads"),
    Mistake("k permuted backwards", "llama", each("attn_k.weight", lambda w: unpermuted(unpermuted(w, 2), 2)), "W106",
            "k of layers 0 to 2 is permuted to half-split pairs with 2 heads"),
    Mistake("one layer", "llama", each("blk.1.attn_q.weight", lambda w: unpermuted(w, 6)), "W106",
            "q of layer 1 is not permuted"),
    Mistake("permuted for nothing", "qwen2", each("attn_q.weight", lambda w: permuted(w, 6)), "W106",
            "q of layers 0 to 2 is permuted to neighbouring pairs with 6 heads where rows in the order of the source"),
    Mistake("a bias of q", "qwen2", each("attn_q.bias", lambda w: permuted(w, 6)), "W106",
            "the bias of q of layers 0 to 2 is permuted to neighbouring pairs with 6 heads"),
    Mistake("a norm of k", "qwen3", each("attn_k_norm.weight", lambda w: permuted(w, 1)), "W106",
            "the norm of k of layers 0 to 2 is permuted to neighbouring pairs with 1 head"),
    Mistake("a layer without rotation", "smollm3", each("blk.3.attn_k.weight", lambda w: unpermuted(w, 2)), "W106",
            "k of layer 3 is not permuted"),
    Mistake("fused rows as they were", "bloom", per_head_kept, "W106", "is cut out of the fused tensor of the source"),
    Mistake("fused rows as they were", "gpt_neox", per_head_kept, "W106", "cut out of the fused tensor of the source"),
    Mistake("embedding from the head", "llama", taken("token_embd.weight", "output.weight"), "W107",
            "token_embd.weight holds what the source has as lm_head.weight", "model.embed_tokens.weight",
            "lm_head.weight"),
    Mistake("head from the embedding", "llama", taken("output.weight", "token_embd.weight"), "W107",
            "output.weight holds what the source has as model.embed_tokens.weight"),
    Mistake("head zeroed", "granite", lambda _s, made: made.tensors.update(
        {"output.weight": made.tensors["output.weight"] * 0}), "W107", "output.weight is all zero"),
    Mistake("gate and up swapped", "llama", swapped("ffn_gate", "ffn_up"), "W107",
            "ffn_gate.weight of layers 0 to 2 holds what the source has as mlp.up_proj.weight of that layer"),
    Mistake("layers swapped", "llama", swapped("blk.0.", "blk.2."), "W107",
            "of layer 0 holds what the source has in layer 2"),
    Mistake("transposed", "gpt2", each("attn_output.weight", lambda w: w.T), "W107",
            "attn_output.weight of layers 0 to 2 is that of the source transposed"),
    Mistake("norms without their 1", "gemma", each("norm.weight", lambda w: w - 1), "W107",
            "is that of the source where plus 1 is due"),
    Mistake("norms with a 1 too many", "llama", each("norm.weight", lambda w: w + 1), "W107", "of the source plus 1"),
    Mistake("embedding multiplied", "gemma", each("token_embd.weight", lambda w: w * 48**0.5), "W107",
            "token_embd.weight is that of the source times 6.9282 (the root of its width)", 1, 48**0.5),
    Mistake("rows drawn anew", "llama", drawn_rows(90), "W107",
            "has no relation to that of the source in 7 of the 97 rows looked at, 90 to 96"),
    Mistake("table of positions slipped", "gpt2", each("position_embd.weight", lambda w: np.roll(w, 2, axis=0)), "W107",
            "position_embd.weight holds the row 2 rows further up of the source", 0, -2),
    Mistake("not transposed", "gpt2", each("ffn_up.weight", lambda w: w.T), "W105",
            "ffn_up.weight of layers 0 to 2 is [64,48], the source transposed, where [48,64] is due"),
    Mistake("a layer lost", "llama", without("blk.1."), "W105", "m.gguf has no layer 1, which"),
    Mistake("biases lost", "qwen2", without("attn_k.bias"), "W105",
            "no counterpart of self_attn.k_proj.bias of layers 0 to 2", 3, 0),
    Mistake("head lost", "llama", without("output.weight"), "W105", "has no counterpart"),
    Mistake("theta lost", "llama", no_key("llama.rope.freq_base"), "W108",
            "theta is 10000 where the source has 50000", 50000, 10000),
    Mistake("vocabulary resized", "llama", more_rows(7), "W108",
            "the number of rows of the vocabulary is 104 where the source has 97", 97, 104),
    Mistake("partial rotation lost", "phi", no_key("phi2.rope.dimension_count"), "W108",
            "rotary_dim is 16 instead of 8"),
    Mistake("YaRN lost", "yarn", no_key("llama.rope.scaling.type"), "W108", "inv_freq differs at"),
    Mistake("divisors lost", "llama3", without("rope_freqs.weight"), "W108", "inv_freq differs at"),
    Mistake("factor halved", "linear", lambda _s, made: made.keys.update({"llama.rope.scaling.factor": 2.0}), "W108",
            "inv_freq differs at 6 of 6 pairs, most at pair 0: 0.5 instead of 0.25"),
    Mistake("long factors lost", "longrope", lambda _s, made: made.tensors.update(
        {"rope_factors_long.weight": made.tensors["rope_factors_short.weight"]}), "W108", " at 512 tokens"),
    Mistake("logit scale lost", "granite", lambda _s, made: made.keys.update({"granite.logit_scale": 1.0}), "W108",
            "the scale of the logits is 1 where the source has 0.25", 0.25, 1),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: f"{m.title} {m.family}".replace(" ", "_"))
def test_a_mistake_is_named(mistake: Mistake, detector: Detector, tmp_path: Path) -> None:
    source = source_of(detector.zoo, mistake.family)
    made = convert(source, FAMILIES[mistake.family])
    mistake.change(source, made)
    findings, _ = ask(detector, made.write(tmp_path / "m.gguf"), source.write(tmp_path / "hf"))
    named = [f for f in findings if f["rule"] == mistake.rule and mistake.said in f["message"]]
    assert named, shown(findings)
    strange = [f for f in findings if f["severity"] == "error" and f["rule"] != mistake.rule]
    assert not strange, shown(findings)
    for got, due in ((named[0]["expected"], mistake.expected), (named[0]["observed"], mistake.observed)):
        if due is not None:
            assert got == (pytest.approx(due) if isinstance(due, (int, float)) else due)


def test_quantisation_hides_no_mistake(detector: Detector, tmp_path: Path) -> None:
    source = source_of(detector.zoo, "granite")  # rows of 64: whole blocks
    made = convert(source, FAMILIES["granite"])
    each("attn_k.weight", lambda w: permuted(unpermuted(w, 2), 4))(source, made)
    findings, _ = ask(detector, made.write(tmp_path / "m.gguf", "q8_0"), source.write(tmp_path / "hf"))
    assert [f["rule"] for f in findings] == ["W106"], shown(findings)
    assert (findings[0]["expected"], findings[0]["observed"]) == (2, 4)


@pytest.mark.parametrize("name", ["stories260K-f32.gguf", "stories260K-f16.gguf"])
def test_a_real_conversion_is_silent(name: str, detector: Detector) -> None:
    folder = detector.zoo.data / REAL
    if not folder.is_dir():
        pytest.skip(f"no real checkpoints: {detector.zoo.data} is missing (LOCANT_DATA names the folder)")
    for model, other in ((folder / name, folder / "hf"), (folder / "hf", folder / name)):
        findings, answer = ask(detector, model, other)
        assert not findings, shown(findings)
        assert answer["passed"] == RULES


def test_a_real_checkpoint_with_keys_permuted_by_the_heads_of_queries(detector: Detector, tmp_path: Path) -> None:
    folder = detector.zoo.data / REAL
    if not folder.is_dir():
        pytest.skip(f"no real checkpoints: {detector.zoo.data} is missing (LOCANT_DATA names the folder)")
    source = Checkpoint.read(folder / "hf")
    for name, values in source.tensors.items():
        if "k_proj" in name:  # what a reader that takes 8 heads for 4 makes of it
            source.tensors[name] = unpermuted(permuted(values, 4), 8)
    findings, _ = ask(detector, folder / "stories260K-f32.gguf", source.write(tmp_path / "hf"))
    assert [f["rule"] for f in findings] == ["W106"], shown(findings)
    assert findings[0]["where"]["layer"] == 0
    assert "k of layers 0 to 4 is permuted" in findings[0]["message"]
