# SPDX-License-Identifier: Apache-2.0
"""Hooks on one stack of a transformers model, which read its passes on their way into a recorder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from torch import nn

from locant.capture.heads import Pair, by_head, of_word
from locant.capture.modules import (
    FINAL_NORMS,
    FUSED,
    KEYS,
    POSITION_TABLES,
    QUERIES,
    ROTATING_METHOD,
    ROTATIONS,
    SINE_FIRST,
    TYPE_TABLES,
    Stack,
    attention,
    cross_attention,
)
from locant.capture.recorder import Recorder


class Session:
    """One stack, recorded while its hooks are in place. An encoder has one pass: the first."""

    def __init__(self, recorder: Recorder, model: Any, part: Stack) -> None:
        self.recorder, self.model, self.part = recorder, model, part
        self.config, self.heads = part.config, part.heads
        self.stack = ExitStack()
        self.active = False
        self.passes = 0
        self.layer: int | None = None
        self.site = "attn"
        self.kind = ""  # of the rotary tables that are made, with a dot: a word of the config's layer_types
        self.run = 0  # blocks that ran in this pass
        self.rotated: list[Pair] = []  # of the layer that runs
        self.given: dict[str, torch.Tensor] = {}  # what its projections gave, and the query that attention took
        self.normed: torch.Tensor | None = None
        self.scored: tuple[torch.Tensor, torch.Tensor] | None = None
        self.shape: tuple[int, ...] | None = None
        self.methods: set[type] = set()  # attention classes whose rotation is a method
        self.rotates = any(hasattr(sys.modules[type(model).__module__], name) for name in ROTATIONS)

    # -- plumbing

    def before(self, module: nn.Module, call: Callable[[tuple[Any, ...], dict[str, Any]], None]) -> None:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            call(args, kwargs)

        handle = module.register_forward_pre_hook(hook, with_kwargs=True)
        self.stack.callback(handle.remove)

    def after(self, module: nn.Module, call: Callable[[Any], None]) -> None:
        def hook(_module: nn.Module, _args: Any, out: Any) -> None:
            call(out)

        handle = module.register_forward_hook(hook)
        self.stack.callback(handle.remove)

    def put(self, name: str, tensor: torch.Tensor) -> None:
        if self.active:
            self.recorder.put(self.part.prefix + name, tensor)

    def get(self, name: str) -> Any:
        return self.recorder.get(self.part.prefix + name)

    def at(self, suffix: str) -> str:
        """Of the layer that runs; what attention to another stack sees is all in one place."""
        kind, _, name = suffix.partition(".")
        if self.site == "cross" and kind in ("attn", "cache"):
            kind = "cross"
        return f"layers.{self.layer}.{kind}.{name}"

    # -- installing

    def install(self) -> None:
        model, part = self.model, self.part
        self.before(part.whole, self._begin)
        if part.prefix:
            self.after(part.whole, self._rests)
        else:
            self.after(model, self._answered)
        embedding = part.embedding
        self.before(embedding, lambda args, _kw: self._rows(embedding, args[0]))
        self.before(part.blocks[0], self._enters)
        self._install_ends()
        for name, module in part.whole.named_modules():
            last = name.rpartition(".")[2]
            if last in POSITION_TABLES and "vis" not in name:
                self.before(module, self._table_ids)
                self.after(module, lambda out: self._added("embed.positions", out))
            elif last in TYPE_TABLES:
                self.after(module, lambda out: self._added("embed.types", out))
            elif last == "rotary_emb" and "vis" not in name and not getattr(self.config, "alibi", False):
                self.before(module, self._rotary_ids)
                self.after(module, self._rotary_tables)
        for index, block in enumerate(part.blocks):
            own, other = attention(block), cross_attention(block)
            self.after(block, lambda out, index=index: self._block_out(index, out))  # type: ignore[misc]
            if own is not None:
                self._watch(index, own, "attn")
            if other is not None:
                self._watch(index, other, "cross")
        self._wrap_functions()

    def _install_ends(self) -> None:
        """What comes behind the last block."""
        model, stem = self.model, self.part.stem
        norm = next((getattr(stem, name) for name in FINAL_NORMS if hasattr(stem, name)), None)
        head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
        if self.part.prefix:
            if isinstance(norm, nn.Module):
                self.after(norm, lambda out: self.put("final_norm.out", out))
        elif head is not None:
            if isinstance(norm, nn.Module):
                self.after(norm, self._normed)
            self.before(head, lambda args, _kw: self._enters_head(args[0]))
        for name, module in self.part.whole.named_modules():
            last = name.rpartition(".")[2]
            if last == "pooler":
                self.after(module, self._pooled)
            elif last == "score" and isinstance(module, nn.Linear):
                self.before(module, lambda args, _kw, module=module: self._scored(module, args[0]))  # type: ignore[misc]

    def _watch(self, index: int, module: nn.Module, site: str) -> None:
        cache: Any = None

        def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            nonlocal cache
            if not self.active:
                return
            self.layer, self.site, self.rotated, self.given = self._number(index), site, [], {}
            cache = next((part for part in (*args, *kwargs.values()) if hasattr(part, "get_seq_length")), None)

        def leave(out: Any) -> None:
            if self.layer is None:
                return
            self._cached(cache)
            self._merge_rotated()
            value = out[0] if isinstance(out, tuple) else out
            if self._is_state(value):
                self.put(self.at("attn.out"), value)
            self.layer = None

        self.before(module, enter)
        self.after(module, leave)
        method = getattr(type(module), ROTATING_METHOD, None)
        if method is not None and type(module) not in self.methods:
            self.methods.add(type(module))
            wrapped = staticmethod(self._rotation(method, skip=1))
            self.stack.enter_context(mock.patch.object(type(module), ROTATING_METHOD, wrapped))
        children = dict(module.named_children())
        for names, word in ((QUERIES, "q"), (KEYS, "k")):
            for name in names:
                if isinstance(children.get(name), nn.Linear):
                    self.after(children[name], lambda out, word=word: self._projected(word, out))  # type: ignore[misc]
                    break
        for fused in FUSED:
            if fused in children and getattr(self.config, "model_type", "") in {"bloom", "falcon", "mpt"}:
                self.after(children[fused], self._fused)

    def _number(self, index: int) -> int:
        """The layer of a block: how many ran before it, where blocks run again."""
        return self.run if self.part.shared else index

    def _wrap_functions(self) -> None:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        module: ModuleType = sys.modules[type(self.model).__module__]
        for name in ROTATIONS:
            original = getattr(module, name, None)
            if original is not None:
                self.stack.enter_context(mock.patch.object(module, name, self._rotation(original)))
        eager = getattr(module, "eager_attention_forward", None)
        if eager is not None:
            self.stack.enter_context(mock.patch.object(module, "eager_attention_forward", self._interface(eager)))
        chosen = getattr(self.config, "_attn_implementation", None)
        mapping = ALL_ATTENTION_FUNCTIONS._global_mapping
        if chosen in mapping:
            self.stack.enter_context(mock.patch.dict(mapping, {chosen: self._interface(mapping[chosen])}))
        softmax = nn.functional.softmax

        def watched(scores: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            self._scores(scores)
            return softmax(scores, *args, **kwargs)

        self.stack.enter_context(mock.patch.object(nn.functional, "softmax", watched))

    # -- what passes by

    def _begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.passes += 1
        self.active = not self.part.encoder or self.passes == 1
        if not self.active:
            return
        if not self.part.prefix:
            self.recorder.step += 1
        self.run = 0
        ids = kwargs.get("input_ids", args[0] if args else None)
        given = ids if ids is not None else kwargs.get("inputs_embeds")
        self.shape = tuple(given.shape[:2]) if isinstance(given, torch.Tensor) else None
        if ids is not None:
            self.put("input_ids", ids)
        mask = kwargs.get("attention_mask")
        if isinstance(mask, torch.Tensor) and mask.dim() == 2:
            self.put("attention_mask", mask.to(torch.int64))
        if isinstance(kwargs.get("seq_idx"), torch.Tensor):
            self.put("segment_ids", kwargs["seq_idx"].to(torch.int64))
        for name in ("image_grid_thw", "video_grid_thw"):
            if isinstance(kwargs.get(name), torch.Tensor):
                self.put(name, kwargs[name].to(torch.int64))
        if isinstance(kwargs.get("position_ids"), torch.Tensor):
            self.put("position_ids", kwargs["position_ids"])

    def _rests(self, _out: Any) -> None:
        self.active = False

    def _rows(self, embedding: Any, ids: torch.Tensor) -> None:
        # a model that works time first gives [T, B]
        if isinstance(ids, torch.Tensor) and not ids.is_floating_point() and tuple(ids.shape) == self._batch():
            self.put("embed.tokens", nn.functional.embedding(ids, embedding.weight))

    def _enters(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        state = args[0] if args else kwargs.get("hidden_states")
        if self._is_state(state):
            self.put("embed.out", state)

    def _is_state(self, value: Any) -> bool:
        """[B, T, width] of this pass."""
        return isinstance(value, torch.Tensor) and value.dim() == 3 and tuple(value.shape[:2]) == self._batch()

    def _batch(self) -> tuple[int, ...] | None:
        """[B, T] of this pass."""
        return self.shape

    def _normed(self, out: Any) -> None:
        self.normed = out if isinstance(out, torch.Tensor) else None

    def _enters_head(self, state: torch.Tensor) -> None:
        """The norm's output, where the head takes a multiple of it; what the head takes, where more lies between."""
        normed, self.normed = self.normed, None
        if tuple(state.shape[:2]) != self._batch():
            return  # generate() keeps the last token alone, which is no whole tensor
        if normed is not None and normed.shape == state.shape and not torch.equal(normed, state):
            x, y = normed.double().flatten(), state.double().flatten()
            factor = torch.dot(x, y) / torch.dot(x, x)
            if torch.linalg.vector_norm(y - factor * x) <= 0.01 * torch.linalg.vector_norm(y):
                state = normed
        self.put("final_norm.out", state)

    def _added(self, name: str, out: Any) -> None:
        shape = self._batch()
        if isinstance(out, torch.Tensor) and shape is not None and out.is_floating_point():
            whole = out if out.dim() == 3 else out[None] if out.dim() == 2 else None
            if whole is not None and whole.shape[1] == shape[1]:
                self.put(name, whole.expand(shape[0], -1, -1))

    def _table_ids(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        del args
        if isinstance(kwargs.get("position_ids"), torch.Tensor):
            self._ids(kwargs["position_ids"])

    def _rotary_ids(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        kind = kwargs.get("layer_type", args[2] if len(args) > 2 else None)
        self.kind = f"{kind}." if isinstance(kind, str) else ""
        ids = kwargs.get("position_ids", args[1] if len(args) > 1 else None)
        if isinstance(ids, torch.Tensor) and not ids.is_floating_point():
            self._ids(ids)

    def _ids(self, ids: torch.Tensor) -> None:
        shape = self._batch()
        if shape is not None and ids.shape[-1] == shape[1]:
            self.put("position_ids", (ids[None] if ids.dim() == 1 else ids).to(torch.int64))

    def _rotary_tables(self, out: Any) -> None:
        if isinstance(out, tuple) and len(out) == 2 and all(isinstance(part, torch.Tensor) for part in out):
            sine = 0 if getattr(self.config, "model_type", "") in SINE_FIRST else 1
            self.put(f"rope.{self.kind}cos", out[1 - sine])
            self.put(f"rope.{self.kind}sin", out[sine])

    def _rotation(self, original: Callable[..., Any], skip: int = 0) -> Callable[..., Any]:
        """Reads what goes in behind the first `skip` arguments, and what comes out."""

        def rotated(*args: Any, **kwargs: Any) -> Any:
            out = original(*args, **kwargs)
            results = out if isinstance(out, tuple) else (out,)
            if self.layer is not None:
                for before, after in zip(args[skip:], results, strict=False):
                    if isinstance(before, torch.Tensor) and before.dim() == 4 and before.shape == after.shape:
                        self.rotated.append((before.detach().clone(), after.detach().clone()))
            return out

        return rotated

    def _interface(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def attend(
            module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any
        ) -> Any:
            if self.layer is not None:
                self.given["query"] = query.detach().clone()
                self.put(self.at("cache.k"), key.transpose(1, 2))
                self.put(self.at("cache.v"), value.transpose(1, 2))
            return original(module, query, key, value, *args, **kwargs)

        return attend

    def _scores(self, scores: torch.Tensor) -> None:
        if self.layer is None or self.get(self.at("attn.scores")) is not None:
            return
        shape = self._batch()
        if shape is None:
            return
        whole = scores.reshape(shape[0], -1, *scores.shape[-2:]) if scores.dim() == 3 else scores
        if whole.dim() != 4 or whole.shape[:3] != (shape[0], self.heads, shape[1]):
            return
        keys = self.get(self.at("cache.k"))
        width = whole.shape[3] if keys is None else min(whole.shape[3], keys.shape[1])
        self.put(self.at("attn.scores"), whole[..., :width].float())

    def _projected(self, word: str, out: Any) -> None:
        """q and k of attention that calls no interface: what the projections give."""
        if self.layer is None or self.shape is None or not isinstance(out, torch.Tensor) or out.dim() != 3:
            return
        # DeBERTa's second version projects its table of distances too
        if self._is_state(out) or (self.site == "cross" and word == "k"):
            self.given.setdefault(f"{word}_proj", out.detach().clone())

    def _fused(self, out: torch.Tensor) -> None:
        """Families whose projection is one matrix and whose attention calls no interface."""
        kind = self.config.model_type
        shape = self._batch()
        if self.layer is None or shape is None:
            return
        if kind == "mpt":
            q, k, _v = (part.unflatten(-1, (self.heads, -1)) for part in out.chunk(3, -1))
        elif kind == "falcon" and not getattr(self.config, "alibi", False):
            return
        else:
            fused = out.unflatten(-1, (self.heads, 3, -1))
            q, k = fused[..., 0, :], fused[..., 1, :]
        self.put(self.at("attn.q"), q)
        self.put(self.at("attn.k"), k)

    def _cached(self, cache: Any) -> None:
        """The keys and values that attention saw, where it calls no interface."""
        name = "cross_attention_cache" if self.site == "cross" else "self_attention_cache"
        layers = getattr(getattr(cache, name, cache), "layers", [])
        if self.layer is None or self.layer >= len(layers) or self.get(self.at("cache.k")) is not None:
            return
        keys, values = getattr(layers[self.layer], "keys", None), getattr(layers[self.layer], "values", None)
        if isinstance(keys, torch.Tensor) and isinstance(values, torch.Tensor) and keys.dim() == 4:
            self.put(self.at("cache.k"), keys.transpose(1, 2))
            self.put(self.at("cache.v"), values.transpose(1, 2))

    def _merge_rotated(self) -> None:
        """Whole heads from the parts that were rotated and from what attention was given."""
        keys = self.get(self.at("cache.k"))
        tokens = self.shape[1] if self.shape else 0
        own = None if keys is None or self.site == "cross" else keys.transpose(1, 2)[:, :, -tokens:]
        pairs = [(by_head(before, tokens), by_head(after, tokens)) for before, after in self.rotated]
        for word, whole in (("q", self.given.get("query")), ("k", own)):
            if word == "q" or self.site != "cross" or keys is None:
                self._merge_one(word, whole, of_word(word, pairs, whole))
        self.given = {}

    def _merge_one(self, word: str, whole: torch.Tensor | None, parts: Pair | None) -> None:
        projected = self.given.get(f"{word}_proj")
        heads = self.heads if word == "q" else int(getattr(self.config, "num_key_value_heads", 0) or self.heads)
        if parts is not None:
            self.put(self.at(f"attn.{word}_pre"), parts[0].transpose(1, 2))
            self.put(self.at(f"attn.{word}"), parts[1].transpose(1, 2))
            if whole is not None and word == "q" and not torch.equal(parts[1], whole):
                self.put(self.at("attn.q_in"), whole.transpose(1, 2))
        elif projected is not None and projected.shape[-1] % heads == 0:
            plain = projected.unflatten(-1, (heads, -1))
            self.put(self.at(f"attn.{word}"), plain)
            given = None if whole is None else whole.transpose(1, 2)
            if self.rotates and given is not None and torch.equal(given, plain):
                self.put(self.at(f"attn.{word}_pre"), plain)  # a layer that passes over the rotation
            if word == "q" and given is not None and given.shape == plain.shape and not torch.equal(given, plain):
                self.put(self.at("attn.q_in"), given)
        elif whole is not None:
            self.put(self.at(f"attn.{word}"), whole.transpose(1, 2))

    def _block_out(self, index: int, out: Any) -> None:
        state = out[0] if isinstance(out, tuple) else out
        if self._is_state(state):
            self.put(f"layers.{self._number(index)}.out", state)
        self.run += 1

    def _pooled(self, out: Any) -> None:
        if isinstance(out, torch.Tensor) and out.dim() == 2:
            self.put("pooled", out)

    def _scored(self, score: nn.Module, states: torch.Tensor) -> None:
        if states.dim() == 3:
            self.scored = states.detach().clone(), nn.functional.linear(states, score.weight)

    def _answered(self, out: Any) -> None:
        """The whole model's answer."""
        logits = getattr(out, "logits", None)
        if isinstance(logits, torch.Tensor) and logits.dim() == 3:
            self.put("logits", logits)
        elif isinstance(logits, torch.Tensor) and logits.dim() == 2 and self.scored is not None:
            self._classified(logits)
        self.active = False

    def _classified(self, logits: torch.Tensor) -> None:
        """The state of the token that a classifier took in each row: the one whose scores are the answer."""
        assert self.scored is not None
        states, scores = self.scored
        self.scored = None
        same = (scores == logits[:, None]).all(-1)
        if bool(same.any(-1).all()):
            last = same.shape[1] - 1 - same.flip(-1).int().argmax(-1)
            self.put("pooled", states[torch.arange(len(states)), last])
