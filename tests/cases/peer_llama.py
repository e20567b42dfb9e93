# SPDX-License-Identifier: Apache-2.0
"""Tiny GGUF files, run by llama.cpp with a cache in f32 and without flash attention."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import numpy as np

from peer_cases import Floats
from peer_probe import VOCABULARY, Probe

_QUIET = llama_cpp.llama_log_callback(lambda *_: None)


def write_gguf(path: Path, arch: str, probe: Probe, keys: dict[str, Any], tensors: Mapping[str, Floats | None]) -> None:
    """keys: "rope.freq_base" and so on, without the arch. tensors: more than those of the probe, others, or none."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name("probe")
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(VOCABULARY)
    writer.add_block_count(1)
    writer.add_context_length(131072)
    writer.add_embedding_length(probe.hidden)
    writer.add_feed_forward_length(32)
    writer.add_head_count(probe.heads)
    writer.add_head_count_kv(probe.heads)
    writer.add_key_length(probe.head_dim)
    writer.add_value_length(probe.head_dim)
    writer.add_layer_norm_rms_eps(1e-6)
    for key, value in {"rope.dimension_count": probe.rotary_dim or probe.head_dim, **keys}.items():
        name = f"{arch}.{key}"
        if isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        else:
            writer.add_float32(name, value)
    for name, values in {**probe_tensors(probe), **tensors}.items():
        if values is not None:
            writer.add_tensor(name, np.ascontiguousarray(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def probe_tensors(probe: Probe) -> dict[str, Floats | None]:
    ones, narrow = np.ones(probe.hidden, np.float32), np.zeros((32, probe.hidden), np.float32)
    return {
        "token_embd.weight": probe.embeddings(),
        "output_norm.weight": ones,
        "output.weight": probe.lm_head(),
        "blk.0.attn_norm.weight": ones,
        "blk.0.attn_q.weight": probe.query(),
        "blk.0.attn_k.weight": probe.key(),
        "blk.0.attn_v.weight": probe.value(),
        "blk.0.attn_output.weight": probe.output(),
        "blk.0.ffn_norm.weight": ones,
        "blk.0.ffn_gate.weight": narrow,
        "blk.0.ffn_up.weight": narrow,
        "blk.0.ffn_down.weight": narrow.T,
    }


class Opened:
    """A context over a file."""

    def __init__(self, model: Any, capacity: int, **settings: Any) -> None:
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
        self.hidden = llama_cpp.llama_model_n_embd(model)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = capacity, capacity, capacity
        params.n_threads = params.n_threads_batch = 1
        params.type_k = params.type_v = llama_cpp.GGML_TYPE_F32
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        for name, value in settings.items():
            setattr(params, name, value)
        self.handle = llama_cpp.llama_init_from_model(model, params)
        if not self.handle:
            raise SystemExit("llama_init_from_model failed")

    def forward(self, ids: list[int]) -> Floats:
        """Logits [T, V] of a text from its start."""
        self.clear()
        return self.decode(ids)

    def clear(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.handle), True)

    def decode(self, ids: list[int]) -> Floats:
        with _batch(ids) as batch:
            if llama_cpp.llama_decode(self.handle, batch) != 0:
                raise SystemExit("llama_decode failed")
            return _rows(llama_cpp.llama_get_logits(self.handle), len(ids), self.vocabulary)

    def encode(self, ids: list[int]) -> None:
        with _batch(ids) as batch:
            if llama_cpp.llama_encode(self.handle, batch) != 0:
                raise SystemExit("llama_encode failed")

    def states(self, ids: list[int]) -> Floats:
        """States [T, hidden] of an encoder in a context with embeddings and no pooling."""
        self.encode(ids)
        return _rows(llama_cpp.llama_get_embeddings(self.handle), len(ids), self.hidden)

    def translate(self, ids: list[int], answer: list[int]) -> Floats:
        """Logits [T, V] of a decoder's tokens beside an encoder that read ids."""
        self.encode(ids)
        return self.decode(answer)


@contextmanager
def _batch(ids: list[int]) -> Iterator[Any]:
    batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for t, token in enumerate(ids):
        batch.token[t], batch.pos[t], batch.n_seq_id[t], batch.logits[t] = token, t, 1, 1
        batch.seq_id[t][0] = 0
    try:
        yield batch
    finally:
        llama_cpp.llama_batch_free(batch)


def _rows(values: Any, rows: int, width: int) -> Floats:
    return np.ctypeslib.as_array(ctypes.cast(values, ctypes.POINTER(ctypes.c_float)), (rows, width)).copy()


@contextmanager
def opened(path: Path, capacity: int, **settings: Any) -> Iterator[Opened]:
    llama_cpp.llama_log_set(_QUIET, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
    if not model:
        raise SystemExit(f"llama.cpp does not load {path.name}")
    context = Opened(model, capacity, **settings)
    try:
        yield context
    finally:
        llama_cpp.llama_free(context.handle)
        llama_cpp.llama_model_free(model)
