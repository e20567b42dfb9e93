# SPDX-License-Identifier: Apache-2.0
"""Scores, embeddings and heads: slopes, scales, masks, tables that are read or added wrongly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

import injections as put
import passes
from faults import Fault

SCORED = ("llama", "mistral", "qwen2", "qwen3", "phi", "gpt_neox", "olmo2", "stories260k", "bundled_rope", "gemma3")
MASKED = ("llama", "mistral", "qwen2", "qwen3", "phi", "gpt_neox", "olmo2", "gpt2", "opt", "bundled_learned",
          "gemma")  # fmt: skip
UNWINDOWED = tuple(name for name in MASKED if name != "mistral")  # whose window leaves the pads behind
HEADED = ("llama", "qwen2", "mistral", "gpt_neox", "phi3", "olmo2", "stories260k")
UNTIED = ("llama", "qwen2", "mistral", "olmo2", "phi3")
Manager = AbstractContextManager[None]


def lowest(mask: torch.Tensor) -> float:
    return float(torch.finfo(mask.dtype).min)


def scale_by(model: Any, strength: float) -> Manager:
    return put.scaling(model, lambda scale: scale * strength, lambda _: True)


def scale_one(model: Any, _strength: float) -> Manager:
    return put.scaling(model, lambda _: 1.0, lambda _: True)


def scale_plain(model: Any, _strength: float) -> Manager:
    return put.scaling(model, lambda _: 16**-0.5, lambda _: True)


# -- masks


def pads_visible(later: bool) -> Any:
    def inject(model: Any, _strength: float) -> Manager:
        def change(mask: torch.Tensor, _layer: int, step: int) -> torch.Tensor:
            if (step > 0) == later:
                for query in range(mask.shape[2]):
                    column = mask.shape[3] - mask.shape[2] + query
                    mask[0, :, query, : min(7, column + 1)] = 0
            return mask

        return put.masks(model, change)

    return inject


def sees_nothing(model: Any, strength: float) -> Manager:
    def change(mask: torch.Tensor, layer: int, step: int) -> torch.Tensor:
        if step == 0 and layer == strength:
            mask[1, :, 5:8] = lowest(mask)
        return mask

    return put.masks(model, change)


def future(model: Any, strength: float) -> Manager:
    def change(mask: torch.Tensor, _layer: int, step: int) -> torch.Tensor:
        if step == 0:
            for query in range(mask.shape[2] - int(strength)):
                mask[1, :, query, query + 1 : query + 1 + int(strength)] = 0
        return mask

    return put.masks(model, change)


def window_of(model: Any, strength: float) -> Manager:
    """Another number of tokens is visible."""

    def change(mask: torch.Tensor, layer: int, step: int) -> torch.Tensor:
        del layer
        if step > 0:
            return mask
        rows, width = torch.arange(mask.shape[2])[:, None], torch.arange(mask.shape[3])[None]
        distance = rows - width
        fresh = torch.where((distance >= 0) & (distance < strength), 0.0, lowest(mask))
        return fresh[None, None].expand(mask.shape[0], 1, -1, -1).to(mask.dtype)

    return put.masks(model, change)


def documents_leak(model: Any, _strength: float) -> Manager:
    def change(mask: torch.Tensor, _layer: int, _step: int) -> torch.Tensor:
        width = mask.shape[3]
        causal = torch.triu(torch.full((width, width), lowest(mask)), 1)
        return causal[None, None].to(mask.dtype)

    return put.masks(model, change)


# -- slopes


@contextmanager
def bloom_slopes(model: Any, change: Any) -> Iterator[None]:
    module = put.source(model)
    original = module._get_alibi_slopes

    def changed(heads: int, device: Any = None) -> torch.Tensor:
        return change(original(heads, device))

    with mock.patch.object(module, "_get_alibi_slopes", changed):
        yield


def slopes(change: Any) -> Any:
    def inject(model: Any, strength: float) -> Manager:
        return bloom_slopes(model, lambda due: change(due, strength))

    return inject


def exponent_off(due: torch.Tensor, _strength: float) -> torch.Tensor:
    heads = due.shape[0]
    power = 2 ** math.floor(math.log2(heads))
    base = 2 ** (-8 / power)
    first = [base**i for i in range(power)]
    more = 2 ** (-4 / power)
    return torch.tensor([*first, *[more ** (2 * i + 1) for i in range(heads - power)]])


def of_shards(due: torch.Tensor, strength: float) -> torch.Tensor:
    heads = due.shape[0] // int(strength)
    return due[:heads].repeat(int(strength))


@contextmanager
def no_slopes_later(model: Any, _strength: float) -> Iterator[None]:
    with ExitStack() as stack:
        steps = put.Steps(model, stack)
        stack.enter_context(bloom_slopes(model, lambda due: due * (0 if steps.now > 0 else 1)))
        yield


# -- tables of positions


@contextmanager
def offset(model: Any, strength: float) -> Iterator[None]:
    tables = put.modules(model, "embed_positions")
    with put.attributes(tables, "offset", lambda value: value + int(strength)):
        yield


@contextmanager
def offset_grows(model: Any, _strength: float) -> Iterator[None]:
    (table,) = put.modules(model, "embed_positions")
    kept = table.offset

    def grow(part: Any, _args: Any, _kwargs: Any) -> None:
        part.offset += 2

    handle = table.register_forward_pre_hook(grow, with_kwargs=True)
    yield
    handle.remove()
    table.offset = kept


def sine_table(interleaved: bool, less: int) -> Any:
    @contextmanager
    def inject(model: Any, _strength: float) -> Iterator[None]:
        (table,) = put.modules(model, "embed_positions")
        rows, width = table.weights.shape
        changed = put.sine(rows, width, width // 2 - less, interleaved).to(table.weights.dtype)
        with put.buffer_of(table, "weights", lambda _: changed):
            yield

    return inject


def sine_scaled(model: Any, _strength: float) -> Manager:
    (table,) = put.modules(model, "embed_positions")
    return put.output_of(table, lambda rows: rows * math.sqrt(rows.shape[-1]))


# -- embedding and head


def root(model: Any) -> float:
    """sqrt(hidden), rounded as the model's own scale is."""
    return float(torch.tensor(math.sqrt(model.config.hidden_size)).to(model.dtype))


