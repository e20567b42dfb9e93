# SPDX-License-Identifier: Apache-2.0
"""Ways to break a running transformers model and to mend it again: every one is a context manager."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import nn

Change = Callable[[torch.Tensor, int], torch.Tensor]  # positions [B, T] or [axes, B, T], step


def source(model: Any) -> Any:
    """The module of transformers that the model's classes come from."""
    return sys.modules[type(model).__module__]


def modules(model: Any, ending: str) -> list[Any]:
    return [part for name, part in model.named_modules() if name.rpartition(".")[2] == ending]


def blocks(model: Any) -> list[Any]:
    """Attention modules that carry the index of their layer."""
    found = [part for name, part in model.named_modules() if hasattr(part, "layer_idx") and "att" in name.lower()]
    return sorted(found, key=lambda part: part.layer_idx)


class Steps:
    """Counts the forward passes of a model."""

    def __init__(self, model: Any, stack: ExitStack) -> None:
        self.now = -1
        stack.callback(model.register_forward_pre_hook(self._next).remove)

    def _next(self, _model: Any, _args: Any) -> None:
        self.now += 1


@contextmanager
def positions_at_call(model: Any, change: Change) -> Iterator[None]:
    """The caller passes other position_ids."""
    step = -1

    def hook(_module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        nonlocal step
        step += 1
        if kwargs.get("position_ids") is None:
            return args, kwargs
        return args, {**kwargs, "position_ids": change(kwargs["position_ids"], step)}

    handle = model.register_forward_pre_hook(hook, with_kwargs=True)
    yield
    handle.remove()


@contextmanager
def positions_inside(model: Any, change: Change) -> Iterator[None]:
    """The rotation's tables are made for other positions than those that were passed."""
    with ExitStack() as stack:
        steps = Steps(model, stack)

        def hook(_module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
            if "position_ids" in kwargs:
                return args, {**kwargs, "position_ids": change(kwargs["position_ids"], steps.now)}
            return (args[0], change(args[1], steps.now), *args[2:]), kwargs

        for part in modules(model, "rotary_emb"):
            stack.callback(part.register_forward_pre_hook(hook, with_kwargs=True).remove)
        yield


@contextmanager
def positions_of_layers(model: Any, layers: Callable[[int], bool], change: Change) -> Iterator[None]:
    """Some layers rotate for other positions."""
    with ExitStack() as stack:
        steps = Steps(model, stack)
        (rotary,) = modules(model, "rotary_emb")
        seen: dict[str, torch.Tensor] = {}

        def remember(_module: Any, args: Any, kwargs: dict[str, Any]) -> None:
            seen["x"], seen["ids"] = args[0], kwargs.get("position_ids", args[1] if len(args) > 1 else None)

        def hook(_module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
            tables = type(rotary).forward(rotary, seen["x"], change(seen["ids"], steps.now))
            return args, {**kwargs, "position_embeddings": tables}

        stack.callback(rotary.register_forward_pre_hook(remember, with_kwargs=True).remove)
        for block in blocks(model):
            if layers(block.layer_idx):
                stack.callback(block.register_forward_pre_hook(hook, with_kwargs=True).remove)
        yield


@contextmanager
def tables(model: Any, change: Callable[..., Any]) -> Iterator[None]:
    """change(cos, sin) -> tables that the layers are given."""
    with ExitStack() as stack:
        for part in modules(model, "rotary_emb"):
            stack.callback(part.register_forward_hook(lambda _m, _a, out: change(*out)).remove)
        yield


@contextmanager
def rotation(model: Any, change: Callable[..., Any]) -> Iterator[None]:
    """change(original, q, k, cos, sin, **more) stands for the rotation itself."""
    original = source(model).apply_rotary_pos_emb

    def changed(*args: Any, **kwargs: Any) -> Any:
        return change(original, *args, **kwargs)

    with mock.patch.object(source(model), "apply_rotary_pos_emb", changed):
        yield


@contextmanager
def frequencies(model: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """The buffers of inverse frequencies hold something else."""
    kept: list[tuple[Any, str, torch.Tensor]] = []
    for part in modules(model, "rotary_emb"):
        for name, buffer in list(part.named_buffers(recurse=False)):
            if name.endswith("inv_freq"):
                kept.append((part, name, buffer))
                setattr(part, name, nn.Buffer(change(buffer.clone()), persistent=False))
    yield
    for part, name, buffer in kept:
        setattr(part, name, nn.Buffer(buffer, persistent=False))


@contextmanager
def attributes(parts: list[Any], name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(mock.patch.object(part, name, change(getattr(part, name))))
        yield


@contextmanager
def masks(model: Any, change: Callable[[torch.Tensor, int, int], torch.Tensor]) -> Iterator[None]:
    """change(mask, layer, step) -> the additive mask that attention is given, [B, 1, T, S]."""
    original = source(model).eager_attention_forward
    with ExitStack() as stack:
        steps = Steps(model, stack)

        def attend(module: Any, query: Any, key: Any, value: Any, mask: Any, *args: Any, **kwargs: Any) -> Any:
            if mask is None:
                mask = torch.zeros(query.shape[0], 1, query.shape[2], key.shape[2], dtype=query.dtype)
            changed = change(mask.clone(), module.layer_idx, steps.now)
            return original(module, query, key, value, changed, *args, **kwargs)

        stack.enter_context(mock.patch.object(source(model), "eager_attention_forward", attend))
        yield


@contextmanager
def scaling(model: Any, change: Callable[[float], float], layers: Callable[[int], bool]) -> Iterator[None]:
    """The softmax scale of some layers."""
    with attributes([block for block in blocks(model) if layers(block.layer_idx)], "scaling", change):
        yield


@contextmanager
def output_of(part: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    handle = part.register_forward_hook(lambda _m, _a, out: change(out))
    yield
    handle.remove()


@contextmanager
def input_of(part: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    handle = part.register_forward_pre_hook(lambda _m, args: (change(args[0]), *args[1:]))
    yield
    handle.remove()


@contextmanager
def buffer_of(part: Any, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    kept = getattr(part, name)
    setattr(part, name, nn.Buffer(change(kept.clone()), persistent=False))
    yield
    setattr(part, name, nn.Buffer(kept, persistent=False))


@contextmanager
def lookup_of(part: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """change(rows): what a table gives for its ids, before anything else happens to them."""

    def hook(module: Any, args: Any, _out: Any) -> torch.Tensor:
        return change(nn.functional.embedding(args[0], module.weight))

    handle = part.register_forward_hook(hook)
    yield
    handle.remove()


@contextmanager
def weight_of(part: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """The parameter of one module, not of those it is tied to."""
    kept = part.weight
    part.weight = nn.Parameter(change(kept.detach().clone()), requires_grad=False)
    yield
    part.weight = kept


# -- pieces of arithmetic


def halves(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def twos(x: torch.Tensor) -> torch.Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def ladder(theta: float, width: int) -> torch.Tensor:
    return 1.0 / theta ** (torch.arange(0, width, 2, dtype=torch.int64).float() / width)


def geometric(heads: int) -> torch.Tensor:
    return torch.tensor([2 ** (-8 * (head + 1) / heads) for head in range(heads)])


def sine(rows: int, width: int, steps: int, interleaved: bool) -> torch.Tensor:
    """Sinusoids of tensor2tensor's form whose exponent counts `steps`."""
    half = width // 2
    inverse = torch.exp(torch.arange(half).float() * -(math.log(10000) / steps))
    angles = torch.arange(rows).float()[:, None] * inverse[None]
    if interleaved:
        return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)
    return torch.cat((angles.sin(), angles.cos()), 1)
