# SPDX-License-Identifier: Apache-2.0
"""Records llama.cpp, through llama-cpp-python, as a trace.

The scheduler asks a callback about every tensor of its graph; wanted ones are copied as soon as they are computed.
Flash attention is off, so that scores exist, and the cache is f32. One name stands for several tensors (q before and
behind the rotation), so that the operator counts too. Each row runs alone, in a cache of its own.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from locant.capture.ggml import Tensor
from locant.capture.recorder import Prompt, Recorder, Rows, prompt

Array = NDArray[Any]
NAME = re.compile(r"(?P<base>[A-Za-z_]+?)(-(?P<layer>\d+))?( \(.*)?")
HEADS = {"Qcur": "q", "Kcur": "k", "Vcur": "v", "Qcur_normed": "q", "Kcur_normed": "k"}
STATES = {"attn_out": "attn.out", "l_out": "out"}
ENDS = {"result_norm": "final_norm.out", "result_output": "logits"}
ENTRY = ("embd", "inp_embd", "inp_scaled", "inpL", "inp_norm")  # what layer 0 takes is the last of them
TABLE = ("pos_embd",)


class _Pass:
    """What one llama_decode of one row computes: canonical name -> array with B = 1."""

    def __init__(self, tokens: int, width: int) -> None:
        self.tokens, self.width = tokens, width
        self.found: dict[str, Array] = {}
        self.names: dict[str, str] = {}
        self.copies: dict[int, Array] = {}  # address -> heads of the layer that runs, for the rotation's input
        self.scores: Array | None = None
        self.left_out: set[str] = set()
        self.error: Exception | None = None

    def put(self, name: str, value: Array, source: str, *, last: bool = False) -> None:
        if last or name not in self.found:
            self.found[name] = value
            self.names[name] = source

    # -- which are wanted

    def wants(self, tensor: Tensor) -> bool:
        base, layer = _parts(tensor.name)
        if base not in HEADS and tensor.op == "ROPE":
            self.left_out.add(f"{base}-N (ROPE): a rotation of what is not a whole head")
        if layer is None:
            return base in ENTRY or base in TABLE or base in ENDS
        # a view or a reshaped copy carries its source's name and a word behind it
        return (base in HEADS and " " not in tensor.name) or base in STATES or base.startswith("kq")

    def take(self, tensor: Tensor) -> None:
        base, layer = _parts(tensor.name)
        if layer is None:
            self._outside(base, tensor)
        elif base in HEADS:
            self._heads(f"layers.{layer}.attn.{HEADS[base]}", tensor)
        elif base in STATES:
            self.put(f"layers.{layer}.{STATES[base]}", self._state(tensor), tensor.name)
        elif base == "kqv" and tensor.op == "MUL_MAT":
            values = tensor.sources[0].values()  # [1, kv_heads, width, cells]
            self.put(f"layers.{layer}.cache.v", values.transpose(0, 3, 1, 2)[:, : self.width], tensor.sources[0].name)
            self._as_heads(f"layers.{layer}.attn.v", values.shape[1:3])
        elif base.startswith("kq") and not base.startswith("kqv"):
            self._product(f"layers.{layer}", tensor)

    # -- what they are

    def _state(self, tensor: Tensor) -> Array:
        return tensor.values().reshape(1, -1, tensor.shape[-1])

    def _outside(self, base: str, tensor: Tensor) -> None:
        if base in ENDS:
            self.put(ENDS[base], self._state(tensor), tensor.name)
        elif base in TABLE:
            self.put("embed.positions", self._state(tensor), tensor.name)
            if tensor.op == "GET_ROWS":
                self._positions(tensor.sources[1])
        else:
            if tensor.op == "GET_ROWS":
                self.put("embed.tokens", self._state(tensor), tensor.name)
            self.put("embed.out", self._state(tensor), tensor.name, last=True)

    def _positions(self, tensor: Tensor) -> None:
        values = tensor.values().astype(np.int64).reshape(-1, self.tokens)  # text has one axis, M-RoPE four
        self.put("position_ids", values if len(values) == 1 else values[:3, None], tensor.name)

    def _heads(self, name: str, tensor: Tensor) -> None:
        if tensor.op == "ROPE":
            before = self.copies.get(tensor.sources[0].address)
            if before is not None:
                self.put(f"{name}_pre", before, tensor.sources[0].name)
            self.put(name, tensor.values(), f"{tensor.name} (ROPE)", last=True)
            self._positions(tensor.sources[1])
            return
        if tensor.shape[1] != self.tokens or tensor.shape[0] != 1:
            return  # the projection, before it is cut into heads; of one token it looks the same
        values = tensor.values()
        self.copies[tensor.address] = values
        self.put(name, values, tensor.name, last=True)

    def _as_heads(self, name: str, heads: tuple[int, ...]) -> None:
        known = self.found.get(name)
        if known is not None and known.shape[2:] != heads and known[0, 0].size == heads[0] * heads[1]:
            self.found[name] = known.reshape(1, self.tokens, *heads)

    def _product(self, layer: str, tensor: Tensor) -> None:
        """Scores on their way: the product of q and k, what a softcap or a bias makes of it, the softmax."""
        if tensor.op == "MUL_MAT":
            keys, query = tensor.sources[0], tensor.sources[1]
            self.put(f"{layer}.cache.k", keys.values().transpose(0, 2, 1, 3)[:, : self.width], keys.name)
            taken = query.values().transpose(0, 2, 1, 3)
            for word, heads in (("q", taken.shape[2:]), ("k", (keys.shape[1], keys.shape[3]))):
                self._as_heads(f"{layer}.attn.{word}", heads)
            known = self.found.get(f"{layer}.attn.q")
            if known is None:
                self.put(f"{layer}.attn.q", taken, query.name)
            elif not np.array_equal(known, taken):
                self.put(f"{layer}.attn.q_in", taken, query.name)
        if tensor.op != "SOFT_MAX":
            self.scores = tensor.values()
            return
        mask = tensor.sources[1].values()[..., : self.tokens, : self.width].astype(np.float32)
        slopes = _slopes(tensor.number(1), tensor.shape[1])
        scores = self.scores
        self.scores, self.copies = None, {}
        self.put(f"{layer}.attn.probs", tensor.values()[..., : self.width], tensor.name)
        if scores is None or scores.shape != tensor.shape:
            return
        bias = mask * slopes[:, None, None]
        scaled = scores[..., : self.width] * np.float32(tensor.number(0))
        self.put(f"{layer}.attn.scores", scaled + bias, tensor.sources[0].name)
        if tensor.number(1) > 0:
            seen = np.where(np.isfinite(bias), bias, np.float32(0))
            self.put(f"{layer}.attn.bias", seen, tensor.sources[1].name)


def _parts(name: str) -> tuple[str, int | None]:
    """ "Kcur-3 (view)" -> "Kcur", 3. A view of another tensor is that tensor's."""
    match = NAME.fullmatch(name)
    if match is None:
        return name, None
    layer = match["layer"]
    return match["base"], None if layer is None else int(layer)


