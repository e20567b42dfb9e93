# SPDX-License-Identifier: Apache-2.0
"""Whole heads of q and k from what a rotation took and gave and what attention was handed."""

from __future__ import annotations

import torch

Pair = tuple[torch.Tensor, torch.Tensor]


def by_head(tensor: torch.Tensor, tokens: int) -> torch.Tensor:
    """[B, heads, T, width]; some models rotate [B, T, heads, width]."""
    if tensor.shape[1] == tokens and tensor.shape[2] != tokens:
        return tensor.transpose(1, 2)
    return tensor


def of_word(word: str, pairs: list[Pair], given: torch.Tensor | None) -> Pair | None:
    """Whole heads of q or k before and after: the pair whose result attention was given, as a whole or in part."""
    for before, after in pairs:
        whole = _whole_heads(before, after, given)
        if whole is not None:
            return whole
    # a norm or a temperature came between: the first rotated is q, the second k
    index = "qk".index(word)
    if len(pairs) == 2 and (given is None or pairs[index][0].shape == given.shape):
        return pairs[index]
    return None


def _whole_heads(before: torch.Tensor, after: torch.Tensor, given: torch.Tensor | None) -> Pair | None:
    if given is None or given.shape[:3] != before.shape[:3]:
        return None
    width = before.shape[-1]
    for start in (0, given.shape[-1] - width):
        if torch.equal(given[..., start : start + width], after):
            whole = given.clone()
            whole[..., start : start + width] = before
            return whole, given.clone()
    return None
