# SPDX-License-Identifier: Apache-2.0
"""Live runtimes: what the rules of locant.check() drive.

A Runtime opens sessions; a session takes ids, mask and positions and gives logits. Two adapters are here:
from_transformers() for a causal model of transformers, from_callable() for anything that maps whole sequences to
logits. Another runtime is a subclass of Runtime.
"""

from __future__ import annotations

import copy
import inspect as python_inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from locant._locant import PositionSpec, SpecError

__all__ = ["Runtime", "RuntimeSession", "from_callable", "from_transformers"]
Ids = npt.NDArray[np.int64]
Logits = npt.NDArray[np.float32]


class RuntimeSession(ABC):
    """One set of rows with their caches. B is fixed by the first call."""

    @abstractmethod
    def forward(self, ids: Ids, mask: Ids | None = None, positions: Ids | None = None) -> Logits:
        """Feeds ids [B, T] behind what was fed; returns logits [B, T, V], f32, NaN where the mask says padding.

        mask [B, S], 1 = token, 0 = padding: its last T columns are this call's, S >= T; None = all tokens. Whether
        padding stands left or right must not matter: it is never seen by a token and takes no position. positions
        [axes, B, T]; None = each row's content counts on from what it holds. Raise IndexError for an id, a position or
        a length outside, SpecError for shapes, before anything is fed.
        """

    def fork(self) -> RuntimeSession | None:
        """An independent copy of the state; None where the runtime cannot."""
        return None


class Runtime(ABC):
    """A runtime to be checked: subclass it, or use an adapter."""

    @property
    @abstractmethod
    def name(self) -> str:
        """ "transformers 5.24.0"."""

    @property
    @abstractmethod
    def vocab(self) -> int:
        """V of the logits."""

    @abstractmethod
    def open(self, capacity: int) -> RuntimeSession:
        """A session for up to `capacity` tokens a row. IndexError past a table's end."""

    def with_positions(self, positions: PositionSpec) -> Runtime | None:
        """The same weights under another position mechanism; None where the runtime cannot."""
        del positions
        return None


def checked_logits(answer: Any, shape: tuple[int, int, int]) -> Logits:
    """What a session answered as f32 [B, T, V] without gaps. SpecError for another shape."""
    if hasattr(answer, "detach"):
        answer = answer.detach().to("cpu").float().numpy()
    logits = np.ascontiguousarray(answer, dtype=np.float32)
    if logits.shape != tuple(shape):
        raise SpecError(f"forward: logits must be {list(shape)}, got {list(logits.shape)}")
    return logits


class _Fed:
    """The ids, the mask and the positions of everything fed so far."""

    def __init__(self, vocab: int, capacity: int) -> None:
        self.vocab = vocab
        self.capacity = capacity
        self.ids: Ids | None = None
        self.mask: Ids | None = None
        self.positions: Ids | None = None  # [axes, B, S]
        self.stated = False  # were positions ever asked for

    def after(self, ids: Ids, mask: Ids | None, positions: Ids | None) -> _Fed:
        """What is fed once this call is done. Nothing changes here."""
        ids = np.asarray(ids, dtype=np.int64)
        if ids.ndim != 2:
            raise SpecError(f"forward: ids must be [rows, tokens], got {list(ids.shape)}")
        rows, tokens = ids.shape
        if self.ids is not None and self.ids.shape[0] != rows:
            raise SpecError(f"forward: ids must have the session's {self.ids.shape[0]} rows, got {rows}")
        now = np.ones_like(ids) if mask is None else np.asarray(mask, dtype=np.int64)
        if now.ndim != 2 or now.shape[0] != rows or now.shape[1] < tokens:
            raise SpecError(f"forward: mask must be [{rows}, S] with S of at least {tokens}, got {list(now.shape)}")
        now = now[:, now.shape[1] - tokens :]
        content = ids[now != 0]
        if content.size and (content.min() < 0 or content.max() >= self.vocab):
            bad = content[(content < 0) | (content >= self.vocab)][0]
            raise IndexError(f"forward: token {bad} is outside vocab {self.vocab}")
        held = np.zeros(rows, dtype=np.int64) if self.mask is None else self.mask.sum(1)
        if (held + now.sum(1)).max(initial=0) > self.capacity:
            raise IndexError(f"forward: {int((held + now.sum(1)).max())} tokens are past the capacity {self.capacity}")
        if positions is None:
            first = self._next(rows)
            counted = np.where(now != 0, first[:, None] + now.cumsum(1) - 1, 0)
            axes = 1 if self.positions is None else self.positions.shape[0]
            at = np.broadcast_to(counted, (axes, rows, tokens))
        else:
            at = np.asarray(positions, dtype=np.int64)
            if at.ndim != 3 or at.shape[1:] != (rows, tokens):
                raise SpecError(f"forward: positions must be [axes, {rows}, {tokens}], got {list(at.shape)}")
        fed = _Fed(self.vocab, self.capacity)
        fed.stated = self.stated or positions is not None
        fed.ids = ids if self.ids is None else np.concatenate([self.ids, ids], 1)
        fed.mask = now if self.mask is None else np.concatenate([self.mask, now], 1)
        fed.positions = np.array(at) if self.positions is None else np.concatenate([self.positions, at], 2)
        return fed

    def _next(self, rows: int) -> Ids:
        """The position behind the largest of each row."""
        if self.positions is None or self.mask is None:
            return np.zeros(rows, dtype=np.int64)
        held = np.where(self.mask != 0, self.positions, -1)
        return np.asarray(held.max(axis=(0, 2)) + 1, dtype=np.int64)