def embedding_times(power: int) -> Any:
    """Rows are looked up and multiplied by that power of sqrt(hidden)."""

    def inject(model: Any, _strength: float) -> Manager:
        return put.lookup_of(model.get_input_embeddings(), lambda rows: rows * root(model) ** power)

    return inject


def unrounded(model: Any, _strength: float) -> Manager:
    scale = math.sqrt(model.config.hidden_size)
    return put.lookup_of(model.get_input_embeddings(), lambda rows: (rows.double() * scale).to(rows.dtype))


def ids_shifted(model: Any, strength: float) -> Manager:
    return put.input_of(model.get_input_embeddings(), lambda ids: (ids + int(strength)).clamp(min=0))


def embedding_from_head(model: Any, _strength: float) -> Manager:
    head = model.get_output_embeddings().weight.detach()
    return put.weight_of(model.get_input_embeddings(), lambda _: head.clone())


def embedding_random(model: Any, _strength: float) -> Manager:
    return put.weight_of(model.get_input_embeddings(), torch.randn_like)


def head_from_embedding(model: Any, _strength: float) -> Manager:
    table = model.get_input_embeddings().weight.detach()
    return put.weight_of(model.get_output_embeddings(), lambda _: table.clone())


def head_random(model: Any, _strength: float) -> Manager:
    return put.weight_of(model.get_output_embeddings(), torch.randn_like)


def logits_times(model: Any, strength: float) -> Manager:
    return put.output_of(model.get_output_embeddings(), lambda logits: logits * strength)


def first_slope(change: Any) -> Any:
    def number(model: Any, strength: float) -> float:
        due = put.source(model)._get_alibi_slopes(model.config.n_head, None)
        return float(change(due, strength)[0])

    return number