def _slopes(max_bias: float, heads: int) -> NDArray[np.float32]:
    """What the softmax multiplies its mask by: 1 without ALiBi."""
    if max_bias <= 0:
        return np.ones(heads, np.float32)
    power = 1 << (heads.bit_length() - 1)
    first, second = 2.0 ** (-max_bias / power), 2.0 ** (-max_bias / 2 / power)
    return np.array([first ** (h + 1) if h < power else second ** (2 * (h - power) + 1) for h in range(heads)],
                    np.float32)  # fmt: skip


class _Context:
    """A model that is open, and the pass that its callback fills."""

    def __init__(self, model: Any, capacity: int, settings: dict[str, Any]) -> None:
        self.running: _Pass | None = None
        self._callback = llama_cpp.ggml_backend_sched_eval_callback(self._asked)
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = capacity
        options.type_k = options.type_v = llama_cpp.GGML_TYPE_F32
        options.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        options.swa_full = True
        options.cb_eval = self._callback
        for name, value in settings.items():
            if not hasattr(options, name):
                raise ValueError(f"llama.cpp: a setting is a field of llama_context_params, got {name}")
            setattr(options, name, value)
        self.handle = llama_cpp.llama_init_from_model(model, options)
        if not self.handle:
            raise ValueError(f"llama.cpp: a context of {capacity} tokens could not be made")

    def _asked(self, address: int, ask: bool, _data: Any) -> bool:
        running, tensor = self.running, Tensor(address)
        if running is None or running.error is not None:
            return not ask
        if ask:
            return running.wants(tensor)
        try:
            running.take(tensor)
        except Exception as error:  # an exception cannot pass through the library
            running.error = error
        return True

    def forward(self, ids: list[int], start: int) -> _Pass:
        self.running = _Pass(len(ids), start + len(ids))
        batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for t, token in enumerate(ids):
            batch.token[t], batch.pos[t], batch.n_seq_id[t], batch.logits[t] = token, start + t, 1, 1
            batch.seq_id[t][0] = 0
        try:
            status = llama_cpp.llama_decode(self.handle, batch)
        finally:
            llama_cpp.llama_batch_free(batch)
        done, self.running = self.running, None
        if done.error is not None:
            raise done.error
        if status != 0:
            raise ValueError(f"llama.cpp: llama_decode of {len(ids)} tokens at {start} failed with {status}")
        return done

    def row(self, ids: list[int], steps: int) -> list[_Pass]:
        """The prompt, then greedy tokens one by one."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.handle), True)
        passes, given, start = [], ids, 0
        for step in range(steps + 1):
            done = self.forward(given, start)
            done.found["input_ids"] = np.array([given], np.int64)
            passes.append(done)
            if step == steps:
                break
            if "logits" not in done.found:
                raise ValueError("llama.cpp: decode steps need a model that gives logits, this one gives none")
            start += len(given)
            given = [int(done.found["logits"][0, -1].argmax())]
        return passes


@contextmanager
def _opened(path: Path, capacity: int, settings: dict[str, Any]) -> Iterator[_Context]:
    quiet = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
    try:
        if not model:
            raise ValueError(f"llama.cpp: {path} must be a file that it loads, this one it refuses")
        context = _Context(model, capacity, settings)
        try:
            yield context
        finally:
            llama_cpp.llama_free(context.handle)
    finally:
        if model:
            llama_cpp.llama_model_free(model)
        llama_cpp.llama_log_set(llama_cpp.llama_log_callback(), ctypes.c_void_p(0))


def record_rows(
    path: str | Path, rows: Rows | Array, *, steps: int = 0, pad: str = "left", **settings: Any
) -> Recorder:
    """Records a prompt of rows and greedy decode steps behind it.

    settings: fields of llama_context_params, such as rope_freq_base. Uneven rows stand padded in the trace, their
    padding 0 (scores: -inf); in llama.cpp each ran alone. ValueError where the file or a setting is refused.
    """
    path = Path(path)
    given = prompt("llama.cpp", rows, pad)
    recorder = Recorder(f"llama.cpp (llama-cpp-python {llama_cpp.__version__})", path.name)
    capacity = int(settings.pop("n_ctx", -(-(given.ids.shape[1] + steps) // 256) * 256))
    with _opened(path, capacity, settings) as context:
        every = [
            context.row([int(one) for one in row[mask == 1]], steps)
            for row, mask in zip(given.ids, given.mask, strict=True)
        ]
    recorder.left_out += sorted(every[0][0].left_out)
    for step in range(steps + 1):
        recorder.step = step
        _joined(recorder, [passes[step] for passes in every], given, pad, step)
    return recorder


def _joined(recorder: Recorder, rows: list[_Pass], given: Prompt, pad: str, step: int) -> None:
    """One batch of the rows of a pass."""
    if given.uneven:
        ones = np.ones((len(rows), step), np.int64)
        recorder.put("attention_mask", np.concatenate([given.mask, ones], 1))
    tokens, width = max(row.tokens for row in rows), given.ids.shape[1] + step
    for name, first in rows[0].found.items():
        parts = [row.found[name] for row in rows]
        if given.uneven:
            parts = [_filled(name, part, tokens, width, given.ids.shape[1], pad) for part in parts]
        axis = 1 if name == "position_ids" and first.ndim == 3 else 0
        recorder.put(name, np.concatenate(parts, axis), rows[0].names.get(name, ""))


def _filled(name: str, part: Array, tokens: int, width: int, prompt_width: int, pad: str) -> Array:
    """Axes of tokens and of slots made as long as those of the longest row."""
    fill = -np.inf if name.endswith(".scores") else 0
    scored = name.endswith((".scores", ".probs", ".bias"))
    cached = ".cache." in name
    axes = {2: tokens, 3: width} if scored else {1: width if cached else tokens}
    if name == "position_ids":
        axes = {part.ndim - 1: tokens}
    for axis, length in axes.items():
        lacking = length - part.shape[axis]
        if lacking <= 0:
            continue
        # a gap on the right lies behind the prompt, before what decoding added
        split = 0 if pad == "left" else part.shape[axis] - (length - prompt_width if length == width else 0)
        before, after = np.split(part, [split], axis)
        shape = list(part.shape)
        shape[axis] = lacking
        part = np.concatenate([before, np.full(shape, fill, part.dtype), after], axis)
    return part


def record(job: Any) -> None:
    """Writes the trace that `locant trace --runtime llama.cpp` asks for: see locant.host.RecordJob."""
    record_rows(job.model, job.ids, steps=job.steps, pad=job.pad).save(job.output)
