# SPDX-License-Identifier: Apache-2.0
"""Storage moves a result inside its bound and never changes meaning: dtypes, shards, weights and cache in memory."""

from __future__ import annotations

import pytest
import torch

from budgets import assert_within, budget, difference
from command import Locant
from models import FAMILIES, ModelShop, Variant, build, random_ids
from reference import Reference

HALVES = {"f16": torch.float16, "bf16": torch.bfloat16}
SMALL_CACHES = [*HALVES, "int8"]
IDS = random_ids(90, seed=61)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_checkpoint(
    locant: Locant, reference: Reference, shop: ModelShop, family: str, dtype: str
) -> None:
    """The dtype that weights are stored in never changes meaning: the arithmetic stays f32."""
    model = shop.make(Variant(family, dtype=HALVES[dtype]))
    want = reference.logits(model, IDS)
    stored = locant.run(model, ids=IDS, logits=True).logits[0]
    assert_within(stored, want, "conformance_family", f"{family} stored as {dtype}")
    widened = locant.run(model, "--weights", "f32", ids=IDS, logits=True).logits[0]
    assert_within(widened, want, "conformance_family", f"{family} stored as {dtype}, --weights f32")
    same = locant.run(model, "--weights", dtype, ids=IDS, logits=True).logits[0]
    assert same.tobytes() == stored.tobytes(), f"{family}: --weights {dtype} is what is stored already"


@pytest.mark.parametrize("family", FAMILIES)
def test_mixed_dtypes_in_one_checkpoint(locant: Locant, reference: Reference, shop: ModelShop, family: str) -> None:
    order = [torch.float32, torch.float16, torch.bfloat16]

    def mix(tensors: dict[str, torch.Tensor]) -> None:
        for index, name in enumerate(sorted(tensors)):
            tensors[name] = tensors[name].to(order[index % 3])

    model = shop.with_tensors(shop.get(family), mix)
    got = locant.run(model, ids=IDS, logits=True).logits[0]
    assert_within(got, reference.logits(model, IDS), "conformance_family", f"{family}, mixed dtypes")


@pytest.mark.parametrize("family", FAMILIES)
def test_shards_give_the_same_bits(locant: Locant, shop: ModelShop, family: str) -> None:
    whole = shop.get(family)
    sharded = shop.make(Variant(family, max_shard_size="60KB"))
    assert len(list(sharded.glob("model-*-of-*.safetensors"))) > 2
    assert not (sharded / "model.safetensors").exists()
    one = locant.run(whole, ids=IDS, logits=True)
    many = locant.run(sharded, ids=IDS, logits=True)
    assert one.logits.tobytes() == many.logits.tobytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_base_model_names(locant: Locant, shop: ModelShop, family: str) -> None:
    """A checkpoint of the base class lacks the prefix `transformer.` or `model.`; the tied head needs no tensor."""
    full = shop.get(family, tie_word_embeddings=True)
    base = shop.make(Variant(family, {"tie_word_embeddings": True}, base_model_only=True))
    want = locant.run(full, ids=IDS, logits=True)
    got = locant.run(base, ids=IDS, logits=True)
    assert got.logits.tobytes() == want.logits.tobytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_stored_copy_of_a_tied_head_is_not_another_head(locant: Locant, shop: ModelShop, family: str) -> None:
    """Some checkpoints store the tied head again."""
    tied = shop.get(family, tie_word_embeddings=True)
    table = {"gpt2": "transformer.wte.weight", "bloom": "transformer.word_embeddings.weight"}

    def add_head(tensors: dict[str, torch.Tensor]) -> None:
        tensors["lm_head.weight"] = tensors[table.get(family, "model.embed_tokens.weight")].clone()

    twice = shop.with_tensors(tied, add_head)
    want = locant.run(tied, ids=IDS, logits=True)
    assert locant.run(twice, ids=IDS, logits=True).logits.tobytes() == want.logits.tobytes()


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("family", FAMILIES)
def test_weights_held_in_half_precision(locant: Locant, shop: ModelShop, family: str, dtype: str) -> None:
    model = shop.get(family)
    exact = locant.run(model, ids=IDS, logits=True).logits[0]
    f32 = locant.run(model, "--weights", "f32", ids=IDS, logits=True).logits[0]
    assert f32.tobytes() == exact.tobytes()
    half = locant.run(model, "--weights", dtype, ids=IDS, logits=True).logits[0]
    assert_within(half, exact, f"conformance_weights_{dtype}", f"{family} --weights {dtype}")
    assert difference(half, exact) > budget("conformance_family"), f"--weights {dtype} rounded nothing"


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("family", FAMILIES)
def test_weights_rounded_in_memory_are_a_rounded_checkpoint(
    locant: Locant, reference: Reference, shop: ModelShop, family: str, dtype: str
) -> None:
    """Matrices are rounded, norms and biases may stay: both roundings are the reference's, one must be met."""
    got = locant.run(shop.get(family), "--weights", dtype, ids=IDS, logits=True).logits[0]

    def round_matrices(tensors: dict[str, torch.Tensor]) -> None:
        for name, value in tensors.items():
            if value.ndim == 2:
                tensors[name] = value.to(HALVES[dtype])

    candidates = [
        reference.logits(shop.make(Variant(family, dtype=HALVES[dtype])), IDS),
        reference.logits(shop.with_tensors(shop.get(family), round_matrices), IDS),
    ]
    closest = min(candidates, key=lambda want: difference(got, want))
    assert_within(got, closest, "conformance_family", f"{family} --weights {dtype} against a rounded checkpoint")