def _takes(call: Callable[..., Any]) -> int:
    """Positional arguments of a callable, 3 at most."""
    try:
        python_inspect.signature(call).bind(None, None, None)
    except TypeError:
        return 2
    except ValueError:  # a builtin does not say
        return 3
    return 3


class _CallableSession(RuntimeSession):
    def __init__(self, call: Callable[..., Any], fed: _Fed) -> None:
        self._call = call
        self._fed = fed
        self._counts = _takes(call) == 2

    def forward(self, ids: Ids, mask: Ids | None = None, positions: Ids | None = None) -> Logits:
        fed = self._fed.after(ids, mask, positions)
        assert fed.ids is not None and fed.mask is not None and fed.positions is not None
        if self._counts and positions is not None:
            raise SpecError("forward: this callable takes no positions, got positions")
        at = fed.positions[0] if fed.positions.shape[0] == 1 else fed.positions
        answer = self._call(fed.ids.copy(), fed.mask.copy(), *(() if self._counts else (at.copy(),)))
        logits = checked_logits(answer, (*fed.ids.shape, fed.vocab))
        tokens = np.asarray(ids).shape[1]
        last = logits[:, logits.shape[1] - tokens :].copy()
        last[fed.mask[:, fed.mask.shape[1] - tokens :] == 0] = np.nan
        self._fed = fed
        return last

    def fork(self) -> RuntimeSession:
        return _CallableSession(self._call, self._fed)


class _Named(Runtime):
    """What every adapter here says of itself, and what a session of it begins with."""

    _name: str
    _vocab: int

    @property
    def name(self) -> str:
        return self._name

    @property
    def vocab(self) -> int:
        return self._vocab

    def _fed(self, capacity: int) -> _Fed:
        if capacity < 1:
            raise SpecError(f"open: capacity must be at least 1 token, got {capacity}")
        return _Fed(self._vocab, capacity)


class _CallableRuntime(_Named):
    def __init__(self, call: Callable[..., Any], vocab: int, name: str) -> None:
        self._call, self._vocab, self._name = call, vocab, name

    def open(self, capacity: int) -> RuntimeSession:
        return _CallableSession(self._call, self._fed(capacity))


def from_callable(f: Callable[..., Any], vocab: int, name: str = "callable") -> Runtime:
    """A runtime of any `f(ids, mask, positions) -> logits`: whole sequences, no cache.

    ids, mask [B, S] int64 with 1 = token; positions [B, S] ([axes, B, S] where several were asked for), 0 at padding;
    logits [B, S, vocab] as numpy or torch. A session keeps what it was fed and hands all of it over at each call. A
    callable of two arguments, `f(ids, mask)`, counts positions itself.
    """
    if vocab < 1:
        raise SpecError(f"from_callable: vocab must be 1 or more, got {vocab}")
    return _CallableRuntime(f, vocab, name)


