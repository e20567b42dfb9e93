# SPDX-License-Identifier: Apache-2.0
"""Encoders, and encoders with decoders, as traces: what is recorded is what the model gives, and `check` is silent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoConfig

from detector import Answer, Detector
from locant.capture.decoding import load_model, record_rows
from locant.capture.transformers import Recorder, trace

SIZES: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 40,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "type_vocab_size": 2,
}  # fmt: skip
PADDED_FROM_ONE: dict[str, Any] = {**SIZES, "pad_token_id": 1, "bos_token_id": 0}
T5: dict[str, Any] = {
    "vocab_size": 97, "d_model": 48, "d_kv": 12, "d_ff": 40, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 6,
    "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0,
}  # fmt: skip
BOTH: dict[str, Any] = {
    "vocab_size": 97, "d_model": 48, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 6,
    "decoder_attention_heads": 6, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 0,
}  # fmt: skip
DISTANCES: dict[str, Any] = {
    **SIZES, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False,
}  # fmt: skip

PAIRS = {"t5": T5, "umt5": T5, "bart": BOTH, "mbart": BOTH, "marian": BOTH, "pegasus": BOTH}
# class, keys; the recorder tells what stands alone as an encoder
ENCODERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertModel", "bert", SIZES),
    "bert, masked": ("BertForMaskedLM", "bert", SIZES),
    "bert, classes": ("BertForSequenceClassification", "bert", SIZES),
    "roberta, masked": ("RobertaForMaskedLM", "roberta", PADDED_FROM_ONE),
    "xlm-roberta": ("XLMRobertaModel", "xlm-roberta", PADDED_FROM_ONE),
    "albert": ("AlbertModel", "albert", {**SIZES, "embedding_size": 16}),
    "electra": ("ElectraModel", "electra", {**SIZES, "embedding_size": 16}),
    "distilbert": ("DistilBertModel", "distilbert", {
        "vocab_size": 97, "dim": 48, "n_layers": 3, "n_heads": 6, "hidden_dim": 40, "max_position_embeddings": 64}),
    "deberta": ("DebertaModel", "deberta", {**DISTANCES, "max_relative_positions": 64}),
    "deberta-v2": ("DebertaV2Model", "deberta-v2", {**DISTANCES, "position_buckets": 32, "share_att_key": True}),
    "t5": ("T5EncoderModel", "t5", T5),
}  # fmt: skip


def made(owner: str, kind: str, keys: dict[str, Any]) -> Any:
    torch.manual_seed(7)
    config = AutoConfig.for_model(kind, **keys)
    model = getattr(transformers, owner)._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, one in model.named_parameters():
            if one.dim() == 2 and "pos" not in name:
                one.copy_(torch.randn_like(one) * 0.2)
    return model


def pair(kind: str) -> Any:
    names = {"t5": "T5", "umt5": "UMT5", "bart": "Bart", "mbart": "MBart", "pegasus": "Pegasus"}
    return made(f"{names[kind]}ForConditionalGeneration", kind, PAIRS[kind])


def batch(pad: int) -> dict[str, torch.Tensor]:
    """Two rows, the second padded on the right."""
    ids = torch.randint(5, 90, (2, 11), generator=torch.Generator().manual_seed(5))
    mask = torch.ones_like(ids)
    ids[1, 8:], mask[1, 8:] = pad, 0
    return {"input_ids": ids, "attention_mask": mask}


def asked(detector: Detector, folder: Path, model: Any, recorded: Recorder) -> Answer:
    model.save_pretrained(folder)
    recorded.save(folder / "trace.safetensors")
    result = detector.locant.raw("check", str(folder), "--trace", str(folder / "trace.safetensors"), "--json")
    assert result.status in (0, 1), f"locant check: exit {result.status}: {result.stderr}"
    return Answer(result.json["findings"], result.json["passed"])


def run_pair(model: Any, steps: int = 2) -> tuple[Recorder, Any]:
    """A prompt of both stacks, then tokens of the decoder; the first answer."""
    given = batch(0)
    prompt = torch.randint(5, 90, (2, 7), generator=torch.Generator().manual_seed(6))
    with trace(model) as recorded:
        first = out = model(**given, decoder_input_ids=prompt, output_hidden_states=True, output_attentions=True)
        for step in range(steps):
            out = model(
                encoder_outputs=(first.encoder_last_hidden_state,), attention_mask=given["attention_mask"],
                decoder_input_ids=prompt[:, step : step + 1], past_key_values=out.past_key_values,
            )  # fmt: skip
    return recorded, first


# -- two stacks


@pytest.mark.parametrize("kind", PAIRS)
def test_both_stacks_are_silent(kind: str, detector: Detector, tmp_path: Path) -> None:
    model = made("MarianMTModel", "marian", BOTH) if kind == "marian" else pair(kind)
    recorded, _ = run_pair(model)
    names = set(recorded.tensors)
    assert names >= {"encoder.input_ids", "encoder.attention_mask", "encoder.embed.tokens", "encoder.layers.1.out"}
    assert names >= {f"layers.2.cross.{word}" for word in ("q", "k", "v", "scores", "out")}
    assert names >= {"step.2/layers.2.attn.scores", "step.2/layers.2.cross.scores", "step.2/logits"}
    assert not any(name.startswith("step.") and "encoder" in name for name in names)
    answer = asked(detector, tmp_path, model, recorded)
    assert answer.loud() == [], answer.text()
    assert {"B103", "B104", "E103"} <= set(answer.passed)


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_each_stack_is_what_the_model_gives(kind: str) -> None:
    recorded, out = run_pair(pair(kind), steps=0)
    held = recorded.tensors
    for layer in (0, 1):
        if layer == 0:  # the last state is normed in T5
            assert torch.equal(held["encoder.layers.0.out"], out.encoder_hidden_states[1])
        assert torch.equal(held[f"layers.{layer}.out"], out.decoder_hidden_states[layer + 1])
        assert torch.equal(held[f"encoder.layers.{layer}.attn.scores"].softmax(-1), out.encoder_attentions[layer])
        assert torch.equal(held[f"layers.{layer}.attn.scores"].softmax(-1), out.decoder_attentions[layer])
        assert torch.equal(held[f"layers.{layer}.cross.scores"].softmax(-1), out.cross_attentions[layer])
        cross = out.past_key_values.cross_attention_cache.layers[layer]
        assert torch.equal(held[f"layers.{layer}.cross.k"], cross.keys.transpose(1, 2))
    assert torch.equal(held["encoder.embed.out"], out.encoder_hidden_states[0])
    assert torch.equal(held["embed.out"], out.decoder_hidden_states[0])
    assert torch.equal(held["logits"], out.logits)
    if kind == "t5":
        assert torch.equal(held["encoder.final_norm.out"], out.encoder_last_hidden_state)


def test_an_encoder_that_is_called_by_generate_is_recorded() -> None:
    # generate() of transformers 5.24 counts the encoder's layers for the decoder's cache
    model = made("T5ForConditionalGeneration", "t5", {**T5, "num_decoder_layers": 2})
    with trace(model) as recorded:
        model.generate(**batch(0), max_new_tokens=3, min_new_tokens=3, do_sample=False)
    assert recorded.tensors["encoder.input_ids"].shape == (2, 11)
    assert recorded.tensors["input_ids"].shape == (2, 1)
    assert recorded.tensors["step.2/layers.0.cache.k"].shape == (2, 3, 6, 12)
    assert recorded.tensors["step.2/layers.0.cross.scores"].shape == (2, 6, 1, 11)
    assert recorded.stack == ""


def test_another_mask_of_the_encoder_is_named(detector: Detector, tmp_path: Path) -> None:
    """What the encoder is told of its padding, and what its scores say, are two things."""
    model = pair("t5")
    recorded, _ = run_pair(model, steps=0)
    recorded.tensors["encoder.attention_mask"] = torch.ones(2, 11, dtype=torch.int64)
    answer = asked(detector, tmp_path, model, recorded)
    assert answer.loud() == ["B108"], answer.text()


# -- one stack


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_is_silent(name: str, detector: Detector, tmp_path: Path) -> None:
    owner, kind, keys = ENCODERS[name]
    model = made(owner, kind, keys)
    with trace(model) as recorded:
        model(**batch(keys.get("pad_token_id", 0)))
    assert recorded.stack == "encoder"
    layers = 2 if kind == "t5" else 3
    assert {f"layers.{layer}.attn.scores" for layer in range(layers)} <= set(recorded.tensors)
    assert "layers.1.attn.q" in recorded.tensors or kind == "deberta"  # which projects q, k and v in one
    answer = asked(detector, tmp_path, model, recorded)
    assert answer.loud() == [], answer.text()
    assert {"B103", "B107"} <= set(answer.passed)


def test_a_layer_that_runs_again_is_another_layer() -> None:
    model = made("AlbertModel", "albert", {**SIZES, "embedding_size": 16})
    with trace(model) as recorded:
        out = model(**batch(0), output_hidden_states=True)
    assert len(model.encoder.albert_layer_groups) == 1
    for layer in range(3):
        assert torch.equal(recorded.tensors[f"layers.{layer}.out"], out.hidden_states[layer + 1])
    assert not torch.equal(recorded.tensors["layers.0.attn.q"], recorded.tensors["layers.1.attn.q"])
    assert "layers.3.out" not in recorded.tensors


def test_an_encoder_has_one_pass() -> None:
    model = made("BertModel", "bert", SIZES)
    with trace(model) as recorded:
        model(**batch(0))
        model(input_ids=torch.tensor([[7, 8, 9]]))
    assert not any(name.startswith("step.") for name in recorded.tensors)
    assert recorded.tensors["input_ids"].shape == (2, 11)


def test_positions_that_start_one_later_are_named(detector: Detector, tmp_path: Path) -> None:
    model = made("BertModel", "bert", SIZES)
    with trace(model) as recorded:
        model(input_ids=torch.arange(5, 25)[None], position_ids=torch.arange(1, 21)[None])
    answer = asked(detector, tmp_path, model, recorded)
    assert answer.loud() == ["P103"], answer.text()


@pytest.mark.parametrize("owner", ["BertModel", "BertForSequenceClassification"])
def test_the_pooled_state_is_that_of_the_pooler(owner: str) -> None:
    model = made(owner, "bert", SIZES)
    inner = model if owner == "BertModel" else model.bert
    with trace(model) as recorded:
        model(**batch(0))
    assert torch.equal(recorded.tensors["pooled"], inner(**batch(0)).pooler_output)


def test_the_pooled_state_is_that_of_the_token_that_is_classified() -> None:
    keys = {key: value for key, value in SIZES.items() if key != "type_vocab_size"}
    model = made("LlamaForSequenceClassification", "llama", {**keys, "num_key_value_heads": 2})
    with trace(model) as recorded:
        model(**batch(0))
    states = model.model(**batch(0)).last_hidden_state
    assert torch.equal(recorded.tensors["pooled"], torch.stack([states[0, 10], states[1, 7]]))
    assert recorded.stack == ""


# -- rows


@pytest.mark.parametrize("pad", ["left", "right"])
def test_rows_of_a_decoder_from_files(pad: str, detector: Detector, tmp_path: Path) -> None:
    keys = {key: value for key, value in SIZES.items() if key != "type_vocab_size"}
    made("LlamaForCausalLM", "llama", {**keys, "num_key_value_heads": 2}).save_pretrained(tmp_path)
    model = load_model(tmp_path)
    assert type(model).__name__ == "LlamaForCausalLM"
    recorded = record_rows(model, [list(range(5, 25)), [7, 8, 9]], steps=2, pad=pad)
    gap = recorded.tensors["attention_mask"][1, 3:] if pad == "right" else recorded.tensors["attention_mask"][1, :17]
    assert gap.sum() == 0
    assert recorded.tensors["step.2/layers.0.cache.k"].shape[1] == 22
    answer = asked(detector, tmp_path, model, recorded)
    assert answer.loud() == [], answer.text()
    assert {"R101", "R106", "P103", "P104", "P105", "B103"} <= set(answer.passed)


def test_rows_of_both_stacks_from_files(detector: Detector, tmp_path: Path) -> None:
    pair("t5").save_pretrained(tmp_path)
    model = load_model(tmp_path)
    recorded = record_rows(model, [list(range(5, 25)), [7, 8, 9]], steps=2, pad="right")
    assert recorded.tensors["encoder.input_ids"].shape == (2, 20)
    assert recorded.tensors["step.2/layers.2.cross.scores"].shape == (2, 6, 1, 20)
    assert asked(detector, tmp_path, model, recorded).loud() == []


def test_an_encoder_takes_no_decode_steps(tmp_path: Path) -> None:
    made("BertModel", "bert", SIZES).save_pretrained(tmp_path)
    model = load_model(tmp_path)
    assert record_rows(model, [[5, 6, 7]]).stack == "encoder"
    with pytest.raises(ValueError, match="an encoder has one pass"):
        record_rows(model, [[5, 6, 7]], steps=1)


def test_padding_stands_on_a_side() -> None:
    with pytest.raises(ValueError, match="padding stands left or right, got middle"):
        record_rows(made("BertModel", "bert", SIZES), [[5, 6, 7]], pad="middle")
