# SPDX-License-Identifier: Apache-2.0
"""llama.cpp as a trace: `locant check` is silent on a real model, and names what a context was told otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

import llama_cpp

from budgets import assert_within
from command import ROOT, Locant
from locant.capture.llama_cpp import record_rows
from locant.capture.recorder import Recorder
from peer_llama import write_gguf
from peer_probe import Probe

DATA = Path(os.environ.get("LOCANT_DATA", ROOT.parent / "shared" / "data"))
ROW = [1, *range(30, 60)]
ROWS = [ROW, [1, 40, 42, 50], [1, *range(300, 320)]]
ROTATED = {"R101", "R102", "R106", "R107", "B102", "B104", "B108", "B110", "E101", "P103", "P108"}


@dataclass
class Answer:
    findings: dict[str, dict[str, Any]]
    passed: set[str]

    @property
    def rules(self) -> set[str]:
        return set(self.findings)


@pytest.fixture(scope="module")
def locant(tmp_path_factory: pytest.TempPathFactory) -> Locant:
    binary = Path(os.environ.get("LOCANT_BIN", ROOT / "build" / "locant"))
    if not binary.is_file():
        pytest.fail(f"{binary} is missing: build it first (./dev build), or name another with LOCANT_BIN")
    return Locant(binary, tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def ask(locant: Locant, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, Recorder], Answer]:
    trace = tmp_path_factory.mktemp("traces") / "trace.safetensors"

    def asked(model: Path, recorded: Recorder) -> Answer:
        recorded.save(trace)
        result = locant.raw("check", str(model), "--trace", str(trace), "--json")
        assert result.status in (0, 1), result.stderr
        loud = {one["rule"]: one for one in result.json["findings"] if one["severity"] != "note"}
        return Answer(loud, set(result.json["passed"]))

    return asked


@pytest.fixture(scope="module")
def model() -> Path:
    path = DATA / "stories260k" / "stories260K-f32.gguf"
    if not path.is_file():
        pytest.skip(f"no real checkpoints: {DATA} is missing (LOCANT_DATA names the folder)")
    return path


# -- a real model


def test_a_real_model_is_silent(model: Path, ask: Any) -> None:
    recorded = record_rows(model, [ROW], steps=3)
    words = ("attn.q_pre", "attn.k_pre", "attn.q", "attn.k", "attn.v", "attn.scores", "attn.probs", "attn.out",
             "cache.k", "cache.v", "out")  # fmt: skip
    for prefix in ("", "step.3/"):
        assert {f"{prefix}layers.{layer}.{word}" for layer in range(5) for word in words} <= set(recorded.tensors)
        assert {f"{prefix}{name}" for name in ("input_ids", "position_ids", "embed.tokens", "final_norm.out",
                                               "logits")} <= set(recorded.tensors)  # fmt: skip
    assert recorded.source_names["layers.0.attn.q"] == "Qcur-0 (ROPE)"
    answer = ask(model, recorded)
    assert answer.rules == set()
    assert answer.passed >= ROTATED


@pytest.mark.parametrize("pad", ["left", "right"])
def test_uneven_rows_are_silent(pad: str, model: Path, ask: Any) -> None:
    recorded = record_rows(model, ROWS, steps=2, pad=pad)
    assert recorded.tensors["attention_mask"].sum(1).tolist() == [len(row) for row in ROWS]
    gap = slice(0, 27) if pad == "left" else slice(4, 31)
    assert not recorded.tensors["layers.0.attn.q"][1, gap].any()
    assert not recorded.tensors["layers.0.cache.k"][1, gap].any()
    assert (recorded.tensors["step.1/layers.0.attn.scores"][1, :, 0, gap] == -np.inf).all()
    answer = ask(model, recorded)
    assert answer.rules == set()
    assert answer.passed >= {*ROTATED, "B103", "P104", "P105"}
    assert ask(model, record_rows(model, ROWS, pad=pad)).passed >= {"R101", "R106", "B102", "B103"}


def test_another_theta_of_uneven_rows_is_named(model: Path, ask: Any) -> None:
    assert ask(model, record_rows(model, ROWS, steps=2, rope_freq_base=50000.0)).rules == {"R106"}


def test_it_is_what_locant_computes(model: Path, locant: Locant) -> None:
    """Names, layouts and order are those of Locant's own trace of the same weights, whose channels pair in halves."""
    recorded = record_rows(model, [ROW])
    mine = locant.run(str(model.parent / "hf"), ids=[ROW], trace=True).trace
    halves = [0, 2, 4, 6, 1, 3, 5, 7]
    compared = 0
    for name, theirs in recorded.tensors.items():
        if name not in mine or theirs.dtype.kind != "f":
            continue
        compared += 1
        assert theirs.shape == mine[name].shape, name
        if name.rpartition(".")[2] in ("q", "k", "q_pre", "k_pre"):
            theirs = theirs[..., halves]
        seen = np.isfinite(mine[name])
        assert np.array_equal(seen, np.isfinite(theirs)), name
        assert_within(theirs[seen], mine[name][seen].astype(np.float32), "conformance_family", name)
    assert compared >= 5 * 10


