# SPDX-License-Identifier: Apache-2.0
"""The forms in which transformers 4 and 5 write the same config give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from budgets import assert_within
from command import Locant
from models import BASE, FAMILIES, ModelShop, random_ids
from reference import Reference

Config = dict[str, Any]
IDS = random_ids(50, seed=71)


def v4_common(config: Config) -> None:
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.40.1"
    # v4 wrote no key whose value was the default of its base class
    for key in ("bos_token_id", "eos_token_id", "pad_token_id", "add_cross_attention"):
        if config.get(key) is None or config.get(key) is False:
            config.pop(key, None)


def v4_llama(config: Config) -> None:
    v4_common(config)
    rope = config.pop("rope_parameters")
    config["rope_theta"], config["rope_scaling"] = rope["rope_theta"], None


def v4_gpt2(config: Config) -> None:
    v4_common(config)
    config.pop("tie_word_embeddings")
    config["n_ctx"] = config["n_positions"]
    config["task_specific_params"] = {"text-generation": {"do_sample": True, "max_length": 50}}


def v4_bloom(config: Config) -> None:
    v4_common(config)
    config.pop("tie_word_embeddings", None)
    config |= {
        "attention_softmax_in_fp32": True, "bias_dropout_fusion": True, "masked_softmax_fusion": True,
        "n_inner": None, "offset_alibi": 100, "skip_bias_add": True, "skip_bias_add_qkv": False, "unk_token_id": 0,
        "seq_length": 2048,
    }  # fmt: skip


def v4_bloom_early(config: Config) -> None:
    v4_bloom(config)
    config["n_embed"] = config.pop("hidden_size")
    config["num_attention_heads"] = config.pop("n_head")


def v4_xglm(config: Config) -> None:
    v4_common(config)
    config.pop("tie_word_embeddings", None)


def scaling_default(config: Config) -> None:
    v4_llama(config)
    config["rope_scaling"] = {"type": "default"}


def both_thetas(config: Config) -> None:
    config["rope_theta"] = config["rope_parameters"]["rope_theta"]


def minimal_llama(config: Config) -> None:
    """Keys whose values are the family's defaults may be absent."""
    v4_llama(config)
    for key in ("attention_bias", "attention_dropout", "mlp_bias", "pretraining_tp", "hidden_act", "initializer_range"):
        config.pop(key)
    for key in ("use_cache", "rms_norm_eps", "transformers_version", "torch_dtype"):
        config.pop(key)
    config.pop("tie_word_embeddings")  # llama's default is untied


def inference_only(config: Config) -> None:
    """What exporters add and nobody reads."""
    config |= {"_name_or_path": "somewhere/else", "use_cache": False, "output_attentions": False}


FORMS: dict[str, tuple[str, Config, Callable[[Config], None]]] = {
    "llama v4": ("llama", {}, v4_llama),
    "llama v4 tied": ("llama", {"tie_word_embeddings": True}, v4_llama),
    "llama v4 scaling type default": ("llama", {}, scaling_default),
    "llama theta twice": ("llama", {}, both_thetas),
    "llama minimal": ("llama", {}, minimal_llama),
    "llama exporter's keys": ("llama", {}, inference_only),
    "gpt2 v4": ("gpt2", {}, v4_gpt2),
    "gpt2 exporter's keys": ("gpt2", {}, inference_only),
    "bloom v4": ("bloom", {}, v4_bloom),
    "bloom v4, first names": ("bloom", {}, v4_bloom_early),
    "xglm v4": ("xglm", {}, v4_xglm),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_one_config(locant: Locant, reference: Reference, shop: ModelShop, name: str) -> None:
    family, changes, rewrite = FORMS[name]
    modern = shop.get(family, **changes)
    old = shop.with_config(modern, rewrite)
    want = locant.run(modern, ids=IDS, logits=True)
    got = locant.run(old, ids=IDS, logits=True)
    assert got.logits.tobytes() == want.logits.tobytes()
    # and transformers reads the rewritten form as the same model
    assert (reference.logits(old, IDS) == reference.logits(modern, IDS)).all()


def test_thetas_that_contradict_each_other(locant: Locant, reference: Reference, shop: ModelShop) -> None:
    """Refused in a sentence, or read as transformers does: never a third meaning."""
    model = shop.with_config(shop.get("llama"), lambda config: config.update(rope_theta=777.0))
    result = locant.attempt(model, ids=IDS, logits=True)
    if result.status == 2:
        assert "rope_theta" in result.stderr and "777" in result.stderr
        return
    assert result.status == 0, result.stderr
    assert_within(result.logits[0], reference.logits(model, IDS), "conformance_family", "contradicting thetas")


def test_default_theta_is_10000(locant: Locant, shop: ModelShop) -> None:
    stated = shop.get("llama", rope_parameters={"rope_type": "default", "rope_theta": 10000.0})

    def drop(config: Config) -> None:
        config.pop("rope_parameters")
        config["rope_scaling"] = None

    silent = shop.with_config(stated, drop)
    want = locant.run(stated, ids=IDS, logits=True)
    assert locant.run(silent, ids=IDS, logits=True).logits.tobytes() == want.logits.tobytes()


def test_theta_written_as_an_integer(locant: Locant, shop: ModelShop) -> None:
    plain = shop.get("llama")

    def integer(config: Config) -> None:
        config["rope_parameters"]["rope_theta"] = int(config["rope_parameters"]["rope_theta"])

    want = locant.run(plain, ids=IDS, logits=True)
    got = locant.run(shop.with_config(plain, integer), ids=IDS, logits=True)
    assert got.logits.tobytes() == want.logits.tobytes()


def test_kv_heads_default_to_heads(locant: Locant, shop: ModelShop) -> None:
    stated = shop.get("llama", num_key_value_heads=BASE["llama"]["num_attention_heads"])
    silent = shop.with_config(stated, lambda config: config.pop("num_key_value_heads"))
    want = locant.run(stated, ids=IDS, logits=True)
    assert locant.run(silent, ids=IDS, logits=True).logits.tobytes() == want.logits.tobytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_dtype_key_never_changes_meaning(locant: Locant, shop: ModelShop, family: str) -> None:
    plain = shop.get(family)
    want = locant.run(plain, ids=IDS, logits=True)
    for dtype in ("float16", "bfloat16"):

        def state(config: Config, dtype: str = dtype) -> None:
            config["dtype"] = dtype

        other = shop.with_config(plain, state)
        assert locant.run(other, ids=IDS, logits=True).logits.tobytes() == want.logits.tobytes(), dtype


@pytest.mark.parametrize("family", FAMILIES)
def test_json_names_the_model(locant: Locant, shop: ModelShop, family: str) -> None:
    mechanism = {"llama": "rope", "gpt2": "learned", "bloom": "alibi", "xglm": "sinusoidal"}[family]
    result = locant.run(shop.get(family), ids=IDS)
    assert result.json["schema_version"] == 1
    assert result.json["tool"] == "locant"
    assert list(result.json)[:4] == ["schema_version", "tool", "version", "command"]
    model = result.json["model"]
    assert model["family"] == family
    assert mechanism in str(model)
