# SPDX-License-Identifier: Apache-2.0
"""Every first family against transformers in float32: logits and the greedy continuation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgets import assert_within, budget
from command import Locant
from models import BASE, FAMILIES, ModelShop, Variant, random_ids
from reference import Reference

BUNDLED_TOKENS = {"rope": 300, "alibi": 300, "learned": 128, "sinusoidal": 300}
CONTINUED = 64
# English prose, as in training. On random bytes a trained model is ill-conditioned: inputs moved by 6e-8 move the
# logits of `alibi` by 5e-6, on prose by 3e-9.
PROSE = (
    b"It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a "
    b"wife. However little known the feelings or views of such a man may be on his first entering a neighbourhood, "
    b"this truth is so well fixed in the minds of the surrounding families, that he is considered as the rightful "
    b"property of some one or other of their daughters."
)

VARIANTS: dict[str, Variant] = {
    "llama tied": Variant("llama", {"tie_word_embeddings": True}),
    "llama attention bias": Variant("llama", {"attention_bias": True}),
    "llama mlp bias": Variant("llama", {"mlp_bias": True}),
    "llama one kv head": Variant("llama", {"num_key_value_heads": 1}),
    "llama all kv heads": Variant("llama", {"num_key_value_heads": 9}),
    "llama head_dim from hidden": Variant("llama", {"head_dim": None, "hidden_size": 72}),
    "llama theta 10000": Variant("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
    "llama one layer": Variant("llama", {"num_hidden_layers": 1}),
    "llama eps": Variant("llama", {"rms_norm_eps": 0.03}),
    "llama gelu": Variant("llama", {"hidden_act": "gelu"}),
    "gpt2 untied": Variant("gpt2", {"tie_word_embeddings": False}),
    "gpt2 gelu": Variant("gpt2", {"activation_function": "gelu"}),
    "gpt2 relu": Variant("gpt2", {"activation_function": "relu"}),
    "gpt2 inverse layer": Variant("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    "gpt2 unscaled": Variant("gpt2", {"scale_attn_weights": False}),
    "gpt2 upcast": Variant("gpt2", {"reorder_and_upcast_attn": True}),
    "gpt2 n_inner": Variant("gpt2", {"n_inner": 37}),
    "gpt2 eps": Variant("gpt2", {"layer_norm_epsilon": 0.03}),
    "bloom residual after norm": Variant("bloom", {"apply_residual_connection_post_layernorm": True}),
    "bloom untied": Variant("bloom", {"tie_word_embeddings": False}),
    "bloom 8 heads": Variant("bloom", {"n_head": 8}),
    "bloom 14 heads": Variant("bloom", {"n_head": 14}),
    "bloom one head": Variant("bloom", {"n_head": 1}),
    "xglm unscaled": Variant("xglm", {"scale_embedding": False}),
    "xglm untied": Variant("xglm", {"tie_word_embeddings": False}),
    "xglm relu": Variant("xglm", {"activation_function": "relu"}),
    # transformers zeroes the table's row pad_token_id: position pad_token_id - 2
    "xglm pad token 7": Variant("xglm", {"pad_token_id": 7}),
    "xglm no pad token": Variant("xglm", {"pad_token_id": None}),
}
ALWAYS = {
    "llama tied", "llama attention bias", "llama mlp bias", "gpt2 untied", "gpt2 relu", "gpt2 gelu",
    "gpt2 inverse layer", "bloom residual after norm", "bloom untied", "xglm unscaled", "xglm pad token 7",
}  # fmt: skip


def sampled(names: dict[str, Any], always: set[str]) -> list[Any]:
    return [name if name in always else pytest.param(name, marks=pytest.mark.full) for name in names]


def check_logits(locant: Locant, reference: Reference, model: Path, ids: list[int], what: str) -> None:
    got = locant.run(model, ids=ids, logits=True).logits[0]
    assert_within(got, reference.logits(model, ids), "conformance_family", what)


def check_greedy(locant: Locant, reference: Reference, model: Path, ids: list[int], what: str) -> None:
    want = reference.greedy(model, ids, CONTINUED)
    # Otherwise the comparison would be decided by rounding, in either program.
    assert want.gap > 2 * budget("conformance_family"), f"{what}: the reference's own choice is a tie; other ids"
    result = locant.run(model, "--continue", str(CONTINUED), ids=ids)
    assert result.continuation() == want.ids, what


@pytest.mark.parametrize("name", BUNDLED_TOKENS)
def test_bundled_model(locant: Locant, reference: Reference, bundled: Path, name: str) -> None:
    ids = [4 + byte for byte in PROSE[: BUNDLED_TOKENS[name]]]
    assert len(ids) == BUNDLED_TOKENS[name]
    check_logits(locant, reference, bundled / name, ids, f"bundled {name}")


@pytest.mark.parametrize("name", BUNDLED_TOKENS)
def test_bundled_model_continues(locant: Locant, reference: Reference, bundled: Path, name: str) -> None:
    check_greedy(locant, reference, bundled / name, [4 + byte for byte in PROSE[:57]], f"bundled {name}")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full), pytest.param(3, marks=pytest.mark.full)])
def test_random_model(locant: Locant, reference: Reference, shop: ModelShop, family: str, seed: int) -> None:
    model = shop.make(Variant(family, seed=seed))
    check_logits(locant, reference, model, random_ids(300, seed), f"{family} seed {seed}")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False])
def test_random_model_continues(locant: Locant, reference: Reference, shop: ModelShop, family: str, tied: bool) -> None:
    """From 230 past 256; a tied head of random weights tends to repeat itself, an untied one wanders."""
    model = shop.get(family, tie_word_embeddings=tied)
    check_greedy(locant, reference, model, random_ids(230, seed=5), f"{family} tied={tied}")


@pytest.mark.parametrize("name", sampled(VARIANTS, ALWAYS))
def test_variant(locant: Locant, reference: Reference, shop: ModelShop, name: str) -> None:
    check_logits(locant, reference, shop.make(VARIANTS[name]), random_ids(40, seed=7), name)


@pytest.mark.parametrize("name", ["bloom untied", "xglm unscaled", "llama attention bias", "gpt2 inverse layer"])
def test_variant_changes_the_logits(reference: Reference, shop: ModelShop, name: str) -> None:
    """The variants are worth testing only if transformers gives them other logits than the plain family."""
    variant = VARIANTS[name]
    ids = random_ids(40, seed=7)
    plain = reference.logits(shop.get(variant.family), ids)
    changed = reference.logits(shop.make(variant), ids)
    assert abs(plain - changed).max() > 100 * budget("conformance_family") * abs(plain).max()


@pytest.mark.parametrize("family", FAMILIES)
def test_one_token(locant: Locant, reference: Reference, shop: ModelShop, family: str) -> None:
    model = shop.get(family)
    check_logits(locant, reference, model, [501], f"{family}, T = 1")
    want = reference.greedy(model, [501], 8)
    assert locant.run(model, "--continue", "8", ids=[501]).continuation() == want.ids


@pytest.mark.parametrize("family", ["llama", "xglm"])
def test_prompt_past_2048(locant: Locant, reference: Reference, shop: ModelShop, family: str) -> None:
    """Past every configured length: these mechanisms have no end."""
    model = shop.get(family)
    ids = random_ids(2300, seed=11)
    got = locant.run(model, ids=ids, logits=True).logits[0]
    assert_within(got, reference.logits(model, ids), "conformance_long", f"{family}, T = 2300")


def test_alibi_past_2048(locant: Locant, reference: Reference, shop: ModelShop) -> None:
    """Against float64: transformers adds slope times key position, which f32 rounds to 6e-5 at 1000."""
    model, ids = shop.get("bloom"), random_ids(2300, seed=11)
    got = locant.run(model, ids=ids, logits=True).logits[0]
    assert_within(got, reference.wide_logits(model, ids), "conformance_golden", "bloom, T = 2300, in f64")


@pytest.mark.full
@pytest.mark.parametrize("family", ["llama", "gpt2", "bloom"])
def test_random_model_in_float64(locant: Locant, reference: Reference, shop: ModelShop, family: str) -> None:
    model, ids = shop.get(family), random_ids(300, seed=1)
    got = locant.run(model, ids=ids, logits=True).logits[0]
    assert_within(got, reference.wide_logits(model, ids), "conformance_family", f"{family} in f64")


def test_rope_continues_past_2048(locant: Locant, reference: Reference, shop: ModelShop) -> None:
    model, ids = shop.get("llama"), random_ids(2040, seed=13)
    want = reference.greedy(model, ids, 16)
    assert want.gap > 2 * budget("conformance_long")
    result = locant.run(model, "--continue", "16", ids=ids, trace=True)
    assert result.continuation() == want.ids
    trace = result.trace
    for step in (1, 8, 15):
        got = trace[f"step.{step}/logits"][0, -1]
        assert_within(got, want.logits[len(ids) + step - 1], "conformance_long", f"llama at {len(ids) + step - 1}")


def test_learned_table_to_its_end(locant: Locant, reference: Reference, shop: ModelShop) -> None:
    model, end = shop.get("gpt2"), BASE["gpt2"]["n_positions"]
    ids = random_ids(end, seed=17)
    check_logits(locant, reference, model, ids, "gpt2, all rows of the table")
    # 390 + 10 tokens fill every position; the eleventh is chosen by the last and never fed.
    want = reference.greedy(model, ids[:390], 11)
    for count in (10, 11):
        assert locant.run(model, "--continue", str(count), ids=ids[:390]).continuation() == want.ids[:count]


@pytest.mark.parametrize(("prompt", "more", "flags"), [(401, 0, []), (390, 12, []), (1, 0, ["--start", "400"])])
def test_learned_table_past_its_end(locant: Locant, shop: ModelShop, prompt: int, more: int, flags: list[str]) -> None:
    model = shop.get("gpt2")
    ids = random_ids(prompt, seed=17)
    result = locant.attempt(model, "--continue", str(more), *flags, ids=ids, logits=True, trace=True)
    assert result.status == 2, result.stderr
    assert result.stderr.startswith("locant: ") and len(result.stderr.splitlines()) == 1
    assert "400" in result.stderr, f"the table's end is not named: {result.stderr}"
    assert result.logits_file and not result.logits_file.exists()
    assert result.trace_file and not result.trace_file.exists()


@pytest.mark.parametrize("as_list", [False, True])
def test_end_token_stops_a_row(locant: Locant, reference: Reference, shop: ModelShop, as_list: bool) -> None:
    """Rows end on their own, after the end token; the others go on."""
    plain = shop.get("llama")
    rows = [random_ids(20, seed=19), random_ids(9, seed=20)]
    free = [reference.greedy(plain, row, 24).ids for row in rows]
    end = next(token for token in free[0][4:] if token not in free[1])
    stop = free[0].index(end)
    ends: Any = [end, 3] if as_list else end
    model = shop.get("llama", eos_token_id=ends)
    result = locant.run(model, "--continue", "24", ids=rows)
    assert result.continuation(0) == free[0][: stop + 1]
    assert result.continuation(1) == free[1]


def test_bundled_models_by_name(locant: Locant, bundled: Path) -> None:
    ids = [4 + byte for byte in b"Emma"]
    for name in BUNDLED_TOKENS:
        by_name = locant.run(name, ids=ids, logits=True)
        by_path = locant.run(bundled / name, ids=ids, logits=True)
        assert by_name.logits.tobytes() == by_path.logits.tobytes(), name
    default = locant.raw("run", "--json", "--ids", ",".join(map(str, ids)))
    assert default.status == 0, default.stderr
    assert default.rows[0]["next"] == locant.run("rope", ids=ids).rows[0]["next"]
