# SPDX-License-Identifier: Apache-2.0
"""Off by one: each token that is decoded stands one position behind its place in the cache."""

from __future__ import annotations

import torch
from bundled import show


def late(mask: torch.Tensor, step: int) -> torch.Tensor:
    """The count was taken after the cache had grown."""
    right = (mask.cumsum(-1) - 1).clamp(min=0)
    return right + (1 if step > 0 else 0)


show("rope", positions=late)
