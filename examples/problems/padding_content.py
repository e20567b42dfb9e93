# SPDX-License-Identifier: Apache-2.0
"""Padding as content: the mask of the padded batch is lost on its way to attention."""

from __future__ import annotations

from typing import Any
from unittest import mock

from bundled import show
from transformers.models.llama import modeling_llama

ORIGINAL = modeling_llama.create_causal_mask


def without_padding(*args: Any, **kwargs: Any) -> Any:
    return ORIGINAL(*args, **{**kwargs, "attention_mask": None})


show("rope", fault=mock.patch.object(modeling_llama, "create_causal_mask", without_padding))
