# SPDX-License-Identifier: Apache-2.0
"""transformers in float32 with eager attention: logits, greedy continuations, and every tensor a trace has.

Rows run alone, without padding: what a batch must equal. Recorded tensors have the layouts of a trace.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch.nn import functional
from transformers import DynamicCache, PreTrainedModel
from transformers.models.llama import modeling_llama

F32 = NDArray[np.float32]
Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Greedy:
    ids: list[int]
    logits: F32
    """[T + N - 1, V] of prompt and continuation, each computed with the cache."""
    gap: float
    """Smallest distance of the best from the second best choice, of the largest logit."""


def attention_of(config: dict[str, Any]) -> str:
    """Of Falcon with ALiBi, eager adds the slopes twice in transformers 5.24: in the mask and to the scores."""
    return "sdpa" if config["model_type"] == "falcon" and config.get("alibi") else "eager"


@dataclass
class Reference:
    _models: dict[Path, PreTrainedModel] = field(default_factory=dict)
    _greedy: dict[tuple[Path, tuple[int, ...], int], Greedy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        torch.set_num_threads(1)  # tiny matrices: threads would cost more than they bring

    def model(self, path: Path) -> PreTrainedModel:
        if path not in self._models:
            config = json.loads((path / "config.json").read_text())
            opener = transformers.AutoModelForCausalLM
            if "text_config" in config:
                opener = transformers.AutoModelForImageTextToText
            self._models[path] = opener.from_pretrained(
                path, dtype=torch.float32, attn_implementation=attention_of(config), local_files_only=True
            ).eval()
        return self._models[path]

    def logits(
        self,
        path: Path,
        ids: Sequence[int],
        positions: Sequence[int] | None = None,
    ) -> F32:
        """[T, V] of one row."""
        model = self.model(path)
        arguments: dict[str, Any] = {"use_cache": False}
        if positions is not None:
            _grow_table(model, max(positions))
            # With a mask given, transformers does not read packed sequences out of jumping positions.
            arguments["position_ids"] = torch.tensor([list(positions)])
            arguments["attention_mask"] = torch.ones(1, len(ids), dtype=torch.long)
        with torch.no_grad():
            out = model(input_ids=torch.tensor([list(ids)]), **arguments)
        logits: F32 = out.logits[0].numpy()
        return logits

    def wide_logits(self, path: Path, ids: Sequence[int]) -> NDArray[np.float64]:
        """[T, V] in float64, softmax included. Only for models whose code runs in it (not XGLM's)."""
        model = transformers.AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float64, attn_implementation="eager", local_files_only=True
        ).eval()
        softmax = functional.softmax

        def wide_softmax(scores: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
            return softmax(scores, dim=dim)  # the models' own call narrows the scores to float32 first

        with torch.no_grad(), mock.patch.object(functional, "softmax", wide_softmax):
            out = model(input_ids=torch.tensor([list(ids)]), use_cache=False)
        logits: NDArray[np.float64] = out.logits[0].numpy()
        return logits

    def batch_logits(self, path: Path, rows: Sequence[Sequence[int]], side: str) -> list[F32]:
        """Each row's logits [T_row, V] out of one padded batch, with the position ids that the padding asks for."""
        model = self.model(path)
        width = max(len(row) for row in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        spans = []
        for index, row in enumerate(rows):
            start = width - len(row) if side == "left" else 0
            spans.append(slice(start, start + len(row)))
            ids[index, spans[-1]] = torch.tensor(list(row))
            mask[index, spans[-1]] = 1
        arguments: dict[str, Any] = {"attention_mask": mask, "use_cache": False}
        if model.config.model_type != "bloom":  # counts positions from the mask itself
            arguments["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
        with torch.no_grad():
            out = model(input_ids=ids, **arguments).logits
        return [out[index, span].numpy() for index, span in enumerate(spans)]

    def greedy(self, path: Path, ids: Sequence[int], count: int) -> Greedy:
        key = (path, tuple(ids), count)
        if key not in self._greedy:
            self._greedy[key] = self._continue(path, ids, count)
        return self._greedy[key]

    def _continue(self, path: Path, ids: Sequence[int], count: int) -> Greedy:
        model = self.model(path)
        cache, feed = DynamicCache(config=model.config), torch.tensor([list(ids)])
        chosen: list[int] = []
        logits, gap = [], float("inf")
        with torch.no_grad():
            for _ in range(count):
                out = model(input_ids=feed, cache=cache, use_cache=True)
                logits.append(out.logits[0].numpy())
                best = torch.topk(out.logits[0, -1], 2)
                gap = min(gap, float((best.values[0] - best.values[1]) / out.logits.abs().max()))
                chosen.append(int(best.indices[0]))
                feed = best.indices[:1].view(1, 1)
        return Greedy(chosen, np.concatenate(logits), gap)

    def record(self, path: Path, ids: Sequence[int], steps: Sequence[int] = ()) -> Tensors:
        """The trace of one row: `ids` as the prompt, then each of `steps` alone, behind step.N/."""
        model = self.model(path)
        cache = DynamicCache(config=model.config)
        tensors: Tensors = {}
        seen = 0
        for step, feed in enumerate([list(ids), *([token] for token in steps)]):
            prefix = f"step.{step}/" if step else ""
            for name, value in _record_pass(model, cache, feed, seen).items():
                tensors[prefix + name] = value
            seen += len(feed)
        return tensors


def _grow_table(model: Any, position: int) -> None:
    """XGLM computes its table for a call's length, not for its positions."""
    table = getattr(model.base_model, "embed_positions", None)
    if table is not None and position + table.offset >= table.weights.size(0):
        table.make_weights(position + table.offset + 1, table.embedding_dim, table.padding_idx)


def _record_pass(model: PreTrainedModel, cache: DynamicCache, ids: Sequence[int], seen: int) -> Tensors:
    family = FAMILY[model.config.model_type]
    raw: dict[str, torch.Tensor] = {}
    with torch.no_grad(), family.record(model, raw):
        out = model(input_ids=torch.tensor([list(ids)]), cache=cache, use_cache=True)
    raw["logits"] = out.logits
    positions = torch.arange(seen, seen + len(ids))[None]
    raw["input_ids"], raw["position_ids"] = torch.tensor([list(ids)]), positions
    for layer in range(len(cache.layers)):
        _derive_attention(raw, cache, layer, seen, family.scale(model, layer))
    return {name: value.detach().contiguous().numpy() for name, value in raw.items()}


def _derive_attention(raw: dict[str, torch.Tensor], cache: Any, layer: int, seen: int, scale: float) -> None:
    """Cache, and the scores from transformers' own q and cache."""
    at = f"layers.{layer}."
    keys, values = cache.layers[layer].keys, cache.layers[layer].values
    raw[at + "cache.k"], raw[at + "cache.v"] = keys.transpose(1, 2), values.transpose(1, 2)
    slots = torch.arange(keys.shape[2])
    raw[at + "cache.positions"] = slots[None]
    query = raw[at + "attn.q"].transpose(1, 2)
    scores = query @ keys.repeat_interleave(query.shape[1] // keys.shape[1], dim=1).mT * scale
    if at + "attn.bias" in raw:
        scores = scores + raw[at + "attn.bias"]
    future = slots[None, :] > torch.arange(seen, seen + query.shape[2])[:, None]
    raw[at + "attn.scores"] = scores.masked_fill(future, -torch.inf)


class _Hooks:
    """Forward hooks that store copies under trace names; removed together."""

    def __init__(self, raw: dict[str, torch.Tensor]) -> None:
        self.raw = raw
        self._handles: list[torch.utils.hooks.RemovableHandle] = []

    def out(self, module: torch.nn.Module, name: str, read: Callable[[Any], torch.Tensor] = lambda out: out) -> None:
        def hook(_module: torch.nn.Module, _args: Any, out: Any) -> None:
            self.raw[name] = read(out).clone()

        self._handles.append(module.register_forward_hook(hook))

    def argument(self, module: torch.nn.Module, name: str, read: Callable[[Any, Any], torch.Tensor]) -> None:
        def hook(_module: torch.nn.Module, args: Any, kwargs: Any) -> None:
            self.raw[name] = read(args, kwargs).clone()

        self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


def _heads(out: torch.Tensor, head_dim: int) -> torch.Tensor:
    return out.unflatten(-1, (-1, head_dim))


def _third_of_width(part: int, head_dim: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda out: _heads(out.chunk(3, -1)[part], head_dim)


def _third_of_heads(part: int, heads: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda out: out.unflatten(-1, (heads, 3, -1))[..., part, :]


def _first(out: Any) -> torch.Tensor:
    return out[0] if isinstance(out, tuple) else out


class _Llama:
    @staticmethod
    def scale(model: Any, layer: int) -> float:
        return float(model.config.head_dim) ** -0.5

    @staticmethod
    @contextmanager
    def record(model: Any, raw: dict[str, torch.Tensor]) -> Iterator[None]:
        hooks, core, width = _Hooks(raw), model.model, model.config.head_dim
        hooks.out(core.embed_tokens, "embed.tokens")
        hooks.argument(core.layers[0], "embed.out", lambda args, kw: args[0])
        hooks.out(core.rotary_emb, "rope.cos", lambda out: out[0])
        hooks.out(core.rotary_emb, "rope.sin", lambda out: out[1])
        hooks.out(core.norm, "final_norm.out")
        for index, layer in enumerate(core.layers):
            at, attention = f"layers.{index}.", layer.self_attn
            hooks.out(attention.q_proj, at + "attn.q_pre", lambda out: _heads(out, width))
            hooks.out(attention.k_proj, at + "attn.k_pre", lambda out: _heads(out, width))
            hooks.out(attention.v_proj, at + "attn.v", lambda out: _heads(out, width))
            hooks.out(attention, at + "attn.out", lambda out: out[0])
            hooks.out(attention, at + "attn.probs", lambda out: out[1])
            hooks.out(layer, at + "out", _first)
        apply, calls = modeling_llama.apply_rotary_pos_emb, iter(range(len(core.layers)))

        def rotated(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
            q, k = apply(*args, **kwargs)
            at = f"layers.{next(calls)}.attn."
            raw[at + "q"], raw[at + "k"] = q.transpose(1, 2).clone(), k.transpose(1, 2).clone()
            return q, k

        modeling_llama.apply_rotary_pos_emb = rotated
        try:
            yield
        finally:
            modeling_llama.apply_rotary_pos_emb = apply
            hooks.remove()


class _Gpt2:
    @staticmethod
    def scale(model: Any, layer: int) -> float:
        return float(model.transformer.h[layer].attn.scaling)

    @staticmethod
    @contextmanager
    def record(model: Any, raw: dict[str, torch.Tensor]) -> Iterator[None]:
        hooks, core = _Hooks(raw), model.transformer
        width = model.config.n_embd // model.config.n_head
        hooks.out(core.wte, "embed.tokens")
        hooks.out(core.wpe, "embed.positions")
        hooks.argument(core.h[0], "embed.out", lambda args, kw: args[0])
        hooks.out(core.ln_f, "final_norm.out")
        for index, layer in enumerate(core.h):
            at = f"layers.{index}."
            for part, name in enumerate("qkv"):
                hooks.out(layer.attn.c_attn, f"{at}attn.{name}", _third_of_width(part, width))
            hooks.out(layer.attn, at + "attn.out", lambda out: out[0])
            hooks.out(layer.attn, at + "attn.probs", lambda out: out[1])
            hooks.out(layer, at + "out", _first)
        try:
            yield
        finally:
            hooks.remove()


class _Bloom:
    @staticmethod
    def scale(model: Any, layer: int) -> float:
        return float(model.transformer.h[layer].self_attention.inv_norm_factor)

    @staticmethod
    @contextmanager
    def record(model: Any, raw: dict[str, torch.Tensor]) -> Iterator[None]:
        hooks, core, heads = _Hooks(raw), model.transformer, model.config.n_head
        hooks.out(core.word_embeddings, "embed.tokens")
        hooks.argument(core.h[0], "embed.out", lambda args, kw: args[0])
        hooks.out(core.ln_f, "final_norm.out")
        for index, layer in enumerate(core.h):
            at, attention = f"layers.{index}.", layer.self_attention
            for part, name in enumerate("qkv"):
                hooks.out(attention.query_key_value, f"{at}attn.{name}", _third_of_heads(part, heads))
            # [heads, 1, S] of one row
            hooks.argument(attention, at + "attn.bias", lambda args, kw: kw["alibi"][None])
            hooks.out(attention.dense, at + "attn.out")
            hooks.out(attention, at + "attn.probs", lambda out: out[1])
            hooks.out(layer, at + "out", _first)
        try:
            yield
        finally:
            hooks.remove()


class _Xglm:
    @staticmethod
    def scale(model: Any, layer: int) -> float:
        return float(model.model.layers[layer].self_attn.scaling)

    @staticmethod
    @contextmanager
    def record(model: Any, raw: dict[str, torch.Tensor]) -> Iterator[None]:
        hooks, core = _Hooks(raw), model.model
        width = model.config.d_model // model.config.attention_heads
        scale = math.sqrt(model.config.d_model) if model.config.scale_embedding else 1.0
        hooks.out(core.embed_tokens, "embed.tokens", lambda out: out / scale)
        hooks.out(core.embed_positions, "embed.positions")
        hooks.argument(core.layers[0], "embed.out", lambda args, kw: args[0])
        hooks.out(core.layer_norm, "final_norm.out")
        for index, layer in enumerate(core.layers):
            at, attention = f"layers.{index}.", layer.self_attn
            hooks.out(attention.q_proj, at + "attn.q", lambda out: _heads(out, width))
            hooks.out(attention.k_proj, at + "attn.k", lambda out: _heads(out, width))
            hooks.out(attention.v_proj, at + "attn.v", lambda out: _heads(out, width))
            hooks.out(attention, at + "attn.out", lambda out: out[0])
            hooks.out(attention, at + "attn.probs", lambda out: out[1])
            hooks.out(layer, at + "out", _first)
        try:
            yield
        finally:
            hooks.remove()


FAMILY: dict[str, Any] = {"llama": _Llama, "gpt2": _Gpt2, "bloom": _Bloom, "xglm": _Xglm}
