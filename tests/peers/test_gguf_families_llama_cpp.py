# SPDX-License-Identifier: Apache-2.0
"""Families as GGUF files: `locant run` under its own recipe against llama.cpp, which runs the same file.

With a cache in f32 both compute in f32; where a family has GELU, llama.cpp looks it up in a table of f16.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

import llama_cpp

from budgets import Array, assert_within, budget, difference
from command import Locant
from family_zoo import TOKENS, Zoo
from gguf_convert import Keys, convert
from models import random_ids
from peer_ggml import gelu
from peer_llama import opened
from zoo_encoder_decoders import PairZoo
from zoo_gguf import FILES, File

CAPACITY = 256
ANSWER = 20
F16: dict[str, Any] = {"type_k": llama_cpp.GGML_TYPE_F16, "type_v": llama_cpp.GGML_TYPE_F16}

# What llama.cpp's loader takes from the sizes of the published models where the case has other ones.
ADAPTED: dict[str, tuple[dict[str, Any], Keys]] = {
    "qwen2moe": ({"head_dim": 10}, {}),
    "olmoe": ({"num_key_value_heads": 6}, {}),
    "cohere2": ({"head_dim": 10}, {}),
    "chatglm": ({"hidden_size": 72}, {}),
    "ernie4_5-moe": ({}, {"expert_shared_feed_forward_length": 40}),
    "arcee": ({"mlp_bias": False}, {}),
    "nemotron": ({"hidden_size": 72}, {}),
    **{name: ({"num_layers": 3}, {}) for name in ("t5", "t5 tied", "t5 gated")},
}
REFUSED = {
    "gptj": "llama.cpp names the architecture and has no graph of it",
    "command-r normed": "llama.cpp reads norms of queries and keys from 64 layers on",
}
GELU = (
    "bert", "bloom", "falcon", "gemma", "gpt2", "gptneox", "mpt", "phi2", "starcoder2", "t5 gated",
)  # fmt: skip
MIXTURES = ("mixtral", "moe", "gpt-oss", "deepseek", "llama4")


def adapted(name: str) -> File:
    file = FILES[name]
    changed, keys = ADAPTED.get(name, ({}, {}))
    return replace(file, case=replace(file.case, keys={**file.case.keys, **changed}), keys={**file.keys, **keys})


RUN = {name: adapted(name) for name in FILES if name not in REFUSED}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return PairZoo(tmp_path_factory.mktemp("gguf"), {name: file.case for name, file in RUN.items()})


@pytest.fixture(scope="module")
def files(zoo: Zoo) -> dict[str, Path]:
    """Written once each."""
    return {}


def written(name: str, zoo: Zoo, files: dict[str, Path]) -> Path:
    if name not in files:
        file = RUN[name]
        path = zoo.folder / f"{name.replace(' ', '-')}.gguf"
        files[name] = convert(zoo.build(name), file.architecture, file.keys, path, file.changes)
    return files[name]


def theirs(name: str, path: Path, ids: list[int], **settings: Any) -> Array:
    if name.startswith("t5"):
        with opened(path, CAPACITY, **settings) as context:
            return context.translate(ids, ids[:ANSWER])
    with opened(path, CAPACITY, **settings) as context:
        return context.forward(ids)


def ours(locant: Locant, name: str, path: Path, ids: list[int], *flags: str) -> Array:
    beside = ["--decoder-ids", ",".join(str(i) for i in ids[:ANSWER])] if name.startswith("t5") else []
    return locant.run(path, *flags, *beside, ids=ids, logits=True).logits[0]


DECODERS = [name for name in RUN if name != "bert"]


@pytest.mark.parametrize("name", DECODERS)
def test_logits(locant: Locant, zoo: Zoo, files: dict[str, Path], name: str) -> None:
    path, ids = written(name, zoo, files), random_ids(TOKENS, seed=1)
    got, want = ours(locant, name, path, ids), theirs(name, path, ids)
    limit = "peer_gguf_gelu" if name.startswith(GELU) else "peer_gguf"
    print(f"{name}: {difference(got, want):.3g}")
    assert_within(got, want, limit, f"{name} llama.cpp")


@pytest.mark.parametrize("name", DECODERS)
def test_logits_with_the_usual_cache(locant: Locant, zoo: Zoo, files: dict[str, Path], name: str) -> None:
    """f16 moves the logits of a router too: where two experts are nearly equal, a token may take the other."""
    path, ids = written(name, zoo, files), random_ids(TOKENS, seed=1)
    got, want = ours(locant, name, path, ids), theirs(name, path, ids, **F16)
    seen = np.abs(got - want).max(-1) / np.abs(want).max()
    print(f"{name}: {seen.max():.3g}, median of the tokens {np.median(seen):.3g}")
    if any(part in name for part in MIXTURES):
        assert np.quantile(seen, 0.75) < budget("peer_gguf_usual")
    else:
        assert_within(got, want, "peer_gguf_usual", f"{name}, cache in f16")


@pytest.mark.parametrize("pool", ["mean", "cls", "last"])
def test_states_of_an_encoder(locant: Locant, zoo: Zoo, files: dict[str, Path], pool: str, tmp_path: Path) -> None:
    path, ids = written("bert", zoo, files), random_ids(TOKENS, seed=1)
    pooled = tmp_path / "pooled.npy"
    locant.run(path, "--embed", str(pooled), "--pool", pool, ids=ids)
    settings = {"embeddings": True, "pooling_type": llama_cpp.LLAMA_POOLING_TYPE_NONE}
    with opened(path, CAPACITY, **settings) as context:
        states = context.states(ids)
    want = {"mean": states.mean(0), "cls": states[0], "last": states[-1]}[pool]
    assert_within(np.load(pooled)[0], want, "peer_gguf_gelu", "bert llama.cpp")


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_llama_cpp_refuses(zoo: Zoo, tmp_path: Path, name: str) -> None:
    file = FILES[name]
    model = Zoo(zoo.folder, {name: file.case}).build(name)
    path = convert(model, file.architecture, file.keys, tmp_path / "model.gguf", file.changes)
    with pytest.raises(SystemExit, match="does not load"):
        theirs(name, path, [1, 2])


@pytest.mark.parametrize("name", ["t5 tied", "deepseek2 groups"])
def test_the_published_meaning_is_farther(locant: Locant, zoo: Zoo, files: dict[str, Path], name: str) -> None:
    """What the recipe does otherwise than transformers is what llama.cpp does."""
    path, ids = written(name, zoo, files), random_ids(TOKENS, seed=1)
    want = theirs(name, path, ids)
    near = difference(ours(locant, name, path, ids), want)
    far = difference(ours(locant, name, path, ids, "--recipe", "hf"), want)
    print(f"{name}: {near:.3g} under its own recipe, {far:.3g} under hf")
    assert near <= budget("peer_gguf")
    assert far > 100 * budget("peer_gguf")


def test_gelu_is_the_tanh_form_from_a_table() -> None:
    """By an argument rounded to f16; its values are f16, and 0 or x itself from 10 on."""
    x = np.linspace(-9.9, 9.9, 30001, dtype=np.float32)
    coarse = x.astype(np.float16).astype(np.float32)
    got, at = gelu(x).astype(np.float64), coarse.astype(np.float64)
    assert np.array_equal(got, gelu(coarse).astype(np.float64))
    assert np.array_equal(got, got.astype(np.float16).astype(np.float64))
    tanh = at / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (at + 0.044715 * at**3)))
    erf = at / 2 * (1 + np.array([math.erf(value / math.sqrt(2)) for value in at]))
    step = np.spacing(np.abs(tanh).astype(np.float16)).astype(np.float64)
    step += np.spacing(np.abs(x)).astype(np.float64)  # 1 + tanh in f32, where the two nearly cancel
    assert (np.abs(got - tanh) <= step).all()
    assert (np.abs(got - erf) > 2 * step).mean() > 0.1
    assert np.array_equal(gelu(np.array([-10, 10.001], np.float32)), np.array([0, 10.001], np.float32))
