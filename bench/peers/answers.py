"""The inputs of every peer, seeded, in [-1, 1), and the answers in f64 that a peer's own answer is held to.

Large answers are checked on a sample: some tokens, heads, rows of the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol import Request

Array = NDArray[Any]


def uniform(seed: int, *shape: int) -> Array:
    """f32 in [-1, 1)."""
    random = np.random.default_rng(seed).random(shape, dtype=np.float32)
    random *= 2
    random -= 1
    return random


def deviation(got: Array, want: Array) -> float:
    """Largest difference over the largest value."""
    difference = np.abs(np.asarray(got, np.float64) - np.asarray(want, np.float64))
    return float(difference.max() / np.abs(want).max())


def sampled_rows(count: int, most: int = 64) -> Array:
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


# ---------------------------------------------------------------------------------------------
# Lookup


@dataclass
class Lookup:
    table: Array  # [V, D] f32
    ids: Array  # [T] int64

    def error(self, got: Array, table: Array | None = None) -> float:
        """`got` [T, D]; the table as the peer stores it, where that is not f32."""
        at = sampled_rows(len(self.ids))
        return deviation(got[at], (self.table if table is None else table)[self.ids[at]])


def lookup(r: Request) -> Lookup:
    ids = np.random.default_rng(7).integers(0, r["vocab"], (r["tokens"],))
    # a million values again and again, of a length that lets no two rows be alike: a table is 500 MB
    some = uniform(1, (1 << 20) + 1)
    return Lookup(np.resize(some, (r["vocab"], r["width"])), np.asarray(ids))


# ---------------------------------------------------------------------------------------------
# Rotation


@dataclass
class Rotation:
    x: Array  # [T, H, D] f32
    cos: Array  # [T, D / 2] f64
    sin: Array
    interleaved: bool

    def error(self, got: Array, x: Array | None = None) -> float:
        """`got` [T, H, D] against the rotation of x, as the peer stores it."""
        wide = np.asarray(self.x if x is None else x, np.float64)
        at = sampled_rows(len(wide))
        wide, c, s = wide[at], self.cos[at, None], self.sin[at, None]
        want = np.empty_like(wide)
        half = wide.shape[-1] // 2
        first, second = (slice(0, None, 2), slice(1, None, 2)) if self.interleaved else (slice(half), slice(half, None))
        want[..., first] = wide[..., first] * c - wide[..., second] * s
        want[..., second] = wide[..., second] * c + wide[..., first] * s
        return deviation(got[at], want)


def rotation(r: Request) -> Rotation:
    pairs = r["width"] // 2
    heads = r["heads"] + r.get("kv_heads", 0)  # q and k of a token are rotated alike
    angles = np.arange(r["tokens"])[:, None] * float(r.get("theta", 10000)) ** (-np.arange(pairs) / pairs)
    x = uniform(2, r["tokens"], heads, r["width"])
    return Rotation(x, np.cos(angles), np.sin(angles), r.get("pairing", "half") == "interleaved")


# ---------------------------------------------------------------------------------------------
# Attention


def alibi_slopes(heads: int) -> Array:
    """Of a power of two of heads."""
    return 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)


@dataclass
class Attention:
    q: Array  # [T, H, D] f32
    k: Array  # [S, G, D] f32
    v: Array
    slopes: Array | None
    scale: float

    def error(self, got: Array, q: Array | None = None, k: Array | None = None, v: Array | None = None) -> float:
        """`got` [T, H, D]: the last two queries, the first and last key-value head; q, k, v as the peer stores them."""
        tokens, heads, _ = self.q.shape
        slots, groups = self.k.shape[:2]
        queries = range(max(tokens - 2, 0), tokens)
        wants, gots = [], []
        for g in {0, groups - 1}:
            share = slice(g * heads // groups, (g + 1) * heads // groups)
            keys = np.asarray((self.k if k is None else k)[:, g], np.float64)
            values = np.asarray((self.v if v is None else v)[:, g], np.float64)
            for t in queries:
                query = np.asarray((self.q if q is None else q)[t, share], np.float64)
                seen = slots - tokens + t + 1
                scores = query @ keys[:seen].T * self.scale
                if self.slopes is not None:
                    scores += self.slopes[share, None] * (np.arange(seen) - (seen - 1))
                weights = np.exp(scores - scores.max(axis=1, keepdims=True))
                wants.append(weights / weights.sum(axis=1, keepdims=True) @ values[:seen])
                gots.append(got[t, share])
        return deviation(np.stack(gots), np.stack(wants))


def attention(r: Request) -> Attention:
    q = uniform(3, r["tokens"], r["heads"], r["width"])
    k, v = (uniform(seed, r["slots"], r["kv_heads"], r["width"]) for seed in (4, 5))
    return Attention(q, k, v, alibi_slopes(r["heads"]) if r.get("alibi") else None, r["width"] ** -0.5)


# ---------------------------------------------------------------------------------------------
# Head


@dataclass
class Head:
    x: Array  # [T, K] f32
    weight: Array  # [V, K] f32

    def error(self, got: Array, rows: Array | None = None, x: Array | None = None) -> float:
        """`got` [T, V]; rows: the sampled rows of the weight (self.at) as the peer stores them."""
        weight = np.asarray(self.weight[self.at] if rows is None else rows, np.float64)
        return deviation(got[:, self.at], np.asarray(self.x if x is None else x, np.float64) @ weight.T)

    @property
    def at(self) -> Array:
        return sampled_rows(len(self.weight), 256)


@lru_cache(maxsize=1)
def head_weight(vocab: int, width: int) -> Array:
    """One for all rows; nobody writes into it."""
    weight = uniform(8, vocab, width)
    weight.setflags(write=False)
    return weight


def head(r: Request) -> Head:
    return Head(uniform(6, r["tokens"], r["width"]), head_weight(r["vocab"], r["width"]))


# ---------------------------------------------------------------------------------------------
# Whole models


def transformers_model(path: str) -> Any:
    """A directory, or a GGUF file with its blocks as f32."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder, file = Path(path), {}
    if folder.suffix == ".gguf":
        folder, file = folder.parent, {"gguf_file": folder.name}
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **file).eval()


@lru_cache(maxsize=1)
def logits_of(path: str, ids: tuple[int, ...]) -> Array:
    """transformers in f32, of the last token."""
    import torch

    with torch.inference_mode():
        return np.asarray(transformers_model(path)(torch.tensor([ids]), logits_to_keep=1).logits[0, -1].numpy())