@pytest.mark.parametrize("dtype", SMALL_CACHES)
@pytest.mark.parametrize("family", FAMILIES)
def test_small_cache(locant: Locant, shop: ModelShop, family: str, dtype: str) -> None:
    model = shop.get(family)
    exact = locant.run(model, "--cache", "f32", ids=IDS, logits=True).logits[0]
    default = locant.run(model, ids=IDS, logits=True).logits[0]
    assert default.tobytes() == exact.tobytes()
    half = locant.run(model, "--cache", dtype, ids=IDS, logits=True).logits[0]
    assert_within(half, exact, f"conformance_cache_{dtype}", f"{family} --cache {dtype}")
    assert difference(half, exact) > budget("conformance_padding"), f"--cache {dtype} rounded nothing"


@pytest.mark.parametrize("dtype", SMALL_CACHES)
def test_small_cache_step_by_step(locant: Locant, shop: ModelShop, dtype: str) -> None:
    model, ids = shop.get("llama", tie_word_embeddings=False), IDS[:20]
    stepped = locant.run(model, "--cache", dtype, "--continue", "20", ids=ids, trace=True)
    chosen = stepped.continuation()
    whole = locant.run(model, "--cache", dtype, ids=ids + chosen, logits=True).logits[0]
    for step in (1, 10, 19):
        got = stepped.trace[f"step.{step}/logits"][0, -1]
        assert_within(got, whole[len(ids) + step - 1], f"conformance_cache_{dtype}", f"step {step}")


def test_unused_tensors_do_not_disturb(locant: Locant, shop: ModelShop) -> None:
    """Old GPT-2 files carry the causal mask as attn.bias and attn.masked_bias."""
    plain = shop.get("gpt2")

    def add_masks(tensors: dict[str, torch.Tensor]) -> None:
        for layer in range(3):
            tensors[f"transformer.h.{layer}.attn.bias"] = torch.ones(1, 1, 400, 400).tril().to(torch.uint8)
            tensors[f"transformer.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)

    old = shop.with_tensors(plain, add_masks)
    want = locant.run(plain, ids=IDS, logits=True)
    assert locant.run(old, ids=IDS, logits=True).logits.tobytes() == want.logits.tobytes()


def test_random_weights_have_the_promised_spread() -> None:
    """Matrices N(0, 1.2^2 / fan_in), norms near 1: the reference is held to the shape it promises."""
    model = build(Variant("llama"))
    weight = model.get_parameter("model.layers.0.mlp.down_proj.weight")
    assert abs(float(weight.detach().std()) * weight.shape[1] ** 0.5 / 1.2 - 1) < budget("random_spread")
    norm = model.get_parameter("model.norm.weight")
    assert abs(float(norm.detach().mean()) - 1) < budget("random_gain")
