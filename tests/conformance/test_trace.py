# SPDX-License-Identifier: Apache-2.0
"""Every tensor of a trace against transformers' own, prompt and steps; names and layouts are the documented ones."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from budgets import assert_within
from command import Locant
from models import BASE, FAMILIES, ModelShop, random_ids
from reference import Reference, Tensors

PROMPT = random_ids(21, seed=81)
STEPS = 3
SLOTTED = re.compile(r"cache\.(k|v|positions|source)$")
SCORED = re.compile(r"attn\.(bias|scores|probs)$")
EXACT = {"input_ids", "position_ids"}
LAYERS = 3

PER_LAYER = ("attn.q", "attn.k", "attn.v", "attn.scores", "attn.probs", "attn.out", "out", "cache.k", "cache.v")
EXPECTED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "llama": (("rope.cos", "rope.sin"), ("attn.q_pre", "attn.k_pre")),
    "gpt2": (("embed.positions",), ()),
    "bloom": ((), ("attn.bias",)),
    "xglm": (("embed.positions",), ()),
}
DOCUMENTED = re.compile(
    r"(step\.\d+/)?(input_ids|position_ids|attention_mask|segment_ids|cache_position"
    r"|embed\.(tokens|positions|types|out)|rope\.(cos|sin)|final_norm\.out|logits|pooled"
    r"|layers\.\d+\.(attn\.(q_pre|k_pre|q|k|q_in|k_in|v|bias|scores|probs|sinks|out)"
    r"|cache\.(k|v|positions|source)|out))"
)


def expected_names(family: str) -> set[str]:
    model, layer = EXPECTED[family]
    names = {"input_ids", "position_ids", "embed.tokens", "embed.out", "final_norm.out", "logits", *model}
    return names | {f"layers.{index}.{name}" for index in range(LAYERS) for name in (*PER_LAYER, *layer)}


def split_step(name: str) -> tuple[str, str]:
    prefix, slash, rest = name.rpartition("/")
    return prefix + slash, rest


def compare(got: NDArray[Any], want: NDArray[Any], name: str, what: str) -> None:
    """Shapes as documented; where the layout leaves freedom (halved tables, axes of 1), both forms are met."""
    bare = split_step(name)[1]
    if bare in EXACT or ("positions" in bare and "cache" in bare):
        assert got.dtype == np.int64
        assert got.tolist() == want.tolist(), what
        return
    if bare in ("rope.cos", "rope.sin"):
        got = got.reshape(1, *got.shape[-2:])
        want = want[..., : got.shape[-1]]
    if bare.endswith("attn.bias"):
        # [1, heads, 1 or T, S]: only what a query sees counts, and only up to one constant per query
        scores_shape = (1, want.shape[1], max(got.shape[2], want.shape[2]), want.shape[3])
        got, want = np.broadcast_to(got, scores_shape), np.broadcast_to(want, scores_shape)
    if bare.endswith("attn.scores"):
        blocked = np.isneginf(want)
        assert (got[blocked] < -1e30).all(), f"{what}: a masked score is visible"
        got, want = got[~blocked], want[~blocked]
    assert_within(got, want, "conformance_trace", what)


def compare_bias_and_scores(got: Tensors, want: Tensors, prefix: str, layer: int, what: str) -> None:
    """A runtime may count ALiBi from the query: bias and scores then differ by one constant per query."""
    bias, scores = f"{prefix}layers.{layer}.attn.bias", f"{prefix}layers.{layer}.attn.scores"
    visible = np.isfinite(want[scores])
    for name in (bias, scores):
        ours = np.broadcast_to(got[name], visible.shape).astype(np.float64)
        theirs = np.broadcast_to(want[name], visible.shape).astype(np.float64)
        # from the newest key, which every query sees
        newest = np.arange(visible.shape[2])[:, None] + visible.shape[3] - visible.shape[2]
        at = np.broadcast_to(newest, (*visible.shape[:2], visible.shape[2], 1))
        ours = ours - np.take_along_axis(ours, at, -1)
        theirs = theirs - np.take_along_axis(theirs, at, -1)
        assert_within(ours[visible], theirs[visible], "conformance_trace", f"{what} {name}")


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def recorded(locant: Locant, reference: Reference, shop: ModelShop, family: str) -> tuple[Tensors, Tensors]:
    model = shop.get(family)
    result = locant.run(model, "--continue", str(STEPS + 1), ids=PROMPT, trace=True)
    return result.trace, reference.record(model, PROMPT, result.continuation()[:STEPS])


def test_names_are_the_documented_ones(recorded: tuple[Tensors, Tensors], family: str) -> None:
    got, _ = recorded
    unknown = [name for name in got if not DOCUMENTED.fullmatch(name)]
    assert not unknown
    for step in range(STEPS + 1):
        prefix = f"step.{step}/" if step else ""
        missing = {prefix + name for name in expected_names(family)} - got.keys()
        assert not missing, f"{family}: {sorted(missing)[:8]}"


def test_sites_of_other_mechanisms_are_absent(recorded: tuple[Tensors, Tensors], family: str) -> None:
    got, _ = recorded
    absent = {"llama": "embed.positions|attn.bias", "gpt2": "rope|attn.bias", "bloom": "rope|embed.positions"}
    pattern = re.compile(absent.get(family, "rope|attn.bias"))
    assert not [name for name in got if pattern.search(name)]


def test_tensors_are_transformers_own(recorded: tuple[Tensors, Tensors], family: str) -> None:
    got, want = recorded
    compared, problems = 0, []
    for name in sorted(want.keys() & got.keys()):
        if family == "bloom" and re.search(r"attn\.(bias|scores)$", name):
            continue  # test_bias
        try:
            compare(got[name], want[name], name, f"{family} {name}")
        except AssertionError as error:
            problems.append(str(error).splitlines()[0])
        compared += 1
    assert not problems, "\n".join(problems)
    assert compared >= (STEPS + 1) * (6 + LAYERS * 7)


def test_bias(recorded: tuple[Tensors, Tensors], family: str) -> None:
    if family != "bloom":
        pytest.skip("only ALiBi adds a bias")
    got, want = recorded
    for step in range(STEPS + 1):
        prefix = f"step.{step}/" if step else ""
        for layer in range(LAYERS):
            compare_bias_and_scores(got, want, prefix, layer, "bloom")


def test_shapes(recorded: tuple[Tensors, Tensors], family: str) -> None:
    got, _ = recorded
    config = BASE[family]
    heads = config.get("num_attention_heads") or config.get("n_head") or config["attention_heads"]
    hidden = config.get("hidden_size") or config.get("n_embd") or config["d_model"]
    kv_heads = config.get("num_key_value_heads", heads)
    head_dim = config.get("head_dim", hidden // heads)
    for step in range(STEPS + 1):
        prefix, tokens = (f"step.{step}/", 1) if step else ("", len(PROMPT))
        slots = len(PROMPT) + step
        shapes = {name: got[f"{prefix}layers.1.{name}"].shape for name in PER_LAYER}
        assert shapes["attn.q"] == (1, tokens, heads, head_dim)
        assert shapes["attn.k"] == shapes["attn.v"] == (1, tokens, kv_heads, head_dim)
        assert shapes["cache.k"] == shapes["cache.v"] == (1, slots, kv_heads, head_dim)
        assert shapes["attn.scores"] == shapes["attn.probs"] == (1, heads, tokens, slots)
        assert shapes["attn.out"] == shapes["out"] == (1, tokens, hidden)
        assert got[prefix + "logits"].shape[::2] == (1, config["vocab_size"])


def test_trace_is_consistent_in_itself(recorded: tuple[Tensors, Tensors], family: str) -> None:
    """Probabilities are the softmax of the scores; the cache's tail is this call's k; the embedding adds up."""
    got, _ = recorded
    for step in range(STEPS + 1):
        prefix = f"step.{step}/" if step else ""
        for layer in range(LAYERS):
            at = f"{prefix}layers.{layer}."
            scores = got[at + "attn.scores"].astype(np.float64)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            assert_within(got[at + "attn.probs"], weights, "conformance_trace", f"{family} {at}attn.probs")
            keys = got[at + "attn.k"]
            assert (got[at + "cache.k"][:, -keys.shape[1] :] == keys).all(), at
            assert (got[at + "cache.v"][:, -keys.shape[1] :] == got[at + "attn.v"]).all(), at
    if family == "gpt2":
        total = got["embed.tokens"] + got["embed.positions"]
        assert_within(got["embed.out"], total, "conformance_trace", "gpt2 embed.out")


def test_prompt_logits_are_those_of_the_file(locant: Locant, shop: ModelShop, family: str) -> None:
    result = locant.run(shop.get(family), ids=PROMPT, logits=True, trace=True)
    logits = result.trace["logits"]
    assert logits.shape[1] in (1, len(PROMPT))
    assert (logits == result.logits[:, -logits.shape[1] :]).all()


def test_metadata(locant: Locant, shop: ModelShop, family: str) -> None:
    result = locant.run(shop.get(family), ids=PROMPT, trace=True)
    metadata = result.trace_metadata
    assert metadata["locant.trace"] == "1"
    assert metadata["locant.producer"].startswith("locant")
    assert metadata["locant.model"]
    assert metadata["locant.dtype"].lower() in ("f32", "float32")
    floats = {value.dtype for value in result.trace.values() if value.dtype.kind == "f"}
    assert floats == {np.dtype(np.float32)}


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_of_a_padded_batch(locant: Locant, reference: Reference, shop: ModelShop, family: str, side: str) -> None:
    """Columns of padding hold nothing; the rest are the row's own tensors, slots oldest first."""
    model, rows = shop.get(family), [PROMPT, PROMPT[3:10]]
    result = locant.run(model, "--pad", side, "--continue", "2", ids=rows, trace=True)
    got, width = result.trace, len(PROMPT)
    mask = got["attention_mask"]
    assert mask.sum(-1).tolist() == [len(row) for row in rows]
    for index, row in enumerate(rows):
        want = reference.record(model, row, result.continuation(index)[:1])
        start = width - len(row) if side == "left" else 0
        tokens = slice(start, start + len(row))
        assert mask[index, tokens].all()
        for name, theirs in want.items():
            bare = split_step(name)[1]
            if name not in got or SCORED.search(name) or bare.startswith("rope."):
                continue
            ours, what = got[name][index : index + 1], f"{family} {side} row {index} {name}"
            if SLOTTED.search(name):
                prefix, layer = split_step(name)[0], bare.split(".")[1]
                keys = got[f"{prefix}layers.{layer}.cache.k"][index]
                ours = ours[:, ~np.isnan(keys).all(axis=(1, 2))]
            elif not name.startswith("step.") and not (bare == "logits" and ours.shape[1] == 1):
                ours = ours[:, tokens]
                if got[name].dtype.kind == "f":
                    padding = np.delete(got[name][index], np.arange(width)[tokens], axis=0)
                    assert np.isnan(padding).all(), f"{what}: padding is not NaN"
            elif bare == "logits":
                theirs = theirs[:, -1:]
            compare(ours, theirs, name, what)


def test_padded_probabilities_see_no_padding(locant: Locant, shop: ModelShop, family: str) -> None:
    rows = [PROMPT, PROMPT[3:10]]
    for side in ("left", "right"):
        trace = locant.run(shop.get(family), "--pad", side, ids=rows, trace=True).trace
        probs = trace["layers.1.attn.probs"][1]
        start = len(PROMPT) - len(rows[1]) if side == "left" else 0
        inside = probs[:, start : start + len(rows[1])]
        sums = np.nansum(inside, axis=-1)
        assert_within(sums, np.ones_like(sums), "conformance_trace", f"{family} {side}: probabilities add up to 1")
        outside = np.delete(inside, np.arange(start, start + len(rows[1])), axis=-1)
        assert (np.nan_to_num(outside) == 0).all(), f"{family} {side}: attention to padding"
