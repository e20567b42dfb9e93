# SPDX-License-Identifier: Apache-2.0
"""One model of transformers run by four runtimes over the same ids, each from the files that it reads itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from budgets import Array
from gguf_convert import Keys, convert

GAINS = {"q_proj": 12, "k_proj": 12, "qkv_proj": 4, "query_key_value": 4}


def made(kind: str, config: dict[str, Any], folder: Path) -> Any:
    """Seeded, saved, in f32. Queries and keys are larger than usual, so that attention looks somewhere."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **config)).float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.mul_(next((gain for part, gain in GAINS.items() if part in name), 1))
    model.save_pretrained(folder)
    as_published(folder / "config.json")
    return model


def as_published(path: Path) -> None:
    """rope_scaling and rope_theta, which every runtime reads, in place of rope_parameters."""
    config = json.loads(path.read_text())
    if parameters := config.pop("rope_parameters", None):
        config["rope_theta"] = parameters.pop("rope_theta")
        if parameters["rope_type"] != "default":
            config["rope_scaling"] = parameters | {"type": parameters["rope_type"]}
    path.write_text(json.dumps(config))


def by_transformers(model: Any, ids: list[int]) -> Array:
    with torch.no_grad():
        logits: Array = model(torch.tensor([ids]), use_cache=False).logits[0].float().numpy()
    return logits


def by_llama_cpp(model: Any, architecture: str, keys: Keys, ids: list[int], folder: Path) -> Array:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    from peer_llama import opened

    with opened(convert(model, architecture, keys, folder / "model.gguf"), 256) as context:
        return context.forward(ids)


def by_mlx(saved: Path, ids: list[int]) -> Array:
    """By mlx-lm's class for the model's type."""
    mx = pytest.importorskip("mlx.core", reason="mlx is not installed")
    from mlx_lm.utils import load_model

    mx.set_default_device(mx.cpu)
    model, _ = load_model(saved)
    logits: Array = np.array(model(mx.array([ids])).astype(mx.float32))[0]
    return logits


def by_onnxruntime(saved: Path, builder: str, ids: list[int]) -> Array:
    """By the graph that onnxruntime-genai's builder makes. builder: "mistral.MistralModel"."""
    pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
    import importlib

    import onnx_ir
    import onnxruntime

    module, name = builder.split(".")
    owner = getattr(importlib.import_module(f"onnxruntime_genai.models.builders.{module}"), name)
    kind = onnx_ir.DataType.FLOAT
    graph = owner(AutoConfig.from_pretrained(saved), kind, kind, "cpu", str(saved / "cache"), {})
    graph.make_model(str(saved))
    folder = saved / "onnx"
    folder.mkdir()
    graph.save_model(str(folder))
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    width = graph.head_size
    given: dict[str, Any] = {
        "input_ids": np.array([ids], np.int64),
        "attention_mask": np.ones((1, len(ids)), np.int64),
        "position_ids": np.arange(len(ids), dtype=np.int64)[None],
    }
    for one in session.get_inputs():
        if one.name.startswith("past_key_values."):
            given[one.name] = np.zeros((1, one.shape[1], 0, width), np.float32)
    names = {one.name for one in session.get_inputs()}
    logits: Array = session.run(["logits"], {name: value for name, value in given.items() if name in names})[0][0]
    return logits
