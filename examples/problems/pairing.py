# SPDX-License-Identifier: Apache-2.0
"""Wrong pairing: channels 2i and 2i + 1 turn together where i and i + d/2 ought to."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from bundled import show
from transformers.models.llama import modeling_llama


def interleaved(q: Any, k: Any, cos: Any, sin: Any, *args: Any, **kwargs: Any) -> Any:
    del args, kwargs
    half = cos.shape[-1] // 2
    cos, sin = (part[:, None, :, :half].repeat_interleave(2, -1) for part in (cos, sin))

    def turn(x: torch.Tensor) -> torch.Tensor:
        return x * cos + torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) * sin

    return turn(q), turn(k)


show("rope", fault=mock.patch.object(modeling_llama, "apply_rotary_pos_emb", interleaved))
