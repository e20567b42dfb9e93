# SPDX-License-Identifier: Apache-2.0
"""Positions on three axes: rows that are lost, pairs that follow other axes, images that are counted otherwise."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import torch

import injections as put
import passes
from faults import Fault

SECTIONED = ("qwen2_vl", "qwen2_5_vl")
INTERLEAVED = ("qwen3_vl",)
FIRST, SECOND = slice(4, 12), slice(18, 26)  # tokens of the two images
Manager = AbstractContextManager[None]


def inside_prompt(change: Any) -> Any:
    def inject(model: Any, strength: float) -> Manager:
        def changed(ids: torch.Tensor, step: int) -> torch.Tensor:
            ids = ids.clone()
            if step == 0:
                change(ids, strength)
            return ids

        return put.positions_inside(model, changed)

    return inject


def time_alone(ids: torch.Tensor, _strength: float) -> None:
    ids[-3:] = ids[-3].clone()


def second_linear(ids: torch.Tensor, _strength: float) -> None:
    start = int(ids[-3, 0, SECOND.start])
    ids[-3:, :, SECOND] = start + torch.arange(SECOND.stop - SECOND.start)


def time_scaled(ids: torch.Tensor, strength: float) -> None:
    for image in (FIRST, SECOND):
        ids[-3, :, image] = (ids[-3, :, image] * strength).long()


def delta_lost(model: Any, _strength: float) -> Manager:
    count = 11 + sum(2 + h * w // 4 for h, w in passes.IMAGES)
    return put.positions_at_call(model, lambda ids, step: ids if step == 0 else torch.full_like(ids, count + step - 1))


def axes(choose: Any) -> Any:
    """Pairs follow other axes, though the positions are right."""

    def inject(model: Any, _strength: float) -> Manager:
        (rotary,) = put.modules(model, "rotary_emb")
        pairs = rotary.inv_freq.shape[0]
        axis = torch.tensor([choose(pair) for pair in range(pairs)])

        def forward(x: torch.Tensor, position_ids: torch.Tensor) -> Any:
            ids = position_ids if position_ids.dim() == 3 else position_ids[None].expand(3, -1, -1)
            freqs = ids[axis].permute(1, 2, 0).float() * rotary.inv_freq.float()
            both = torch.cat((freqs, freqs), -1)
            return both.cos().to(x.dtype), both.sin().to(x.dtype)

        patched: Any = mock.patch.object(rotary, "forward", new=forward)
        return patched

    return inject


def sectioned(pair: int) -> int:
    return 0 if pair < 2 else 1 if pair < 5 else 2


def interleaved(pair: int) -> int:
    return pair % 3


FAULTS = [
    Fault("F37", "the time axis alone, in positions", ("P110",), (*SECTIONED, *INTERLEAVED), inside_prompt(time_alone)),
    Fault("F37", "the time axis alone, in the rotation", ("T102", "R113"), (*SECTIONED, *INTERLEAVED),
          axes(lambda _: 0)),
    Fault("F37", "sections interleave", ("T102", "R113"), SECTIONED, axes(interleaved)),
    Fault("F37", "sections in chunks", ("T102", "R113"), INTERLEAVED, axes(sectioned)),
    Fault("F37", "delta lost in decoding", ("P102", "P110"), (*SECTIONED, *INTERLEAVED), delta_lost),
    Fault("F37", "the second image is counted as text", ("P110",), (*SECTIONED, *INTERLEAVED),
          inside_prompt(second_linear)),
    Fault("F37", "images scaled in time", ("P110",), (*SECTIONED, *INTERLEAVED), inside_prompt(time_scaled),
          strengths=(2.0, 0.5)),
]  # fmt: skip
