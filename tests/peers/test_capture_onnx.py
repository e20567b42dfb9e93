# SPDX-License-Identifier: Apache-2.0
"""ONNX models under onnxruntime as traces: `locant check` is silent on them, and names what is wrong with others."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("torch", reason="torch is not installed")

import torch
from onnx_llama import Form, write
from transformers import AutoConfig, AutoModelForCausalLM

from budgets import assert_within
from command import ROOT, Locant
from locant.capture.onnx import Session, record_rows
from locant.capture.recorder import Recorder

DATA = Path(os.environ.get("LOCANT_DATA", ROOT.parent / "shared" / "data"))
FLAT = [Form(rotary, "Attention", flat=True) for rotary in ("ai.onnx", "com.microsoft")]
WRITTEN = [Form(), Form("com.microsoft"), Form("com.microsoft", "Attention"), Form("ai.onnx", "Attention"), *FLAT]
GROUPED = [Form(attention="GroupQueryAttention", flat=flat) for flat in (False, True)]
ROWS = [list(range(5, 25)), list(range(30, 43))]
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 50000.0}}),
    "qwen3": ("qwen3", {}),
    "gemma2": ("gemma2", {"sliding_window": 8}),
    "phi": ("phi", {"num_key_value_heads": 6, "hidden_size": 72, "rope_parameters": {
        "rope_type": "default", "rope_theta": 20000.0, "partial_rotary_factor": 0.5}}),
    "gpt_neox": ("gpt_neox", {"hidden_size": 72, "rope_parameters": {
        "rope_type": "default", "rope_theta": 20000.0, "partial_rotary_factor": 0.5}}),
    "gptj": ("gptj", {"n_embd": 64, "n_layer": 3, "n_head": 4, "rotary_dim": 8, "n_positions": 64}),
    "gpt2": ("gpt2", {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 64}),
    "opt": ("opt", {"ffn_dim": 40, "word_embed_proj_dim": 48, "head_dim": 8, "num_key_value_heads": 6}),
    "bloom": ("bloom", {"n_layer": 3, "n_head": 6}),
}  # fmt: skip
BASE = {"vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6, "head_dim": 12,
        "num_key_value_heads": 2, "intermediate_size": 40, "max_position_embeddings": 64, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False}  # fmt: skip
OWN_SIZES = {"gptj", "gpt2", "bloom"}  # their configs name them otherwise


@dataclass
class Answer:
    rules: dict[str, str]
    passed: list[str]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, Recorder], Answer]:
    folder = tmp_path_factory.mktemp("onnx")
    binary = Path(os.environ.get("LOCANT_BIN", ROOT / "build" / "locant"))
    if not binary.is_file():
        pytest.fail(f"{binary} is missing: build it first (./dev build), or name another with LOCANT_BIN")
    locant = Locant(binary, folder)

    def asked(model: Path, recorded: Recorder) -> Answer:
        recorded.save(folder / "trace.safetensors")
        result = locant.raw("check", str(model), "--trace", str(folder / "trace.safetensors"), "--json")
        assert result.status in (0, 1), result.stderr
        found = {one["rule"]: one["message"] for one in result.json["findings"] if one["severity"] != "note"}
        return Answer(found, result.json["passed"])

    return asked


def made(family: str) -> Any:
    kind, keys = FAMILIES[family]
    sizes = {"vocab_size": 97, "hidden_size": 48} if kind == "bloom" else {"vocab_size": 97}
    config = AutoConfig.for_model(kind, **{**(sizes if kind in OWN_SIZES else BASE), **keys})
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for one in model.parameters():
            if one.dim() == 2:
                one.copy_(torch.randn_like(one) * 0.2)
    return model


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    model, folder = made("llama"), tmp_path_factory.mktemp("llama")
    model.save_pretrained(folder)
    return model, folder


# -- operators


@pytest.mark.parametrize("form", WRITTEN, ids=str)
def test_a_graph_is_silent(form: Form, llama: tuple[Any, Path], tmp_path: Path, ask: Any) -> None:
    model, folder = llama
    recorded = record_rows(write(model, tmp_path / "model.onnx", form), ROWS, steps=2)
    names = {name for name in recorded.tensors if name.startswith("layers.1.")}
    assert names >= {f"layers.1.attn.{word}" for word in ("q_pre", "k_pre", "q", "k", "v", "out", "scores")}
    assert names >= {"layers.1.cache.k", "layers.1.cache.v", "layers.1.out"}
    assert recorded.left_out == []
    answer = ask(folder, recorded)
    assert answer.rules == {}
    assert {"R101", "R106", "T101", "B102", "B103", "P103", "P108", "E103", "E108"} <= set(answer.passed)


def test_what_is_recorded_is_what_transformers_computes(llama: tuple[Any, Path], tmp_path: Path) -> None:
    model, _ = llama
    recorded = record_rows(write(model, tmp_path / "model.onnx", Form("com.microsoft")), ROWS[:1])
    with torch.no_grad():
        out = model(torch.tensor(ROWS[:1]), output_hidden_states=True, use_cache=True)
    assert_within(recorded.tensors["logits"], out.logits.numpy(), "conformance_family", "logits")
    for layer in range(2):
        state = out.hidden_states[layer + 1].numpy()
        assert_within(recorded.tensors[f"layers.{layer}.out"], state, "conformance_family", f"layer {layer}")
        keys = out.past_key_values.layers[layer].keys.numpy().transpose(0, 2, 1, 3)
        assert_within(recorded.tensors[f"layers.{layer}.cache.k"], keys, "conformance_family", f"keys {layer}")


@pytest.mark.parametrize("form", GROUPED, ids=str)
def test_an_operator_that_rotates_itself_gives_k_alone(
    form: Form, llama: tuple[Any, Path], tmp_path: Path, ask: Any
) -> None:
    model, folder = llama
    recorded = record_rows(write(model, tmp_path / "model.onnx", form), ROWS[:1], steps=2)
    shapes = {word: recorded.tensors[f"layers.1.attn.{word}"].shape for word in ("q_pre", "k_pre", "k", "v")}
    assert shapes == {"q_pre": (1, 20, 6, 16)} | dict.fromkeys(("k_pre", "k", "v"), (1, 20, 2, 16))
    assert recorded.tensors["rope.cos"].shape == (1, 20, 8)
    scores = recorded.tensors["layers.1.attn.scores"]
    assert np.array_equal(np.isfinite(scores), np.broadcast_to(np.tri(20, dtype=bool), scores.shape))
    written = record_rows(write(model, tmp_path / "written.onnx", Form()), ROWS[:1]).tensors["layers.1.attn.scores"]
    seen = np.isfinite(scores)
    assert_within(scores[seen], written[seen], "conformance_family", "scores")
    assert "layers.0.attn.q" not in recorded.tensors
    assert any("layers.0.attn.q:" in one for one in recorded.left_out)
    answer = ask(folder, recorded)
    assert answer.rules == {}
    assert {"R101", "R106", "T101", "B104"} <= set(answer.passed)


def test_weights_outside_the_file_stay_there(llama: tuple[Any, Path], tmp_path: Path, ask: Any) -> None:
    model, folder = llama
    path = write(model, tmp_path / "model.onnx", Form(), outside=True)
    assert (tmp_path / "weights.bin").stat().st_size > path.stat().st_size
    assert ask(folder, record_rows(path, ROWS)).rules == {}


# -- faults


@pytest.mark.parametrize("form", [Form(interleaved=True), Form("com.microsoft", interleaved=True),
                                  Form(attention="GroupQueryAttention", interleaved=True)], ids=str)  # fmt: skip
def test_the_other_pairing_is_named(form: Form, llama: tuple[Any, Path], tmp_path: Path, ask: Any) -> None:
    rows = ROWS[:1] if form.attention == "GroupQueryAttention" else ROWS
    answer = ask(llama[1], record_rows(write(llama[0], tmp_path / "model.onnx", form), rows, steps=1))
    assert set(answer.rules) == {"R101"}


@pytest.mark.parametrize("rotary", ["ai.onnx", "com.microsoft"])
def test_caches_of_another_theta_are_named(rotary: str, llama: tuple[Any, Path], tmp_path: Path, ask: Any) -> None:
    path = write(llama[0], tmp_path / "model.onnx", Form(rotary, theta=10000.0))
    answer = ask(llama[1], record_rows(path, ROWS, steps=1))
    assert answer.rules and set(answer.rules) <= {"R106", "T101"}
    assert any("10000" in one for one in answer.rules.values())


def test_decoding_one_position_off_is_named(llama: tuple[Any, Path], tmp_path: Path, ask: Any) -> None:
    session = Session(write(llama[0], tmp_path / "model.onnx", Form()))
    ids = np.array(ROWS[:1], np.int64)
    held = {name: np.zeros((1, 2, 0, 16), np.float32) for name in session.past}
    for step in range(3):
        start = 0 if step == 0 else 20 + step  # 19 + step would be right
        given = ids if step == 0 else ids[:, :1]
        outputs = session.run({
            **held, "input_ids": given, "attention_mask": np.ones((1, 20 + step), np.int64),
            "position_ids": start + np.arange(given.shape[1])[None],
        })  # fmt: skip
        held = {name: outputs[name.replace("past_key_values", "present")] for name in held}
    assert set(ask(llama[1], session.recorder).rules) == {"P102"}


# -- what exporters write out


@pytest.mark.parametrize("family", FAMILIES)
def test_an_exported_family_is_silent(family: str, tmp_path: Path, ask: Any) -> None:
    model = made(family)
    model.save_pretrained(tmp_path)
    exported(model, tmp_path / "model.onnx")
    recorded = record_rows(tmp_path / "model.onnx", ROWS)
    assert recorded.left_out == []
    answer = ask(tmp_path, recorded)
    assert answer.rules == {}
    turned = family not in ("gpt2", "opt", "bloom")
    assert ("layers.2.attn.q_pre" in recorded.tensors) == turned
    assert {"B102", "B103"} | ({"R101", "R106", "T101"} if turned else set()) <= set(answer.passed)


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_neox", "gpt2", "bloom"])
def test_a_graph_that_onnxruntime_optimised_is_silent(family: str, tmp_path: Path, ask: Any) -> None:
    """Scales fall into the products; the rest is found as before."""
    import onnxruntime

    model = made(family)
    model.save_pretrained(tmp_path)
    exported(model, tmp_path / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), options)
    plain, fused = (record_rows(tmp_path / name, ROWS) for name in ("model.onnx", "optimised.onnx"))
    assert fused.left_out == []
    assert set(fused.tensors) == set(plain.tensors)
    assert ask(tmp_path, fused).rules == {}


def test_what_is_recorded_is_what_hooks_read(tmp_path: Path) -> None:
    """The tensors of a graph and those of the model it was exported from, by name."""
    from locant.capture.transformers import trace

    for family in ("llama", "gemma2", "gptj", "opt"):
        model = made(family)
        exported(model, tmp_path / "model.onnx")
        graph = record_rows(tmp_path / "model.onnx", ROWS[:1])
        with trace(model) as hooked:
            model(torch.tensor(ROWS[:1]))
        compared = 0
        for name, tensor in graph.tensors.items():
            if name not in hooked.tensors or tensor.dtype.kind != "f" or name.startswith("rope"):
                continue
            compared += 1
            theirs = hooked.tensors[name].numpy()
            seen = theirs > torch.finfo(torch.float32).min / 2 if name.endswith("scores") else np.isfinite(theirs)
            assert_within(tensor[seen], theirs[seen], "conformance_family", f"{family}: {name}")
        assert compared >= 3 * 4, family


def test_an_exported_encoder_is_silent(tmp_path: Path, ask: Any) -> None:
    from transformers import BertConfig, BertModel

    torch.manual_seed(3)
    sizes = {key: BASE[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size")}
    config = BertConfig(**sizes, num_attention_heads=6, max_position_embeddings=64, attn_implementation="eager")
    model = BertModel(config).eval()
    model.save_pretrained(tmp_path)

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, ids: Any, mask: Any, types: Any) -> Any:
            return self.inner(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state

    ids = torch.randint(5, 90, (2, 9))
    names = ["input_ids", "attention_mask", "token_type_ids"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Plain().eval(), (ids, torch.ones_like(ids), torch.zeros_like(ids)), str(tmp_path / "model.onnx"),
            input_names=names, output_names=["states"], dynamic_axes={one: {0: "batch", 1: "tokens"} for one in names},
            dynamo=False, opset_version=17,
        )  # fmt: skip
    recorded = record_rows(tmp_path / "model.onnx", ROWS, pad="right", stack="encoder")
    assert {"embed.types", "embed.positions", "layers.1.out", "layers.2.attn.scores"} <= set(recorded.tensors)
    answer = ask(tmp_path, recorded)
    assert answer.rules == {}
    assert {"B102", "B103", "E107", "P103"} <= set(answer.passed)


def exported(model: Any, path: Path) -> None:
    """By the tracing exporter, which writes rotations and attention out."""

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, ids: Any, mask: Any, positions: Any) -> Any:
            more = {} if model.config.model_type == "bloom" else {"position_ids": positions}
            return self.inner(input_ids=ids, attention_mask=mask, use_cache=False, **more).logits

    ids = torch.randint(5, 90, (2, 9))
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    names = ["input_ids", "attention_mask", "position_ids"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Plain().eval(), (ids, mask, (mask.cumsum(-1) - 1).clamp(min=0)), str(path), input_names=names,
            output_names=["logits"], dynamic_axes={one: {0: "batch", 1: "tokens"} for one in [*names, "logits"]},
            dynamo=False, opset_version=17,
        )  # fmt: skip


# -- a real model


def test_a_real_decoder_is_silent(ask: Any) -> None:
    folder = DATA / "capp-gpt2"
    if not folder.is_dir():
        pytest.skip(f"no real checkpoints: {DATA} is missing (LOCANT_DATA names the folder)")
    ids = [49, 0, 7, 15, 17, 21, 26, 50]
    recorded = record_rows(folder / "model.onnx", [ids, ids[:5]], steps=3)
    assert recorded.source_names["embed.positions"] == "/transformer/Cast_2_output_0"
    assert {"layers.3.cache.k", "step.3/layers.3.cache.v", "layers.3.attn.probs"} <= set(recorded.tensors)
    answer = ask(folder, recorded)
    assert answer.rules == {}
    assert {"P103", "P108", "E103", "E105", "E107", "E108", "B102", "B103"} <= set(answer.passed)


def test_positions_of_a_real_decoder_that_start_one_later_are_named(ask: Any) -> None:
    folder = DATA / "capp-gpt2"
    if not folder.is_dir():
        pytest.skip(f"no real checkpoints: {DATA} is missing (LOCANT_DATA names the folder)")
    session = Session(folder / "model.onnx")
    ids = np.array([[49, 0, 7, 15, 17, 21, 26, 50]], np.int64)
    held = {name: np.zeros((1, 4, 0, 16), np.float32) for name in session.past}
    ones = np.ones_like(ids)
    outputs = session.run({**held, "input_ids": ids, "attention_mask": ones, "position_ids": ones.cumsum(-1)})
    assert outputs["logits"].shape == (1, 8, 53)
    assert set(ask(folder, session.recorder).rules) == {"P103"}


# -- refusals


def test_decode_steps_need_a_past(tmp_path: Path) -> None:
    exported(made("gpt2"), tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="decode steps need a graph that takes past key-values"):
        record_rows(tmp_path / "model.onnx", ROWS, steps=1)


def test_a_model_takes_ids(tmp_path: Path) -> None:
    import onnx
    from onnx import helper

    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "one", [given], [out])
    onnx.save(helper.make_model(graph), str(tmp_path / "model.onnx"))
    with pytest.raises(ValueError, match=r"takes input_ids, model\.onnx takes x"):
        Session(tmp_path / "model.onnx")
