# SPDX-License-Identifier: Apache-2.0
"""Models that run: ids to logits on real checkpoints."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from locant import _locant
from locant._locant import LoadedModel, Plan, Session, Spec, SpecError
from locant.sources import find_model
from locant.text import Tokenizer, open_tokenizer

Logits = npt.NDArray[np.float32]
States = npt.NDArray[np.float32]


def rows_of(ids: Any) -> list[list[int]]:
    """Rows of whole numbers from [T], [B, T] or rows of uneven lengths."""
    if hasattr(ids, "tolist"):
        ids = ids.tolist()
    if isinstance(ids, Sequence) and not isinstance(ids, str) and ids and not isinstance(ids[0], int | np.integer):
        return [[int(one) for one in (row.tolist() if hasattr(row, "tolist") else row)] for row in ids]
    if not isinstance(ids, Sequence) or isinstance(ids, str):
        raise SpecError(f"ids: whole numbers [T] or [B, T], got {type(ids).__name__}")
    return [[int(one) for one in ids]]


def is_single(ids: Any) -> bool:
    """Ids of one row, not of a batch."""
    if hasattr(ids, "shape"):
        return len(ids.shape) == 1
    return bool(len(ids)) and isinstance(ids[0], int | np.integer)


class Model:
    """A checkpoint that runs. Immutable; sessions hold the caches. See load()."""

    def __init__(self, loaded: LoadedModel, path: str) -> None:
        self.loaded = loaded
        self.path = path

    @property
    def spec(self) -> Spec:
        """What the config says."""
        return self.loaded.spec

    @property
    def plan(self) -> Plan:
        """The positions that it runs with."""
        return self.loaded.plan

    @property
    def recipe(self) -> str:
        return self.loaded.recipe

    @property
    def name(self) -> str:
        return self.loaded.name

    @property
    def vocab(self) -> int:
        return self.loaded.vocab

    @property
    def parameters(self) -> int:
        """Elements of all weights, tied ones once."""
        return self.loaded.parameters

    @property
    def weight_bytes(self) -> int:
        return self.loaded.weight_bytes

    @property
    def last_position(self) -> int | None:
        """Last position that the embedding site has a row for; None without a table."""
        return self.loaded.last_position

    @property
    def has_head(self) -> bool:
        """False: a bare encoder, which gives states and no logits."""
        return self.loaded.has_head

    @property
    def has_encoder(self) -> bool:
        """A decoder that reads an encoder's answer: logits() and generate() take encoder_ids."""
        return self.loaded.has_encoder

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Ids to text and back. SpecError with the reason when there is none."""
        return open_tokenizer(self.path)

    def open(self, capacity: int, *, rows: int | None = None, cache: str = "f32") -> Session:
        """A session for up to `capacity` tokens a row (Session.forward()); `cache`: "f32", "f16", "bf16" or "int8"."""
        return self.loaded.open(capacity, rows=rows, cache=cache)

    def logits(self, ids: Any, *, positions: Any = None, encoder_ids: Any = None) -> Logits:
        """Logits of every token: [T, V] for ids [T], [B, T, V] for rows. Uneven rows are filled up on the right, with
        NaN. `positions`: [T], [B, T] or [axes, B, T] int64; None: each row counts from 0. `encoder_ids`: the rows that
        the encoder reads, where the model has one; `ids` are then the decoder's, its start token in front.
        """
        rows = rows_of(ids)
        if self.has_encoder or encoder_ids is not None:
            if positions is not None:
                raise SpecError("logits: positions are for a decoder alone")
            if encoder_ids is None:
                raise SpecError(f"logits: {self.spec.family} has an encoder, give encoder_ids")
            answer = self.loaded.logits_rows(rows, rows_of(encoder_ids))
            return answer[0] if is_single(ids) else answer
        width = max(len(row) for row in rows)
        if width == 0:
            raise SpecError("logits: a row must hold a token or more, got none")
        padded = np.zeros((len(rows), width), dtype=np.int64)
        mask = np.zeros_like(padded)
        for index, row in enumerate(rows):
            padded[index, : len(row)] = row
            mask[index, : len(row)] = 1
        at = None
        if positions is not None:
            at = np.ascontiguousarray(positions, dtype=np.int64)
            at = at.reshape((1,) * (3 - at.ndim) + at.shape)
        answer = self.open(width).forward(padded, mask, at)
        return answer[0] if is_single(ids) else answer

    def states(self, ids: Any) -> States:
        """Hidden states behind the last norm: [T, hidden] for ids [T], [B, T, hidden] for rows, NaN behind shorter
        ones. Of a model with an encoder these are the encoder's.
        """
        answer = self.loaded.states_rows(rows_of(ids))
        return answer[0] if is_single(ids) else answer

    def embed(self, ids: Any, *, pool: str = "mean") -> States:
        """One vector a row, [hidden] for ids [T], [B, hidden] for rows: the mean of the row's states, or the state of
        its first ("cls") or last ("last") token. Not scaled to length 1.
        """
        if pool not in ("mean", "cls", "last"):
            raise SpecError(f"embed: pool is mean, cls or last, got {pool!r}")
        rows = rows_of(ids)
        states = self.loaded.states_rows(rows)
        picked = []
        for row, of_row in zip(rows, states, strict=True):
            own = of_row[: len(row)]
            picked.append(own.mean(axis=0, dtype=np.float64) if pool == "mean" else own[0 if pool == "cls" else -1])
        answer = np.asarray(picked, dtype=np.float32)
        return answer[0] if is_single(ids) else answer

    def embed_text(self, text: str | Sequence[str], *, pool: str = "mean") -> States:
        """embed() of a text, or of several."""
        if isinstance(text, str):
            return self.embed(self.tokenizer.encode(text), pool=pool)
        return self.embed([self.tokenizer.encode(one) for one in text], pool=pool)

    def generate(
        self,
        ids: Any,
        tokens: int,
        *,
        end_tokens: Sequence[int] | None = None,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        encoder_ids: Any = None,
    ) -> list[list[int]]:
        """Continuation of every row by up to `tokens` ids; a row ends after one of `end_tokens` (None: those of the
        config). Returns the new ids, a list a row.

        `temperature` 0: the largest logit. Else softmax(logit / temperature) of the `top_k` largest (0 = all), of which
        the fewest whose probabilities sum to `top_p` are kept. A draw depends on `seed`, row and step alone.
        `encoder_ids` as in logits().
        """
        if self.has_encoder and encoder_ids is None:
            raise SpecError(f"generate: {self.spec.family} has an encoder, give encoder_ids")
        ends = self.spec.eos if end_tokens is None else end_tokens
        return self.loaded.generate_rows(
            rows_of(ids),
            tokens,
            [int(one) for one in ends],
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            encoder_ids=[] if encoder_ids is None else rows_of(encoder_ids),
        )

    def continue_text(self, text: str, tokens: int, **sampling: Any) -> str:
        """The text that follows `text`, without it; `sampling` as in generate()."""
        return self.tokenizer.decode(self.generate(self.tokenizer.encode(text), tokens, **sampling)[0])

    def __repr__(self) -> str:
        return f"<locant.Model: {self.spec.family}, {self.spec.layers} layers, {self.parameters} parameters>"


def load(
    path: str | os.PathLike[str],
    *,
    recipe: str | None = None,
    run_dtype: str = "f32",
    weights: str = "as_stored",
    activations: str = "f32",
    threads: int | None = None,
) -> Model:
    """Loads a Hugging Face directory, a .gguf or llama2.c .bin file, or a bundled model ("rope", "alibi", "learned",
    "sinusoidal").

    `recipe`: whose meaning; None = the one the checkpoint was published for. `run_dtype`: the dtype whose rounding of
    constants is imitated. `weights`: kept "as_stored", "f32", "f16" or "bf16".
    `activations`: arithmetic of products, "f32", "bf16" for weights of bf16, or "int8" for blocks of a GGUF file.
    `threads`: None = shared ones.
    FileError and SpecError name the file, the tensor and what was expected.
    """
    found = find_model(path)
    return Model(_locant.load(found, recipe or "", run_dtype, weights, activations, threads), found)