class _TransformersSession(RuntimeSession):
    def __init__(self, runtime: _TransformersRuntime, fed: _Fed, cache: Any) -> None:
        self._runtime = runtime
        self._fed = fed
        self._cache = cache

    def forward(self, ids: Ids, mask: Ids | None = None, positions: Ids | None = None) -> Logits:
        import torch

        runtime = self._runtime
        if positions is not None and not runtime.takes_positions:
            raise SpecError(f"forward: {type(runtime.model).__name__} takes no position_ids, got positions")
        fed = self._fed.after(ids, mask, positions)
        assert fed.ids is not None and fed.mask is not None and fed.positions is not None
        tokens = np.asarray(ids).shape[1]
        start = fed.ids.shape[1] - tokens
        device = runtime.model.device
        now = fed.mask[:, start:]
        given: dict[str, Any] = {
            "input_ids": torch.from_numpy(np.where(now != 0, fed.ids[:, start:], 0)).to(device),
            "attention_mask": torch.from_numpy(fed.mask.copy()).to(device),
            "use_cache": True,
        }
        if runtime.takes_positions:
            given["position_ids"] = runtime.position_ids(fed, given)[..., start:].to(device)
        # a refused call must leave the cache as it was
        cache = copy.deepcopy(self._cache)
        if cache is not None:
            given[runtime.cache_name] = cache
        with torch.no_grad():
            answer = runtime.model(**given)
        logits = checked_logits(answer.logits, (*np.asarray(ids).shape, runtime.vocab))
        logits[now == 0] = np.nan
        self._fed, self._cache = fed, getattr(answer, runtime.cache_name)
        return logits

    def fork(self) -> RuntimeSession:
        return _TransformersSession(self._runtime, self._fed, copy.deepcopy(self._cache))


class _TransformersRuntime(_Named):
    def __init__(self, model: Any) -> None:
        import transformers

        from locant.capture.decoding import cache_argument
        from locant.sources import inspect

        self.cache_name = cache_argument(model)
        self.model = model.eval()
        self._name = f"transformers {transformers.__version__}"
        parameters = python_inspect.signature(model.forward).parameters
        self.takes_positions = "position_ids" in parameters
        head = model.get_output_embeddings()
        text = model.config.get_text_config()
        self._vocab = int(text.vocab_size if head is None else head.weight.shape[0])
        self._end: int | None = inspect(model)["limits"]["hard"]

    def position_ids(self, fed: _Fed, given: dict[str, Any]) -> Any:
        """Of everything fed: as generate() counts them, so that the model's own count is judged, or as asked for."""
        import torch

        assert fed.positions is not None
        count = getattr(self.model, "_prepare_position_ids_for_generation", None)
        if count is not None and not fed.stated:
            return count(given["input_ids"], {"attention_mask": given["attention_mask"]})
        return torch.from_numpy(fed.positions[0] if fed.positions.shape[0] == 1 else fed.positions)

    def open(self, capacity: int) -> RuntimeSession:
        fed = self._fed(capacity)
        if self._end is not None and capacity > self._end:
            raise IndexError(f"open: capacity {capacity} is past the table's end, it has {self._end} rows")
        return _TransformersSession(self, fed, None)


def from_transformers(model: Any) -> Runtime:
    """A runtime of a causal language model of transformers: a model, or the path of one (loaded in f32, eager).

    A batch is fed as it stands, padding included, with the attention_mask of everything so far and the position_ids
    that the model's generate() counts from it, or those that were asked for; logits at padding become NaN. A session
    keeps the model's own cache; fork() copies it. The model is put into eval mode and left where it is. A layer that
    keeps only the last tokens counts padding among them: compare padded rows inside its window.
    """
    if isinstance(model, str | os.PathLike):
        from locant.capture.decoding import load_model

        model = load_model(os.fspath(model))
    if not hasattr(model, "get_output_embeddings") or not hasattr(model, "config"):
        raise SpecError(f"from_transformers: a causal language model or its path, got {type(model).__name__}")
    if hasattr(model, "can_generate") and not model.can_generate():
        raise SpecError(f"from_transformers: a model that generates is driven, {type(model).__name__} does not")
    return _TransformersRuntime(model)
