# SPDX-License-Identifier: Apache-2.0
"""Applied twice: q and k come rotated out of one layer of code and are rotated again in the next."""

from __future__ import annotations

from typing import Any
from unittest import mock

from bundled import show
from transformers.models.llama import modeling_llama

ORIGINAL = modeling_llama.apply_rotary_pos_emb


def twice(q: Any, k: Any, cos: Any, sin: Any, *args: Any, **kwargs: Any) -> Any:
    return ORIGINAL(*ORIGINAL(q, k, cos, sin, *args, **kwargs), cos, sin, *args, **kwargs)


show("rope", fault=mock.patch.object(modeling_llama, "apply_rotary_pos_emb", twice))
