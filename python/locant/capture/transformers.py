# SPDX-License-Identifier: Apache-2.0
"""Records the forward passes of a transformers model (PyTorch, version 5) as a trace.

What is recorded is what the model computes: hooks and wrappers read tensors on their way and change none. Scores
are the argument of the softmax itself, so that whatever a model adds to them is in them. Everything is put back
when the context ends. A path without an explicit softmax (sdpa, flash) has no scores in its trace.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from torch import nn

ROTATIONS = (
    "apply_rotary_pos_emb",
    "apply_rotary_pos_emb_interleave",
    "apply_multimodal_rotary_pos_emb",
    "apply_rotary_emb",
)
POSITION_TABLES = ("wpe", "embed_positions", "position_embeddings", "position_embedding", "embed_position")
TYPE_TABLES = ("token_type_embeddings",)
QUERIES = ("q_proj", "q", "query", "q_lin", "query_proj")
KEYS = ("k_proj", "k", "key", "k_lin", "key_proj")
SINE_FIRST = {"gptj", "codegen"}  # their tables come as sin, cos
Pair = tuple[torch.Tensor, torch.Tensor]
DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64"}


@dataclass
class Recorder:
    """The tensors of the passes so far, by canonical name."""

    model: nn.Module
    producer: str
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    source_names: dict[str, str] = field(default_factory=dict)
    step: int = -1

    def put(self, name: str, tensor: torch.Tensor, source: str = "") -> None:
        """Keeps a copy; the first tensor of a name in a pass stays."""
        key = (f"step.{self.step}/" if self.step > 0 else "") + name
        if key not in self.tensors:
            self.tensors[key] = tensor.detach().to("cpu", copy=True).contiguous()
            if source:
                self.source_names.setdefault(name, source)

    def get(self, name: str) -> torch.Tensor | None:
        return self.tensors.get((f"step.{self.step}/" if self.step > 0 else "") + name)

    def replace(self, name: str, tensor: torch.Tensor) -> None:
        self.tensors[(f"step.{self.step}/" if self.step > 0 else "") + name] = tensor.contiguous()

    def save(self, path: str | Path) -> None:
        """Writes the trace: one safetensors file."""
        from safetensors.torch import save_file

        dtype = DTYPES.get(next(self.model.parameters()).dtype, "f32")
        metadata = {
            "locant.trace": "1",
            "locant.producer": self.producer,
            "locant.model": type(self.model).__name__,
            "locant.dtype": dtype,
            "locant.source_names": json.dumps(self.source_names, sort_keys=True),
        }
        if _is_encoder(self.model):
            metadata["locant.stack"] = "encoder"
        save_file({name: self.tensors[name] for name in self.tensors}, str(path), metadata)


def _is_encoder(model: nn.Module) -> bool:
    config = _text_config(model)
    decoder = getattr(config, "is_decoder", False) or hasattr(model, "lm_head") or hasattr(model, "embed_out")
    return not decoder and getattr(config, "model_type", "") in {"bert", "roberta", "t5", "albert", "electra"}


def _text_config(model: Any) -> Any:
    config = model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _layers(model: nn.Module) -> tuple[str, nn.ModuleList]:
    """The list of blocks: of all module lists, the one whose members hold the most attention modules."""
    best: tuple[int, str, nn.ModuleList] | None = None
    for name, module in model.named_modules():
        if not isinstance(module, nn.ModuleList) or len(module) == 0 or "vis" in name.lower():
            continue
        count = sum(1 for block in module if _attention(block) is not None)
        if count and (best is None or count > best[0]):
            best = (count, name, module)
    if best is None:
        raise ValueError("trace: a model needs a list of blocks with attention, this one has none")
    return best[1], best[2]


def _attention(block: nn.Module) -> nn.Module | None:
    for name, module in block.named_modules():
        last = name.rpartition(".")[2].lower()
        kind = type(module).__name__.lower()
        if (
            "attention" in kind
            and "cross" not in last
            and "norm" not in kind
            and any(True for _ in module.parameters())
        ):
            inner = [
                child
                for child_name, child in module.named_modules()
                if child is not module
                and "attention" in type(child).__name__.lower()
                and any(part in dict(child.named_children()) for part in QUERIES)
            ]
            return inner[0] if inner else module
    return None


class _Session:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.layer: int | None = None
        self.rotated: list[tuple[torch.Tensor, torch.Tensor]] = []  # of the layer that runs
        self.stack = ExitStack()
        self.config = _text_config(recorder.model)
        self.heads = int(
            getattr(self.config, "num_attention_heads", 0) or getattr(self.config, "n_head", 0) or self.config.num_heads
        )
        self.name, self.blocks = _layers(recorder.model)
        self.rotates = any(hasattr(sys.modules[type(recorder.model).__module__], name) for name in ROTATIONS)

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

    def at(self, suffix: str) -> str:
        return f"layers.{self.layer}.{suffix}"

    # -- installing

    def install(self) -> None:
        model = self.recorder.model
        self.before(model, self._begin)
        self.after(model, self._logits)
        embedding = model.get_input_embeddings()
        self.before(embedding, lambda args, _kw: self._rows(embedding, args[0]))
        self.before(self.blocks[0], self._enters)
        head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
        if head is not None:
            self.before(head, lambda args, _kw: self._final(args[0]))
        for name, module in model.named_modules():
            last = name.rpartition(".")[2]
            if last in POSITION_TABLES and "vis" not in name:
                self.before(module, self._table_ids)
                self.after(module, lambda out: self._added("embed.positions", out))
            elif last in TYPE_TABLES:
                self.after(module, lambda out: self._added("embed.types", out))
            elif last == "rotary_emb" and "vis" not in name and not getattr(self.config, "alibi", False):
                self.before(module, self._rotary_ids)
                self.after(module, self._rotary_tables)
        for index, block in enumerate(self.blocks):
            attention = _attention(block)
            self.after(block, lambda out, index=index: self._block_out(index, out))  # type: ignore[misc]
            if attention is not None:
                self._watch(index, attention)
        self._wrap_functions()

    def _watch(self, index: int, attention: nn.Module) -> None:
        cache: Any = None

        def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            nonlocal cache
            self.layer, self.rotated = index, []
            cache = next((part for part in (*args, *kwargs.values()) if hasattr(part, "get_seq_length")), None)

        def leave(out: Any) -> None:
            self._cached(cache)
            self._merge_rotated()
            value = out[0] if isinstance(out, tuple) else out
            if isinstance(value, torch.Tensor) and value.dim() == 3:
                self.recorder.put(self.at("attn.out"), value)
            self.layer = None

        self.before(attention, enter)
        self.after(attention, leave)
        children = dict(attention.named_children())
        for names, word in ((QUERIES, "q"), (KEYS, "k")):
            for name in names:
                if isinstance(children.get(name), nn.Linear):
                    self.after(children[name], lambda out, word=word: self._projected(word, out))  # type: ignore[misc]
                    break
        for fused in ("query_key_value", "c_attn", "Wqkv"):
            if fused in children and getattr(self.config, "model_type", "") in {"bloom", "falcon", "mpt"}:
                self.after(children[fused], self._fused)

    def _wrap_functions(self) -> None:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        module: ModuleType = sys.modules[type(self.recorder.model).__module__]
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
        recorder = self.recorder
        recorder.step += 1
        ids = kwargs.get("input_ids", args[0] if args else None)
        if ids is not None:
            recorder.put("input_ids", ids)
        mask = kwargs.get("attention_mask")
        if isinstance(mask, torch.Tensor) and mask.dim() == 2:
            recorder.put("attention_mask", mask.to(torch.int64))
        if isinstance(kwargs.get("seq_idx"), torch.Tensor):
            recorder.put("segment_ids", kwargs["seq_idx"].to(torch.int64))
        for name in ("image_grid_thw", "video_grid_thw"):
            if isinstance(kwargs.get(name), torch.Tensor):
                recorder.put(name, kwargs[name].to(torch.int64))
        if isinstance(kwargs.get("position_ids"), torch.Tensor):
            recorder.put("position_ids", kwargs["position_ids"])

    def _rows(self, embedding: Any, ids: torch.Tensor) -> None:
        if isinstance(ids, torch.Tensor) and not ids.is_floating_point() and ids.dim() == 2:
            self.recorder.put("embed.tokens", nn.functional.embedding(ids, embedding.weight))

    def _enters(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        state = args[0] if args else kwargs.get("hidden_states")
        if isinstance(state, torch.Tensor) and state.dim() == 3:
            self.recorder.put("embed.out", state)

    def _batch(self) -> tuple[int, int] | None:
        ids = self.recorder.get("input_ids")
        return None if ids is None else (ids.shape[0], ids.shape[1])

    def _added(self, name: str, out: Any) -> None:
        shape = self._batch()
        if isinstance(out, torch.Tensor) and shape is not None and out.is_floating_point():
            whole = out if out.dim() == 3 else out[None] if out.dim() == 2 else None
            if whole is not None and whole.shape[1] == shape[1]:
                self.recorder.put(name, whole.expand(shape[0], -1, -1))

    def _table_ids(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        del args
        if isinstance(kwargs.get("position_ids"), torch.Tensor):
            self._ids(kwargs["position_ids"])

    def _rotary_ids(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("position_ids", args[1] if len(args) > 1 else None)
        if isinstance(ids, torch.Tensor) and not ids.is_floating_point():
            self._ids(ids)

    def _ids(self, ids: torch.Tensor) -> None:
        shape = self._batch()
        if shape is not None and ids.shape[-1] == shape[1]:
            self.recorder.put("position_ids", ids.to(torch.int64))

    def _rotary_tables(self, out: Any) -> None:
        if isinstance(out, tuple) and len(out) == 2 and all(isinstance(part, torch.Tensor) for part in out):
            sine = 0 if getattr(self.config, "model_type", "") in SINE_FIRST else 1
            self.recorder.put("rope.cos", out[1 - sine])
            self.recorder.put("rope.sin", out[sine])

    def _rotation(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def rotated(*args: Any, **kwargs: Any) -> Any:
            out = original(*args, **kwargs)
            results = out if isinstance(out, tuple) else (out,)
            if self.layer is not None:
                for before, after in zip(args, results, strict=False):
                    if isinstance(before, torch.Tensor) and before.dim() == 4 and before.shape == after.shape:
                        self.rotated.append((before.detach().clone(), after.detach().clone()))
            return out

        return rotated

    def _interface(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def attend(
            module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any
        ) -> Any:
            if self.layer is not None:
                self.recorder.put(self.at("rotation.query"), query)
                self.recorder.put(self.at("cache.k"), key.transpose(1, 2))
                self.recorder.put(self.at("cache.v"), value.transpose(1, 2))
            return original(module, query, key, value, *args, **kwargs)

        return attend

    def _scores(self, scores: torch.Tensor) -> None:
        if self.layer is None or self.recorder.get(self.at("attn.scores")) is not None:
            return
        shape = self._batch()
        if shape is None:
            return
        whole = scores.reshape(shape[0], -1, *scores.shape[-2:]) if scores.dim() == 3 else scores
        if whole.dim() != 4 or whole.shape[:3] != (shape[0], self.heads, shape[1]):
            return
        keys = self.recorder.get(self.at("cache.k"))
        width = whole.shape[3] if keys is None else min(whole.shape[3], keys.shape[1])
        self.recorder.put(self.at("attn.scores"), whole[..., :width].float())

    def _projected(self, word: str, out: Any) -> None:
        """q and k of attention that calls no interface: what the projections give."""
        shape = self._batch()
        if self.layer is None or shape is None or not isinstance(out, torch.Tensor) or out.dim() != 3:
            return
        self.recorder.put(self.at(f"rotation.{word}_proj"), out)

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
        self.recorder.put(self.at("attn.q"), q)
        self.recorder.put(self.at("attn.k"), k)

    def _cached(self, cache: Any) -> None:
        """The keys and values that attention saw, where it calls no interface."""
        layers = getattr(cache, "layers", [])
        if self.layer is None or self.layer >= len(layers) or self.recorder.get(self.at("cache.k")) is not None:
            return
        keys, values = getattr(layers[self.layer], "keys", None), getattr(layers[self.layer], "values", None)
        if isinstance(keys, torch.Tensor) and isinstance(values, torch.Tensor) and keys.dim() == 4:
            self.recorder.put(self.at("cache.k"), keys.transpose(1, 2))
            self.recorder.put(self.at("cache.v"), values.transpose(1, 2))

    def _merge_rotated(self) -> None:
        """Whole heads from the parts that were rotated and from what attention was given."""
        if self.layer is None:
            return
        recorder = self.recorder
        query, keys = recorder.get(self.at("rotation.query")), recorder.get(self.at("cache.k"))
        shape = self._batch()
        tokens = shape[1] if shape else 0
        given = {"q": query, "k": None if keys is None else keys.transpose(1, 2)[:, :, -tokens:]}
        pairs = [(_by_head(before, tokens), _by_head(after, tokens)) for before, after in self.rotated]
        for word in "qk":
            whole = given[word]
            self._merge_one(word, whole, _of_word(word, pairs, whole))
        prefix = f"step.{recorder.step}/" if recorder.step > 0 else ""
        for name in [key for key in recorder.tensors if key.startswith(prefix + self.at("rotation."))]:
            del recorder.tensors[name]

    def _merge_one(
        self, word: str, whole: torch.Tensor | None, parts: tuple[torch.Tensor, torch.Tensor] | None
    ) -> None:
        recorder = self.recorder
        projected = recorder.get(self.at(f"rotation.{word}_proj"))
        heads = self.heads if word == "q" else int(getattr(self.config, "num_key_value_heads", 0) or self.heads)
        if parts is not None:
            recorder.put(self.at(f"attn.{word}_pre"), parts[0].transpose(1, 2))
            recorder.put(self.at(f"attn.{word}"), parts[1].transpose(1, 2))
            if whole is not None and word == "q" and not torch.equal(parts[1], whole):
                recorder.put(self.at("attn.q_in"), whole.transpose(1, 2))
        elif projected is not None and projected.shape[-1] % heads == 0:
            plain = projected.unflatten(-1, (heads, -1))
            recorder.put(self.at(f"attn.{word}"), plain)
            given = None if whole is None else whole.transpose(1, 2)
            if self.rotates and given is not None and torch.equal(given, plain):
                recorder.put(self.at(f"attn.{word}_pre"), plain)  # a layer that passes over the rotation
            if word == "q" and given is not None and given.shape == plain.shape and not torch.equal(given, plain):
                recorder.put(self.at("attn.q_in"), given)
        elif whole is not None:
            recorder.put(self.at(f"attn.{word}"), whole.transpose(1, 2))

    def _block_out(self, index: int, out: Any) -> None:
        state = out[0] if isinstance(out, tuple) else out
        if isinstance(state, torch.Tensor) and state.dim() == 3:
            self.recorder.put(f"layers.{index}.out", state)

    def _final(self, state: torch.Tensor) -> None:
        """What enters the head; generate() keeps the last token alone, which is no whole tensor."""
        if state.dim() == 3 and tuple(state.shape[:2]) == self._batch():
            self.recorder.put("final_norm.out", state)

    def _logits(self, out: Any) -> None:
        logits = getattr(out, "logits", None)
        if isinstance(logits, torch.Tensor) and logits.dim() == 3:
            self.recorder.put("logits", logits)


def _by_head(tensor: torch.Tensor, tokens: int) -> torch.Tensor:
    """[B, heads, T, width]; some models rotate [B, T, heads, width]."""
    if tensor.shape[1] == tokens and tensor.shape[2] != tokens:
        return tensor.transpose(1, 2)
    return tensor


def _of_word(
    word: str, pairs: list[tuple[torch.Tensor, torch.Tensor]], given: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Whole heads of q or k before and after: the pair whose result attention was given, as a whole or in part."""
    for before, after in pairs:
        whole = _whole_heads(before, after, given)
        if whole is not None:
            return whole
    # a norm or a temperature came between: the first rotated is q, the second k
    index = "qk".index(word)
    if len(pairs) == 2 and (given is None or pairs[index][0].shape == given.shape):
        return pairs[index]
    return None


def _whole_heads(
    before: torch.Tensor, after: torch.Tensor, given: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor] | None:
    if given is None or given.shape[:3] != before.shape[:3]:
        return None
    width = before.shape[-1]
    for start in (0, given.shape[-1] - width):
        if torch.equal(given[..., start : start + width], after):
            whole = given.clone()
            whole[..., start : start + width] = before
            return whole, given.clone()
    return None


@contextmanager
def trace(model: nn.Module) -> Iterator[Recorder]:
    """Records every forward pass of `model` inside the context: the first one, then step.1/, step.2/, ...

    >>> with trace(model) as recorded:
    ...     model(input_ids=ids)
    >>> recorded.save("run.safetensors")
    """
    import transformers

    recorder = Recorder(model, f"transformers {transformers.__version__}")
    session = _Session(recorder)
    with session.stack, torch.no_grad():
        session.install()
        yield recorder
