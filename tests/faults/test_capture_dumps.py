# SPDX-License-Identifier: Apache-2.0
"""Dumps of other tools as traces: a debugger context of transformers, and what llama-debug leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.model_debugging_utils import model_addition_debugger_context

from detector import Answer, Detector
from locant.capture.dumps import load
from locant.capture.transformers import trace

BASE: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
    "head_dim": 12, "intermediate_size": 40, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GPT: dict[str, Any] = {
    "vocab_size": 97, "n_embd": 48, "n_layer": 3, "n_head": 6, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
FAMILIES = {"llama": BASE, "qwen3": BASE, "gpt2": GPT}
IDS = torch.tensor([list(range(5, 14)), list(range(30, 39))])


def made(kind: str, folder: Path, dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(3)
    config = AutoConfig.for_model(kind, **FAMILIES[kind])
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").to(dtype).eval()
    model.save_pretrained(folder)
    return model


def dumped(model: Any, folder: Path, *, text: bool = False) -> Path:
    with model_addition_debugger_context(model, debug_path=str(folder), use_repr=text), torch.no_grad():
        model(input_ids=IDS)
    return folder


def ask(detector: Detector, model: Path, saved: Path) -> Answer:
    result = detector.locant.raw("check", str(model), "--trace", str(saved), "--json")
    assert result.status in (0, 1), f"locant check: exit {result.status}: {result.stderr}"
    return Answer(result.json["findings"], result.json["passed"])


# -- model_addition_debugger_context


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_debugger_context_holds_what_hooks_read(kind: str, detector: Detector, tmp_path: Path) -> None:
    model = made(kind, tmp_path / "model")
    imported = load(dumped(model, tmp_path / "dump"), tmp_path / "model")
    with trace(model) as recorded:
        model(input_ids=IDS)
    assert {
        "input_ids",
        "position_ids",
        "embed.tokens",
        "embed.out",
        "final_norm.out",
        "logits",
        "layers.2.attn.out",
    } <= set(imported.tensors)
    for name, tensor in imported.tensors.items():
        if name in recorded.tensors:  # v is in the cache there
            assert np.array_equal(np.asarray(tensor), recorded.tensors[name].numpy()), name
    imported.save(tmp_path / "trace.safetensors")
    answer = ask(detector, tmp_path / "model", tmp_path / "trace.safetensors")
    assert answer.loud() == [], answer.text()
    assert {"E103", "E108", "P103"} | ({"T101"} if kind != "gpt2" else {"E107"}) <= set(answer.passed)


def test_heads_are_those_of_the_config(tmp_path: Path) -> None:
    model = made("llama", tmp_path / "model")
    folder = dumped(model, tmp_path / "dump")
    with trace(model) as recorded:
        model(input_ids=IDS)
    imported = load(folder, tmp_path / "model")
    for name in ("layers.1.attn.q_pre", "layers.1.attn.k_pre"):
        assert np.array_equal(imported.tensors[name], recorded.tensors[name].numpy())
    assert imported.tensors["layers.1.attn.v"].shape == (2, 9, 2, 12)
    bare = load(folder)
    assert not any(".attn.q" in name for name in bare.tensors)
    assert "model.layers.N.self_attn.q_proj_outputs: 3 without a place in a trace" in bare.left_out


def test_norms_of_the_heads_come_before_the_rotation(tmp_path: Path) -> None:
    model = made("qwen3", tmp_path / "model")
    imported = load(dumped(model, tmp_path / "dump"), tmp_path / "model")
    with trace(model) as recorded:
        model(input_ids=IDS)
    assert np.array_equal(imported.tensors["layers.0.attn.q_pre"], recorded.tensors["layers.0.attn.q_pre"].numpy())
    assert imported.source_names["layers.0.attn.q_pre"].endswith("self_attn.q_norm_outputs")
    assert "model.layers.N.self_attn.q_proj_outputs: 3 without a place in a trace" in imported.left_out


def test_what_has_no_place_is_listed(tmp_path: Path) -> None:
    model = made("llama", tmp_path / "model")
    folder = dumped(model, tmp_path / "dump")
    imported = load(folder, tmp_path / "model")
    counted = sum(int(one.rpartition(": ")[2].split()[0]) for one in imported.left_out)
    files = len(list(folder.glob("*.safetensors")))
    used = len(imported.source_names)
    assert counted > 0
    # some tensors stand twice in a dump: as what one module gives and another takes
    assert used <= files - counted <= 2 * used


def test_another_theta_in_a_dump_is_named(detector: Detector, tmp_path: Path) -> None:
    model = made("llama", tmp_path / "model")
    model.model.rotary_emb.inv_freq = 50000.0 ** (-torch.arange(0, 12, 2) / 12)
    load(dumped(model, tmp_path / "dump"), tmp_path / "model").save(tmp_path / "trace.safetensors")
    answer = ask(detector, tmp_path / "model", tmp_path / "trace.safetensors")
    assert "T101" in answer.loud() or "T102" in answer.loud(), answer.text()


def test_a_dump_in_bf16(tmp_path: Path) -> None:
    model = made("llama", tmp_path / "model", torch.bfloat16)
    imported = load(dumped(model, tmp_path / "dump"), tmp_path / "model")
    assert imported.dtype == "bf16"
    imported.save(tmp_path / "trace.safetensors")
    with safe_open(tmp_path / "trace.safetensors", "pt") as file:
        assert file.get_tensor("embed.out").dtype == torch.bfloat16
        assert file.metadata()["locant.dtype"] == "bf16"


def test_a_dump_as_text_is_refused(tmp_path: Path) -> None:
    folder = dumped(made("llama", tmp_path / "model"), tmp_path / "dump", text=True)
    with pytest.raises(ValueError, match="must hold tensors as files, written with use_repr=False"):
        load(folder)


# -- llama-debug


def left_by_llama_debug(folder: Path) -> tuple[np.ndarray[Any, Any], list[int]]:
    """The four files, as the tool writes them."""
    folder.mkdir()
    logits, ids = np.linspace(-3, 4, 32, dtype=np.float32), [1, 5, 9, 7]
    base = folder / "llamacpp-tiny"
    base.with_suffix(".bin").write_bytes(logits.tobytes())
    base.with_suffix(".txt").write_text("".join(f"{i}: {x:g}\n" for i, x in enumerate(logits)))
    (folder / "llamacpp-tiny-tokens.bin").write_bytes(np.array(ids, np.int32).tobytes())
    text = f"prompt: It is\nn_tokens: 4\ntoken ids: {', '.join(map(str, ids))}\n"
    (folder / "llamacpp-tiny-prompt.txt").write_text(text)
    return logits, ids


def test_logits_of_llama_debug(detector: Detector, tmp_path: Path) -> None:
    logits, ids = left_by_llama_debug(tmp_path / "data")
    imported = load(tmp_path / "data")
    assert imported.model == "tiny"
    assert imported.tensors["input_ids"].tolist() == [ids]
    assert np.array_equal(imported.tensors["logits"], logits[None, None])
    assert load(tmp_path / "data" / "llamacpp-tiny.bin").tensors["logits"].shape == (1, 1, 32)
    imported.save(tmp_path / "trace.safetensors")
    assert detector.locant.raw("check", "--trace", str(tmp_path / "trace.safetensors"), "--json").status == 0


def test_the_text_stands_in_for_the_binary(tmp_path: Path) -> None:
    logits, ids = left_by_llama_debug(tmp_path / "data")
    for name in ("llamacpp-tiny.bin", "llamacpp-tiny-tokens.bin"):
        (tmp_path / "data" / name).unlink()
    imported = load(tmp_path / "data")
    assert imported.tensors["input_ids"].tolist() == [ids]
    assert imported.tensors["logits"].ravel().tolist() == [np.float32(f"{x:g}") for x in logits]


@pytest.mark.parametrize(
    "name, content, sentence",
    [
        ("llamacpp-tiny.bin", b"123", "must hold numbers of 4 bytes, it has 3 bytes"),
        ("llamacpp-tiny-tokens.bin", b"", "must hold numbers of 4 bytes, it has 0 bytes"),
    ],
)
def test_a_cut_file_is_refused(name: str, content: bytes, sentence: str, tmp_path: Path) -> None:
    left_by_llama_debug(tmp_path / "data")
    (tmp_path / "data" / name).write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        load(tmp_path / "data")


def test_lines_of_logits_are_in_order(tmp_path: Path) -> None:
    left_by_llama_debug(tmp_path / "data")
    (tmp_path / "data" / "llamacpp-tiny.bin").unlink()
    (tmp_path / "data" / "llamacpp-tiny.txt").write_text("0: 1.5\n2: 3\n")
    with pytest.raises(ValueError, match=r"line 2 of llamacpp-tiny\.txt must be `1: value`"):
        load(tmp_path / "data")


def test_a_dump_has_its_token_ids(tmp_path: Path) -> None:
    left_by_llama_debug(tmp_path / "data")
    (tmp_path / "data" / "llamacpp-tiny-tokens.bin").unlink()
    (tmp_path / "data" / "llamacpp-tiny-prompt.txt").unlink()
    with pytest.raises(ValueError, match="token ids must lie in"):
        load(tmp_path / "data")


def test_what_is_no_dump_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(ValueError, match="there are 0"):
        load(tmp_path)
    with pytest.raises(ValueError, match="it is neither"):
        load(tmp_path / "notes.txt")
