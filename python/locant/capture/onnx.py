# SPDX-License-Identifier: Apache-2.0
"""Records an ONNX model under onnxruntime as a trace.

Tensors inside the graph become outputs of it; graph optimisation is off, so that what is recorded is what the file
says. They are found by operator and by pattern: RotaryEmbedding of both domains, GroupQueryAttention, Attention, and
what exporters write out (x * cos + turned(x) * sin; MatMul, Softmax, MatMul). Weights outside the file stay there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import external_data_helper

from locant.capture.onnx_attention import Attention, Heads, attentions
from locant.capture.onnx_graph import RESHAPED, Graph
from locant.capture.onnx_rotations import Rotation
from locant.capture.onnx_states import states
from locant.capture.recorder import Recorder, Rows, dtype_named, prompt

Array = NDArray[Any]
PAST = re.compile(r"past[\w.]*?[._](\d+)[._](?:decoder[._])?(key|value)s?")
PRESENT = re.compile(r"present[\w.]*?[._](\d+)[._](?:decoder[._])?(key|value)s?")
ELEMENTS: dict[int, Any] = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}
FED = {"input_ids", "attention_mask", "position_ids", "token_type_ids", "use_cache_branch", "decoder_input_ids"}


class Session:
    """A model that is open to be run and recorded: each run is a pass.

    >>> session = Session("model.onnx")
    >>> outputs = session.run({"input_ids": ids, "attention_mask": mask})
    >>> session.recorder.save("run.safetensors")
    """

    def __init__(self, path: str | Path) -> None:
        """ValueError where a file is no model or has no decoder's input."""
        path = Path(path)
        model = onnx.load(str(path), load_external_data=False)
        self.graph = Graph(model, path.parent)
        if "input_ids" not in self.graph.inputs:
            raise ValueError(
                f"onnx: a model to trace takes input_ids, {path.name} takes {', '.join(self.graph.inputs)}"
            )
        self.layers = attentions(self.graph)
        self.states = states(self.graph, self.layers)
        self.recorder = Recorder(f"onnxruntime {onnxruntime.__version__}", path.name)
        self._taps: dict[str, list[tuple[str, Callable[[Array], Array | None]]]] = {}
        self._shape, self._width = (0, 0), 0  # [B,T] of the pass that runs, and its slots
        self._values: dict[str, Array] = {}
        self._find()
        self._expose(model)
        self._session = _opened(model, path)

    # -- what to read

    def _tap(self, name: str, canonical: str, convert: Callable[[Array], Array | None]) -> None:
        if name:
            self._taps.setdefault(name, []).append((canonical, convert))

    def _find(self) -> None:
        found = self.states
        for name, canonical in ((found.tokens, "embed.tokens"), (found.positions, "embed.positions"),
                                (found.types, "embed.types"), (found.entry, "embed.out"),
                                (found.final, "final_norm.out"), (found.logits, "logits")):  # fmt: skip
            self._tap(name, canonical, self._state)
        for layer, name in found.outs.items():
            self._tap(name, f"layers.{layer}.out", self._state)
        for layer, name in found.branches.items():
            self._tap(name, f"layers.{layer}.attn.out", self._state)
        tables = []
        for one in self.layers:
            self._find_attention(one)
            if one.rotation is not None and (one.rotation.cos, one.rotation.sin) not in tables:
                tables.append((one.rotation.cos, one.rotation.sin))
                self._find_tables(one.rotation, first=len(tables) == 1)
        if len(tables) > 1:
            self.recorder.left_out.append(f"rope: there are {len(tables)} pairs of tables; the first is recorded")
        self._tap(found.indices, "position_ids", self._integers)
        for name in self.graph.outputs:
            match = PRESENT.fullmatch(name)
            if match is not None:
                word = "k" if match[2] == "key" else "v"
                self._tap(name, f"layers.{match[1]}.cache.{word}", lambda x: x.transpose(0, 2, 1, 3))
        if not self.layers:
            self.recorder.left_out.append("attention: none of the patterns and operators that are known")

    def _find_attention(self, one: Attention) -> None:
        at = f"layers.{one.layer}.attn"
        for word, heads in (("q_pre", one.q_pre), ("k_pre", one.k_pre), ("q", one.q), ("k", one.k), ("v", one.v),
                            ("q_in", one.q_in)):  # fmt: skip
            if heads is not None:
                self._tap(heads.name, f"{at}.{word}", lambda x, heads=heads: self._heads(x, heads))  # type: ignore[misc]
            elif not one.packed and not (one.rotated_inside and word in ("q", "k")) and word in ("q", "k", "v"):
                self.recorder.left_out.append(f"{at}.{word}: not found in front of {one.node.name or one.scores}")
        if one.packed:
            self._find_packed(at, one)
        if one.rotated_inside:
            self.recorder.left_out.append(f"{at}.q: turned inside {one.node.name}, which does not give it out")
            if one.present is not None:
                self._tap(one.present[0], f"{at}.k", lambda x: x.transpose(0, 2, 1, 3)[:, -self._shape[1] :])
        if one.present is not None:
            for name, word in zip(one.present, "kv", strict=True):
                self._tap(name, f"layers.{one.layer}.cache.{word}", lambda x: x.transpose(0, 2, 1, 3))
        grouped = one.node.op_type == "GroupQueryAttention"
        self._tap(one.scores, f"{at}.scores", self._causal_scores if grouped else self._scores)
        self._tap(one.probs, f"{at}.probs", self._scores)

    def _find_packed(self, at: str, one: Attention) -> None:
        assert one.packed is not None
        name, heads, kv_heads = one.packed
        words = ("q_pre", "k_pre", "v") if one.rotated_inside else ("q", "k", "v")

        def part(x: Array, first: int, count: int) -> Array:
            cut: Array = x.reshape(*x.shape[:2], heads + 2 * kv_heads, -1)[:, :, first : first + count]
            return cut

        for word, first, count in zip(words, (0, heads, heads + kv_heads), (heads, kv_heads, kv_heads), strict=True):
            self._tap(name, f"{at}.{word}", lambda x, first=first, count=count: part(x, first, count))  # type: ignore[misc]

    def _find_tables(self, one: Rotation, *, first: bool) -> None:
        if one.positions:
            self._tap(one.positions, "position_ids", self._integers)
        else:
            for name, node in self.graph.ancestors(one.cos, 24):
                if node.op_type == "Gather" and self.graph.is_weight(node.input[0]):
                    self._tap(node.input[1], "position_ids", self._integers)
                elif node.op_type == "Cast" and self.graph.back(name, RESHAPED) != "input_ids":
                    self._tap(node.input[0], "position_ids", self._integers)
        if not first:
            return
        for name, word in ((one.cos, "cos"), (one.sin, "sin")):
            if self.graph.constant(name) is None:
                self._tap(name, f"rope.{word}", self._table)

    def _expose(self, model: Any) -> None:
        there = {one.name for one in model.graph.output} | set(self.graph.inputs)
        self._taps = {name: taps for name, taps in self._taps.items() if self.graph.constant(name) is None}
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self._taps if name not in there)

    # -- from the graph's layouts to those of a trace; None where a tensor is not what it was taken for

    def _state(self, x: Array) -> Array | None:
        rows, tokens = self._shape
        if x.ndim < 2 or x.dtype.kind != "f":
            return None
        if x.ndim == 3 and x.shape[1] == 1 and tokens > 1 and x.shape[0] == rows:
            return x  # logits of the last token
        whole = x.reshape(-1, tokens, x.shape[-1]) if x.size % (tokens * x.shape[-1]) == 0 else None
        if whole is None or whole.shape[0] not in (1, rows):
            return None
        return np.broadcast_to(whole, (rows, *whole.shape[1:]))

    def _integers(self, x: Array) -> Array | None:
        rows, tokens = self._shape
        if x.dtype.kind != "i":
            return None
        if x.size == 1 and tokens > 1:  # an offset of all
            x = x.reshape(1, 1) + np.arange(tokens)
        if x.size % tokens or x.size // tokens not in (1, rows):
            return None
        return np.broadcast_to(x.reshape(-1, tokens), (rows, tokens)).astype(np.int64)

    def _heads(self, x: Array, heads: Heads) -> Array | None:
        rows, tokens = self._shape
        if x.ndim == 3:
            count = self._values[heads.like].shape[2] if heads.like else heads.heads or self._count(x)
            return x.reshape(*x.shape[:2], count, -1) if count and x.shape[:2] == (rows, tokens) else None
        if x.ndim != 4:
            return None
        if heads.layout == "bthd" or (not heads.layout and x.shape[1] == tokens and x.shape[2] != tokens):
            return x if x.shape[1] == tokens else None
        return x.transpose(0, 2, 1, 3) if x.shape[2] == tokens else None

    def _count(self, x: Array) -> int:
        """Heads of a tensor whose operator does not say: whole ones are twice as wide as the tables."""
        for one in self.layers:
            table = self.graph.constant(one.rotation.cos) if one.rotation else None
            if table is not None and x.shape[-1] % (2 * table.shape[-1]) == 0:
                return int(x.shape[-1] // (2 * table.shape[-1]))
        return 0

    def _scores(self, x: Array) -> Array | None:
        rows, tokens = self._shape
        if x.ndim < 3 or x.shape[-2] != tokens:
            return None
        whole = x.reshape(rows, -1, *x.shape[-2:])
        return whole[..., : self._width] if whole.shape[-1] > self._width else whole

    def _causal_scores(self, x: Array) -> Array | None:
        """The operator leaves 0 where it does not look: -inf in a trace."""
        whole = self._scores(x)
        if whole is None:
            return None
        tokens, slots = whole.shape[-2:]
        later = np.arange(slots) > np.arange(slots - tokens, slots)[:, None]
        return np.where(later & (whole == 0), -np.inf, whole).astype(whole.dtype)

    def _table(self, x: Array) -> Array | None:
        rows, tokens = self._shape
        if x.ndim == 4 and 1 in x.shape[1:3]:
            x = x.squeeze(1 if x.shape[1] == 1 else 2)
        if x.shape[-2] != tokens or x.ndim not in (2, 3):
            return None
        return x if x.ndim == 2 else np.broadcast_to(x, (rows, *x.shape[1:]))

    # -- running

    @property
    def past(self) -> list[str]:
        """The inputs that hold what came before."""
        return [name for name in self.graph.inputs if PAST.fullmatch(name)]

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Runs and records one pass; gives the model's own outputs. feed: every input that the model takes."""
        recorder = self.recorder
        recorder.step += 1
        given = {name: feed[name] for name in feed if name in self.graph.inputs}
        rows, tokens = (int(n) for n in given["input_ids"].shape)
        self._shape = (rows, tokens)
        recorder.put("input_ids", given["input_ids"].astype(np.int64), "input_ids")
        mask = given.get("attention_mask")
        if mask is not None and mask.ndim == 2:
            recorder.put("attention_mask", mask.astype(np.int64), "attention_mask")
        self._width = tokens + max((given[name].shape[2] for name in self.past), default=0)
        names = [*dict.fromkeys([*self.graph.outputs, *self._taps])]
        names = [name for name in names if name not in self.graph.inputs]
        values = dict(zip(names, self._session.run(names, given), strict=True)) | given
        self._values = values
        for name, taps in self._taps.items():
            for canonical, convert in taps:
                value = convert(values[name]) if name in values else None
                if value is not None:
                    recorder.put(canonical, np.ascontiguousarray(value), name)
        if recorder.get("position_ids") is None and "position_ids" in given:
            recorder.put("position_ids", given["position_ids"].astype(np.int64), "position_ids")
        self._rows_of_tables()
        self._values = {}
        state = recorder.get("embed.out")
        recorder.dtype = dtype_named(state.dtype) if state is not None else recorder.dtype
        return {name: values[name] for name in self.graph.outputs}

    def _rows_of_tables(self) -> None:
        """The rows that a rotation took from its tables, where these stand in the file."""
        one = next((layer.rotation for layer in self.layers if layer.rotation is not None), None)
        positions = self.recorder.get("position_ids")
        if one is None or positions is None:
            return
        for name, word in ((one.cos, "cos"), (one.sin, "sin")):
            table = self.graph.constant(name)
            if table is not None and table.ndim == 2 and positions.max() < len(table):
                self.recorder.put(f"rope.{word}", table[positions], name)


def _opened(model: Any, path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    if any(external_data_helper.uses_external_data(one) for one in model.graph.initializer):
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _empty(info: Any, rows: int) -> Array:
    """What a past holds before the first token."""
    kind = info.type.tensor_type
    if kind.elem_type not in ELEMENTS or len(kind.shape.dim) != 4:
        raise ValueError(f"onnx: a past is [batch, heads, length, width] in f32, f16 or f64, {info.name} is another")
    extents = [dim.dim_value for dim in kind.shape.dim]
    return np.zeros((rows, extents[1], 0, extents[3]), ELEMENTS[kind.elem_type])


def record_rows(
    path: str | Path, rows: Rows | Array, *, steps: int = 0, pad: str = "left", stack: str = ""
) -> Recorder:
    """Records a prompt of rows, filled up on one side, and greedy decode steps behind it. stack: "encoder" for a model
    whose tokens all see each other, which no graph says.

    ValueError where the model has inputs that are not known, or no past for decode steps.
    """
    given, session = prompt("onnx", rows, pad), Session(path)
    session.recorder.stack = stack
    inputs, past = session.graph.inputs, session.past
    unknown = [
        name for name in inputs if name not in FED and name not in past and name not in session.graph.initializers
    ]
    if unknown:
        raise ValueError(f"onnx: inputs that Session.run() has to be given: {', '.join(unknown)}")
    if steps and not past:
        raise ValueError("onnx: decode steps need a graph that takes past key-values, this one has none")
    ids, mask, positions = given.ids, given.mask, given.positions
    held = {name: _empty(inputs[name], len(ids)) for name in past}
    last = given.ids.shape[1] - 1 - np.flip(given.mask, -1).argmax(-1)
    for step in range(steps + 1):
        feed = {"input_ids": ids, "attention_mask": mask, "position_ids": positions,
                "token_type_ids": np.zeros_like(ids), "use_cache_branch": np.array([step > 0]), **held}  # fmt: skip
        outputs = session.run({name: _as(inputs[name], value) for name, value in feed.items() if name in inputs})
        if step == steps:
            break
        presents = {match.groups(): value for name, value in outputs.items() if (match := PRESENT.fullmatch(name))}
        held = {name: presents[match.groups()] for name in past if (match := PAST.fullmatch(name))}
        place = last if step == 0 else np.zeros(len(ids), np.int64)
        ids = outputs["logits"][np.arange(len(ids)), place].argmax(-1)[:, None].astype(np.int64)
        mask = np.concatenate([mask, np.ones((len(ids), 1), np.int64)], 1)
        positions = np.maximum(mask.cumsum(-1) - 1, 0)[:, -1:]
    return session.recorder


def _as(info: Any, value: Array) -> Array:
    kind = ELEMENTS.get(info.type.tensor_type.elem_type)
    return value if kind is None else value.astype(kind)


def record(job: Any) -> None:
    """Writes the trace that `locant trace --runtime onnx` asks for: see locant.host.RecordJob."""
    record_rows(job.model, job.ids, steps=job.steps, pad=job.pad).save(job.output)
