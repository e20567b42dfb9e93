# SPDX-License-Identifier: Apache-2.0
"""Tiny random checkpoints of any model type of transformers: what the matrix of families is made of.

A case is a model type with keys of uneven shape; `of` names the case whose logits it must not share.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedModel

from models import VOCAB, randomise

Keys = dict[str, Any]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
TOKENS = 200
CONTINUED = 24
SPECIALS: Keys = {"vocab_size": VOCAB, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


def rope(**block: Any) -> Keys:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 123456.0, **block}}


@dataclass(frozen=True)
class Case:
    kind: str
    """model_type"""
    keys: Keys
    of: str = ""
    """Same weights, other keys: the case that this one must differ from."""
    opener: Any = AutoModelForCausalLM
    what: str = ""
    """What the case is there for, in the table of families."""


def inside(kind: str, text: Keys, **vision: Any) -> Case:
    """A text model inside one that sees."""
    keys = {"text_config": text, "vision_config": vision}
    return Case(kind, keys, opener=AutoModelForImageTextToText, what="text model of a multimodal one")


@dataclass
class Zoo:
    """Builds each case once per dtype and session."""

    folder: Path
    cases: dict[str, Case]
    _built: dict[tuple[str, str], Path] = field(default_factory=dict)

    def build(self, name: str) -> PreTrainedModel:
        case = self.cases[name]
        keys: Keys = copy.deepcopy(case.keys)  # the classes write into what they are given
        if "text_config" in keys:
            keys["text_config"] = {**SPECIALS, **keys["text_config"]}
        else:
            keys = {**SPECIALS, **keys}
        config = AutoConfig.for_model(case.kind, **keys)
        torch.manual_seed(0)
        model: PreTrainedModel = case.opener.from_config(config, attn_implementation="eager").eval()
        randomise(model, seed=1)
        return model

    def path(self, name: str, dtype: str = "f32") -> Path:
        if (name, dtype) not in self._built:
            place = self.folder / f"{name.replace(' ', '-')}-{dtype}"
            self.build(name).to(DTYPES[dtype]).save_pretrained(place)
            self._built[name, dtype] = place
        return self._built[name, dtype]
