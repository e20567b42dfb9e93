# SPDX-License-Identifier: Apache-2.0
"""Tiny random checkpoints of uneven shape, written by transformers.

Matrices are N(0, 1.2^2 / fan_in), norms near 1, biases small.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import PreTrainedConfig, PreTrainedModel

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

VOCAB = 997
GAIN = 1.2
FAMILIES = ("llama", "gpt2", "bloom", "xglm")
# Buffers that a checkpoint holds because training changes them.
LEARNED_BUFFERS = ("e_score_correction_bias", "final_logits_bias")
# No end token unless a test sets one: a random model may choose any id at any time.
_NO_SPECIALS = {"eos_token_id": None, "bos_token_id": None}
_ROPE = {"rope_type": "default", "rope_theta": 123456.0}

BASE: dict[str, dict[str, Any]] = {
    # 9 query heads over 3, head_dim 10 where hidden / heads is 6
    "llama": {
        "vocab_size": VOCAB, "hidden_size": 54, "intermediate_size": 85, "num_hidden_layers": 3,
        "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 10, "rope_parameters": _ROPE,
        "max_position_embeddings": 512, **_NO_SPECIALS,
    },
    "gpt2": {
        "vocab_size": VOCAB, "n_embd": 60, "n_head": 5, "n_layer": 3, "n_positions": 400, **_NO_SPECIALS,
    },
    "bloom": {"vocab_size": VOCAB, "hidden_size": 56, "n_head": 7, "n_layer": 3, **_NO_SPECIALS},
    "xglm": {
        "vocab_size": VOCAB, "d_model": 52, "ffn_dim": 90, "attention_heads": 4, "num_layers": 3,
        "max_position_embeddings": 256, **_NO_SPECIALS,
    },
}  # fmt: skip
CONFIGS: dict[str, type[PreTrainedConfig]] = {
    "llama": transformers.LlamaConfig,
    "gpt2": transformers.GPT2Config,
    "bloom": transformers.BloomConfig,
    "xglm": transformers.XGLMConfig,
}
CLASSES: dict[str, Any] = {
    "llama": transformers.LlamaForCausalLM,
    "gpt2": transformers.GPT2LMHeadModel,
    "bloom": transformers.BloomForCausalLM,
    "xglm": transformers.XGLMForCausalLM,
}


def fan_in(module: torch.nn.Module, weight: torch.Tensor) -> int:
    """What one output sums over: the input width of a matrix, the width of a table that also serves as head."""
    if type(module).__name__ == "Conv1D":
        return weight.shape[0]
    return weight.shape[1]


def randomise(model: PreTrainedModel, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    done: set[int] = set()
    with torch.no_grad():
        for module in model.modules():
            for name, parameter in module.named_parameters(recurse=False):
                if id(parameter) in done:
                    continue
                done.add(id(parameter))
                noise = torch.randn(parameter.shape, generator=generator)
                if parameter.ndim == 2:
                    parameter.copy_(noise * GAIN / fan_in(module, parameter) ** 0.5)
                elif parameter.ndim == 3:  # one matrix an expert
                    parameter.copy_(noise * GAIN / parameter.shape[1] ** 0.5)
                elif name == "weight":
                    parameter.copy_(1 + 0.1 * noise)
                else:
                    parameter.copy_(0.1 * noise)
            for name, buffer in module.named_buffers(recurse=False):
                if name in LEARNED_BUFFERS:
                    buffer.copy_(0.1 * torch.randn(buffer.shape, generator=generator))


@dataclass(frozen=True)
class Variant:
    """A family with changed config keys, and how it is saved."""

    family: str
    changes: dict[str, Any] = field(default_factory=dict)
    seed: int = 1
    dtype: torch.dtype = torch.float32
    max_shard_size: str = "5GB"
    base_model_only: bool = False

    @property
    def key(self) -> str:
        return repr(self)


def build(variant: Variant) -> PreTrainedModel:
    config = CONFIGS[variant.family](**{**BASE[variant.family], **variant.changes})
    config._attn_implementation = "eager"
    model = CLASSES[variant.family](config).eval()
    randomise(model, variant.seed)
    return model.to(variant.dtype)


class ModelShop:
    """Makes each variant once a session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Path] = {}
        self._copies = 0

    def get(self, family: str, /, **changes: Any) -> Path:
        return self.make(Variant(family, changes))

    def make(self, variant: Variant) -> Path:
        if variant.key not in self._made:
            path = self._folder / f"{variant.family}-{len(self._made)}"
            model = build(variant)
            saved = model.base_model if variant.base_model_only else model
            saved.save_pretrained(path, max_shard_size=variant.max_shard_size)
            self._made[variant.key] = path
        return self._made[variant.key]

    def copy(self, source: Path) -> Path:
        """A private copy that a test may damage."""
        self._copies += 1
        target = self._folder / f"copy-{self._copies}"
        target.mkdir()
        for file in source.iterdir():  # contents only: the source may be read-only
            shutil.copyfile(file, target / file.name)
        return target

    def with_config(self, source: Path, change: Callable[[dict[str, Any]], object]) -> Path:
        target = self.copy(source)
        edit_config(target, change)
        return target

    def with_tensors(self, source: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> Path:
        target = self.copy(source)
        tensors = load_file(target / "model.safetensors")
        change(tensors)
        save_file({name: value.contiguous() for name, value in tensors.items()}, target / "model.safetensors")
        return target


def edit_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    file = folder / "config.json"
    config = json.loads(file.read_text())
    change(config)
    file.write_text(json.dumps(config, indent=2))


def random_ids(count: int, seed: int, vocab: int = VOCAB) -> list[int]:
    """Ids from 4 up: models with special tokens have them below."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, vocab, (count,), generator=generator).tolist()
