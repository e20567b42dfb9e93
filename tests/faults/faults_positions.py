# SPDX-License-Identifier: Apache-2.0
"""Positions: repeated, skipped, shifted, counted over padding or over the batch, kept over documents."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

import injections as put
import passes
from faults import Fault, nothing

ROTARY = ("llama", "mistral", "qwen2", "qwen3", "gemma3", "phi", "gpt_neox", "gptj", "cohere", "stories260k",
          "bundled_rope")  # fmt: skip
WHOLE = ("llama", "llama3", "mistral", "qwen2", "qwen3", "phi", "gpt_neox", "cohere", "olmo2", "granite")
TABLES = ("gpt2", "opt", "bundled_learned", "gpt_neo")
CALLED = (*ROTARY, *TABLES, "xglm")
FIRST = 17  # content of the first row of a padded batch, which has 7 pads before it
Manager = AbstractContextManager[None]


def later(change: put.Change) -> put.Change:
    """Only in passes after the first."""
    return lambda ids, step: change(ids, step) if step > 0 else ids


def first_row(model: Any, _strength: float) -> float:
    del model
    return FIRST


def stay_at_zero(model: Any, _strength: float) -> Manager:
    return put.positions_at_call(model, later(lambda ids, _: torch.zeros_like(ids)))


def stay_at_zero_inside(model: Any, _strength: float) -> Manager:
    return put.positions_inside(model, later(lambda ids, _: torch.zeros_like(ids)))


def upper_layers(model: Any, strength: float) -> Manager:
    return put.positions_of_layers(model, lambda layer: layer >= strength, later(lambda ids, _: ids + 1))


def add_prompt(model: Any, _strength: float) -> Manager:
    return put.positions_at_call(model, later(lambda ids, _: ids + 24))


def ahead(model: Any, strength: float) -> Manager:
    return put.positions_at_call(model, later(lambda ids, _: ids + int(strength)))


def one_position(model: Any, strength: float) -> Manager:
    def change(ids: torch.Tensor, step: int) -> torch.Tensor:
        if step != 1:
            return ids
        changed = ids.clone()
        changed[:, : int(strength)] = ids[:, :1]
        return changed

    return put.positions_at_call(model, change)


def after_eviction(model: Any, _strength: float) -> Manager:
    return put.positions_at_call(model, later(lambda ids, step: torch.full_like(ids, 12 + step - 1)))


def columns(model: Any, _strength: float) -> Manager:
    def change(ids: torch.Tensor, step: int) -> torch.Tensor:
        start = 0 if step == 0 else 24 + step - 1
        return torch.arange(start, start + ids.shape[-1]).expand_as(ids)

    return put.positions_at_call(model, change)


def columns_of_prompt(model: Any, _strength: float) -> Manager:
    def change(ids: torch.Tensor, step: int) -> torch.Tensor:
        return torch.arange(ids.shape[-1]).expand_as(ids) if step == 0 else ids

    return put.positions_at_call(model, change)


def over_batch(ids: torch.Tensor) -> torch.Tensor:
    return ids + torch.arange(ids.shape[0])[:, None] * ids.shape[1]


def batch_at_call(model: Any, _strength: float) -> Manager:
    return put.positions_at_call(model, lambda ids, step: over_batch(ids) if step == 0 else ids)


def batch_inside(model: Any, _strength: float) -> Manager:
    return put.positions_inside(model, lambda ids, step: over_batch(ids) if step == 0 else ids)


def first_row_alone(zero: bool) -> Any:
    def inject(model: Any, _strength: float) -> Manager:
        def rotate(original: Any, q: torch.Tensor, k: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            out = original(q, k, *args, **kwargs)
            if q.shape[-2] > 1:
                return out
            written = []
            for before, after in zip((q, k), out, strict=True):
                kept = torch.zeros_like(after) if zero else before.clone()
                kept[:1] = after[:1]
                written.append(kept)
            return tuple(written)

        return put.rotation(model, rotate)

    return inject


def doubled_at_call(model: Any, strength: float) -> Manager:
    return put.positions_at_call(model, lambda ids, _: ids * int(strength))


def doubled_inside(model: Any, strength: float) -> Manager:
    return put.positions_inside(model, lambda ids, _: ids * int(strength))


def one_document(model: Any, _strength: float) -> Manager:
    return put.positions_at_call(model, lambda ids, _: torch.arange(ids.shape[-1]).expand_as(ids))


def restart(model: Any, strength: float) -> Manager:
    return put.positions_at_call(model, lambda ids, step: ids % int(strength) if step == 0 else ids)


def resume_at_zero(model: Any, _strength: float) -> Manager:
    return put.positions_at_call(model, later(lambda ids, _: ids - 24))


PADS = 7
FAULTS = [
    Fault("F01", "decoding stays at 0", ("P101",), CALLED, stay_at_zero, number=lambda m, s: 0),
    Fault("F01", "decoding stays at 0, once", ("P106",), CALLED, stay_at_zero, run=replace(passes.PADDED, steps=1),
          number=lambda m, s: 0),
    Fault("F01", "decoding stays at 0 inside", ("P101",), WHOLE, stay_at_zero_inside, number=lambda m, s: 0),
    Fault("F02", "upper layers one further", ("P102",), WHOLE, upper_layers, strengths=(1, 2),
          number=lambda m, s: FIRST + 1),
    Fault("F03", "prompt length added again", ("P102",), CALLED, add_prompt, number=lambda m, s: FIRST + 24),
    Fault("F04", "counted before the pass", ("P102",), CALLED, ahead, strengths=(1, 3),
          number=lambda m, s: FIRST + s),
    Fault("F05", "a window at one position", ("P101",), CALLED, one_position, run=passes.CHUNK, strengths=(2, 6),
          number=lambda m, s: 24),
    Fault("F07", "back after eviction", ("P108",), CALLED, after_eviction, run=passes.EVICTED,
          number=lambda m, s: 12),
    Fault("F08", "columns as positions", ("P104",), CALLED, columns, number=lambda m, s: PADS),
    Fault("F08", "columns as positions, prompt only", ("P104",), CALLED, columns_of_prompt, number=lambda m, s: PADS),
    Fault("F09", "no position ids", ("P104",), ("gpt2", "bundled_learned", "gpt_neo", "bundled_sine"), nothing,
          run=passes.BARE, number=lambda m, s: PADS),
    Fault("F10", "counted over the batch", ("P105",), CALLED, batch_at_call, run=passes.PLAIN,
          number=lambda m, s: 24),
    Fault("F10", "counted over the batch inside", ("P105",), WHOLE, batch_inside, run=passes.PLAIN,
          number=lambda m, s: 24),
    Fault("F12", "one token writes row 0 alone: zeros", ("R104",), WHOLE, first_row_alone(True), run=passes.PLAIN,
          also=("B108",)),
    Fault("F12", "one token writes row 0 alone: unrotated", ("R104", "P101", "P106"), WHOLE, first_row_alone(False),
          run=passes.PLAIN),
    Fault("F13", "positions multiplied", ("P109",), CALLED, doubled_at_call, run=passes.SHORT, strengths=(2, 3),
          number=lambda m, s: s),
    Fault("F13", "positions multiplied inside", ("P109", "R103"), WHOLE, doubled_inside, run=passes.SHORT,
          strengths=(2, 3)),
    Fault("F35", "no reset at a document", ("P107",), ROTARY, one_document, run=passes.PACKED, also=("B106",),
          number=lambda m, s: 10),
    Fault("F35", "reset in mid-document", ("P106",), CALLED, restart, run=replace(passes.SHORT, mask=True),
          strengths=(13, 9), number=lambda m, s: 0),
    Fault("F38", "a prefix hit resumes at 0", ("P106",), CALLED, resume_at_zero, run=passes.CHUNK,
          number=lambda m, s: 0),
]  # fmt: skip