def test_another_theta_is_named(model: Path, ask: Any) -> None:
    answer = ask(model, record_rows(model, [ROW], rope_freq_base=50000.0))
    assert answer.rules == {"R106"}
    assert "theta 50000" in answer.findings["R106"]["message"]


def test_scaling_unasked_is_named(model: Path, ask: Any) -> None:
    linear = llama_cpp.LLAMA_ROPE_SCALING_TYPE_LINEAR
    answer = ask(model, record_rows(model, [ROW], rope_scaling_type=linear, rope_freq_scale=0.25))
    assert answer.rules == {"R107"}
    assert "divided by 4" in answer.findings["R107"]["message"]


# -- made files


@pytest.mark.parametrize("arch", ["llama", "qwen2", "gemma"])
def test_a_made_file_is_silent(arch: str, tmp_path: Path, ask: Any) -> None:
    """Channels in turns, in halves, and rows that are scaled before layer 0."""
    probe = Probe(64, 1, (0, 1, 20), interleaved=arch == "llama")
    rng = np.random.default_rng(3)
    random: dict[str, Any] = {
        "token_embd.weight": rng.standard_normal((32, 64)).astype(np.float32),
        **{f"blk.0.attn_{word}.weight": rng.standard_normal((64, 64)).astype(np.float32) * np.float32(0.1)
           for word in ("q", "k", "v", "output")},
        **({"output.weight": None} if arch == "gemma" else {}),
        **({f"blk.0.attn_{word}.bias": np.zeros(64, np.float32) for word in "qkv"} if arch == "qwen2" else {}),
    }  # fmt: skip
    write_gguf(tmp_path / "one.gguf", arch, probe, {"rope.freq_base": 20000.0}, random)
    recorded = record_rows(tmp_path / "one.gguf", [list(range(3, 30))], steps=2)
    scaled = not np.array_equal(recorded.tensors["embed.tokens"], recorded.tensors["embed.out"])
    assert scaled == (arch == "gemma")
    answer = ask(tmp_path / "one.gguf", recorded)
    assert answer.rules == set()
    assert answer.passed >= {"R101", "R106", "R107", "B102"}


@pytest.mark.parametrize("arch", ["gpt2", "bloom"])
def test_positions_that_are_added_or_bias_scores_are_silent(arch: str, tmp_path: Path, ask: Any) -> None:
    path = added_or_biased(tmp_path / "one.gguf", arch)
    recorded = record_rows(path, [list(range(3, 30)), [5, 6, 7]], steps=2)
    where = "embed.positions" if arch == "gpt2" else "layers.0.attn.bias"
    assert {where, f"step.2/{where}"} <= set(recorded.tensors)
    answer = ask(path, recorded)
    assert answer.rules <= {"C102"}  # every made file states a width of rotation
    assert answer.passed >= {"B102", "B103", "B110", "P103" if arch == "gpt2" else "B101"}


def added_or_biased(path: Path, arch: str) -> Path:
    """One layer with q, k and v in one matrix, and no rotation."""
    rng, hidden = np.random.default_rng(3), 64

    def random(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32) * np.float32(0.1)

    tensors: dict[str, Any] = {f"blk.0.{name}.weight": None for name in ("attn_q", "attn_k", "attn_v", "ffn_gate")}
    tensors |= {
        "token_embd.weight": random(32, hidden) * 10, "blk.0.attn_qkv.weight": random(3 * hidden, hidden),
        "blk.0.attn_output.weight": random(hidden, hidden), "blk.0.ffn_up.weight": random(32, hidden),
        "blk.0.ffn_down.weight": random(hidden, 32), "blk.0.attn_qkv.bias": random(3 * hidden),
        "blk.0.ffn_up.bias": random(32),
    }  # fmt: skip
    for name in ("blk.0.attn_output", "blk.0.attn_norm", "blk.0.ffn_norm", "blk.0.ffn_down", "output_norm"):
        tensors[f"{name}.bias"] = random(hidden)
    if arch == "gpt2":
        tensors["position_embd.weight"] = random(512, hidden)
    else:
        tensors |= {"token_embd_norm.weight": np.ones(hidden, np.float32), "token_embd_norm.bias": random(hidden)}
    keys = {"attention.layer_norm_epsilon": 1e-5, "context_length": 512}
    write_gguf(path, arch, Probe(16, 4, (0, 1, 2)), keys, tensors)
    return path


# -- refusals


def test_a_setting_is_a_field_of_the_context(model: Path) -> None:
    with pytest.raises(ValueError, match="a setting is a field of llama_context_params, got rope_base"):
        record_rows(model, [ROW], rope_base=1.0)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.gguf").write_bytes(b"GGUF")
    with pytest.raises(ValueError, match="must be a file that it loads"):
        record_rows(tmp_path / "none.gguf", [ROW])


@pytest.mark.parametrize("rows, sentence", [([], "a token or more"), ([[1], []], "a token or more")])
def test_rows_hold_tokens(rows: list[list[int]], sentence: str, model: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        record_rows(model, rows)
