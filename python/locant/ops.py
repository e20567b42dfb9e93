# SPDX-License-Identifier: Apache-2.0
"""The operations of a forward pass on the caller's own arrays: numpy, torch, anything with DLPack on the CPU.

Nothing is copied: inputs are read and outputs written where they lie. What is returned is of the kind of the first
array: torch in, torch out. Errors are SpecError (ValueError) "who: rule, what we got", and IndexError for ids and
slots outside their table; they are raised before anything is written. Long calls let other threads of Python run.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from locant import _locant
from locant._locant import Bias, SpecError

__all__ = ["add_rows", "attend", "bias_scores", "embed", "head", "project", "rotate"]


def _empty(like: Any, shape: Sequence[int], dtype: str = "") -> Any:
    """An uninitialised array of the kind of `like`: f32, or the dtype of `like` itself."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        return torch.empty(tuple(shape), dtype=torch.float32 if dtype == "f32" else like.dtype)
    given = getattr(like, "dtype", None)
    return np.empty(tuple(shape), dtype=np.float32 if dtype == "f32" or not isinstance(given, np.dtype) else given)


def _shape(array: Any, who: str, name: str, least: int) -> tuple[int, ...]:
    if not hasattr(array, "shape"):
        raise SpecError(f"{who}: {name} must be an array on the CPU, got {type(array).__name__}")
    shape = tuple(int(extent) for extent in array.shape)
    if len(shape) < least:
        raise SpecError(f"{who}: {name} is {list(shape)}, expected {least} axes or more")
    return shape


def _whole(ids: Any) -> Any:
    """Lists become int64; arrays stay what they are."""
    return np.asarray(ids, dtype=np.int64) if isinstance(ids, list | tuple | range | int) else ids


def embed(table: Any, ids: Any, *, scale: float = 1.0, out: Any = None) -> Any:
    """out[...] = scale * table[ids[...]], f32.

    table [V, D] f32, f16 or bf16, rows without gaps inside; ids [...] int64 (or a list); out [..., D] f32. Exact for
    scale 1, else half an ulp. IndexError "embed: token 32000 at row 3 is outside vocab 32000".
    """
    at = _whole(ids)
    if out is None:
        out = _empty(table, (*_shape(at, "embed", "ids", 0), _shape(table, "embed", "table", 2)[1]), "f32")
    _locant.embed_into(table, at, out, scale)
    return out


def add_rows(out: Any, table: Any, rows: Any) -> Any:
    """out[...] += table[rows[...]], in place (learned positions, token types). out [..., D] f32; rows [...] int64."""
    _locant.add_rows_into(table, _whole(rows), out)
    return out


def rotate(
    x: Any,
    cos: Any,
    sin: Any,
    *,
    pairing: str = "half",
    write_pairing: str | None = None,
    offset: int = 0,
    direction: str = "forward",
    out: Any = None,
) -> Any:
    """Rotates pairs of channels of heads by the tables of locant.tables().

    x [T, heads, head_dim] or [B, T, heads, head_dim], f32, f16 or bf16 (the arithmetic is f32, one rounding); cos, sin
    [T, P] f32, or [B, T, P] with a batch. `offset`: the first rotated channel; 2P are rotated, the rest passes. `out`
    of x's shape and dtype: x itself (in place), or memory apart from it; None: a new array. `direction`: "forward" or
    "inverse".
    """
    if out is None:
        out = _empty(x, _shape(x, "rotate", "x", 3))
    _locant.rotate_into(x, cos, sin, out, pairing, write_pairing or pairing, offset, direction)
    return out


def bias_scores(bias: Bias, queries: Any, keys: Any, *, recipe: str = "exact") -> Any:
    """What a bias of form slopes (ALiBi) adds to the scores: [heads, Q, K] f32 for positions [Q] and [K] int64."""
    scores = _locant.bias_scores(bias, _whole(queries), _whole(keys), recipe)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(queries, torch.Tensor):
        return torch.from_numpy(scores)
    return scores


def attend(
    q: Any,
    keys: Any,
    values: Any,
    *,
    scale: float | None = None,
    first_slot: int | None = None,
    slopes: Any = None,
    query_positions: Any = None,
    key_positions: Any = None,
    scores: Any = None,
    out: Any = None,
) -> Any:
    """Causal attention of queries over a cache, without a score matrix.

    q [T, heads, head_dim] f32; keys, values [kv_heads, slots, width] f32, f16 or bf16 without gaps; with a batch each
    has B in front. Query t stands in slot first_slot + t and sees the slots up to its own; first_slot None: the last T
    slots. score = scale * q.k + slope[head] * (key position - query position). `slopes` [heads] f32 (ALiBi) counts by
    `query_positions` [T] and `key_positions` [first_slot + T] int64 ([B, ...] too); None: the slots. `scale` None:
    1/sqrt(head_dim). `scores` [heads, T, first_slot + T] f32, where given, receives the masked scores. Returns
    [T, heads, width].
    """
    shape = _shape(q, "attend", "q", 3)
    slots = _shape(keys, "attend", "keys", 3)[-2]
    tokens = shape[-3]
    first = slots - tokens if first_slot is None else first_slot
    if out is None:
        out = _empty(q, (*shape[:-1], _shape(values, "attend", "values", 3)[-1]), "f32")
    if slopes is not None:
        slopes = np.asarray(slopes, dtype=np.float32) if isinstance(slopes, list | tuple | np.ndarray) else slopes
        query_positions = np.arange(first, first + tokens) if query_positions is None else _whole(query_positions)
        key_positions = np.arange(first + tokens) if key_positions is None else _whole(key_positions)
    _locant.attend_into(
        q,
        keys,
        values,
        out,
        first,
        1 / math.sqrt(shape[-1]) if scale is None and shape[-1] else scale or 1.0,
        slopes,
        query_positions,
        key_positions,
        scores,
    )
    return out


def project(x: Any, weight: Any, *, bias: Any = None, scale: float = 1.0, out: Any = None) -> Any:
    """out = scale * (x weight^T) + bias: a linear layer. x [..., K] f32; weight [N, K] f32, f16 or bf16; bias [N] f32;
    out [..., N] f32 apart from x.
    """
    if out is None:
        rows = _shape(weight, "project", "weight", 2)[0]
        out = _empty(x, (*_shape(x, "project", "x", 1)[:-1], rows), "f32")
    _locant.project_into(x, weight, bias, out, scale)
    return out


def head(x: Any, table: Any, *, scale: float = 1.0, out: Any = None) -> Any:
    """Logits straight from the row-major embedding table [V, D] (a tied head): project() without a bias."""
    return project(x, table, scale=scale, out=out)