ALIBI = ("bloom", "bloom8", "bundled_alibi")
FAULTS = [
    Fault("F24", "softmax scale lacks mscale", ("B102",), ("deepseek_yarn",), scale_plain,
          number=lambda m, s: 16**-0.5),
    Fault("F24", "q.k not scaled", ("B102",), SCORED, scale_one, number=lambda m, s: 1.0),
    Fault("F24", "another softmax scale", ("B102",), SCORED, scale_by, strengths=(0.5, 1.1, 1.5),
          number=lambda m, s: s * put.blocks(m)[0].scaling),
    Fault("F30", "one geometric series", ("B101",), ("bloom",),
          slopes(lambda due, s: put.geometric(due.shape[0]))),
    Fault("F30", "exponent off by one", ("B101",), ALIBI, slopes(exponent_off), number=first_slope(exponent_off)),
    Fault("F30", "other sign", ("B101",), ALIBI, slopes(lambda due, s: -due),
          number=first_slope(lambda due, s: -due)),
    Fault("F30", "multiplied", ("B101",), ALIBI, slopes(lambda due, s: s * due), strengths=(2.0, 0.5, 1.1),
          number=first_slope(lambda due, s: s * due)),
    Fault("F30", "none in decoding", ("B101",), ALIBI, no_slopes_later, number=lambda m, s: 0.0),
    Fault("F30", "each shard counts its heads", ("B101",), ALIBI, slopes(of_shards), strengths=(2.0,)),
    Fault("F31", "read without its offset", ("P103",), ("opt",), offset, run=passes.SHORT, strengths=(-2, -1, 1, 3),
          number=lambda m, s: s),
    Fault("F31", "offset grows with each call", ("P103", "P102"), ("opt",), offset_grows, run=passes.SHORT),
    Fault("F29", "sine interleaved", ("E107",), ("xglm", "bundled_sine"), sine_table(True, 1)),
    Fault("F29", "sine counts d/2", ("E107",), ("xglm", "bundled_sine"), sine_table(False, 0)),
    Fault("F29", "sine times sqrt(d)", ("E107", "E105"), ("xglm", "bundled_sine"), sine_scaled,
          number=lambda m, s: float(m.config.d_model) ** 0.5),
    Fault("F32", "scale missing", ("E101",), ("gemma", "gemma2", "gemma3"), embedding_times(0),
          number=lambda m, s: 1.0),
    Fault("F32", "scale squared", ("E101",), ("gemma", "gemma2", "gemma3"), embedding_times(2),
          number=lambda m, s: root(m) ** 2),
    Fault("F32", "divided by the scale", ("E101",), ("gemma", "gemma2"), embedding_times(-1),
          number=lambda m, s: root(m) ** -1),
    Fault("F32", "scale where none is due", ("E101",), ("llama", "qwen2", "gpt_neox"),
          embedding_times(1), number=lambda m, s: root(m)),
    Fault("F32", "scale not rounded", ("E102",), ("gemma", "gemma2", "gemma3"), unrounded, run=passes.MIDDLE,
          dtypes=("bf16",), number=lambda m, s: float(m.config.hidden_size) ** 0.5),
    Fault("F33", "rows of other ids", ("E103",), HEADED, ids_shifted, strengths=(1, -2), number=lambda m, s: s),
    Fault("F33", "embedding loaded from the head", ("E104",), UNTIED, embedding_from_head),
    Fault("F33", "embedding random", ("E104",), HEADED, embedding_random),
    Fault("F33", "head is the embedding", ("E108",), UNTIED, head_from_embedding),
    Fault("F33", "head random", ("E108",), (*HEADED, "gemma", "gpt2"), head_random),
    Fault("F33", "logits scaled", ("E109",), (*HEADED, "gpt2", "granite"), logits_times, strengths=(0.0625, 2.0)),
    Fault("F35", "documents leak", ("B106",), ("llama", "qwen2", "olmo2", "gpt_neox"), documents_leak,
          run=passes.PACKED),
    Fault("F41", "pads visible", ("B103",), MASKED, pads_visible(False)),
    Fault("F41", "pads visible in decoding", ("B103",), UNWINDOWED, pads_visible(True)),
    Fault("F41", "rows that see nothing", ("B107",), MASKED, sees_nothing, strengths=(0, 1), also=("B108",)),
    Fault("F41", "future visible", ("B104",), MASKED, future, strengths=(1, 3)),
    Fault("F41", "window too wide", ("B105",), ("mistral", "starcoder2"), window_of, strengths=(9, 24),
          run=passes.PLAIN),
    Fault("F41", "window too narrow", ("B108",), ("mistral", "starcoder2"), window_of, strengths=(7,),
          run=passes.PLAIN),
]  # fmt: skip
