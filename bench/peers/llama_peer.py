#!/usr/bin/env python3
"""llama.cpp as a peer of bench_locant (protocol.py), for whole models in GGUF files, through llama-cpp-python's
declarations of its C interface."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import answers
from protocol import QUICK, TARGET, THREADS, Missing, Request, Rows, Variant, serve

SPARE = 64  # tokens generated before the cache is cut back
llama: Any = None
silent: Any = None


class Model:
    def __init__(self, path: str, slots: int, rows: int) -> None:
        settings = llama.llama_model_default_params()
        settings.n_gpu_layers = 0
        self.model = llama.llama_model_load_from_file(path.encode(), settings)
        if not self.model:
            raise ValueError(f"llama.cpp does not load {Path(path).name}")
        options = llama.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = slots * rows, max(slots, rows), 512
        options.n_seq_max, options.n_threads, options.n_threads_batch = rows, THREADS, THREADS
        options.no_perf = True
        self.context = llama.llama_init_from_model(self.model, options)
        self.memory = llama.llama_get_memory(self.context)
        self.vocab = llama.llama_n_vocab(llama.llama_model_get_vocab(self.model))

    def close(self) -> None:
        llama.llama_free(self.context)
        llama.llama_model_free(self.model)

    def __del__(self) -> None:
        self.close()

    def ids(self, count: int) -> list[int]:
        return [4 + i * 7 % (self.vocab - 4) for i in range(count)]

    def batch(self, tokens: list[list[int]], start: int) -> Any:
        """tokens[row]; logits of the last of each row."""
        made = llama.llama_batch_init(sum(map(len, tokens)), 0, 1)
        at = 0
        for row, ids in enumerate(tokens):
            for position, token in enumerate(ids):
                made.token[at], made.pos[at], made.n_seq_id[at] = token, start + position, 1
                made.seq_id[at][0], made.logits[at] = row, position + 1 == len(ids)
                at += 1
        made.n_tokens = at
        return made

    def decode(self, batch: Any) -> None:
        if llama.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")


def error_of(net: Model, path: str, tokens: int) -> float:
    """Of the logits behind the prompt that was just decoded, where transformers reads the file too."""
    if QUICK or importlib.util.find_spec("transformers") is None:
        return -1
    try:
        want = answers.logits_of(path, tuple(net.ids(tokens)))
    except (ImportError, ValueError, OSError):  # it reads other files, or lacks what it reads GGUF with
        return -1
    got = np.ctypeslib.as_array(llama.llama_get_logits_ith(net.context, -1), (net.vocab,))
    return answers.deviation(got, want)


def model(r: Request) -> Iterator[Variant]:
    path = str(r.get("gguf", r["path"]))
    if not path.endswith(".gguf"):
        return
    what, tokens, rows = r["what"], int(r["tokens"]), int(r.get("rows", r.get("batch", 1)) or 1)
    wide = bool(TARGET)
    if what == "load":
        yield Variant(lambda: Model(path, tokens, 1).vocab, "llama.cpp", wide=wide)
        return
    if what == "first":

        def first() -> None:
            fresh = Model(path, tokens, 1)
            fresh.decode(fresh.batch([fresh.ids(1)], 0))

        yield Variant(first, "llama.cpp", wide=wide)
        return
    net = Model(path, tokens + SPARE, rows)
    whole = net.batch([net.ids(tokens)], 0)
    if what == "prompt":

        def prompt() -> None:
            llama.llama_memory_clear(net.memory, True)
            net.decode(whole)

        def check(_: Any) -> float:
            return error_of(net, path, tokens)

        yield Variant(prompt, "llama.cpp", check, "error against transformers", wide)
        return
    net.decode(net.batch([net.ids(tokens - 1)], 0))  # the context before the token, of one row,
    for row in range(1, rows):  # and the same of the others
        llama.llama_memory_seq_cp(net.memory, 0, row, -1, -1)
    steps = [net.batch([[net.ids(tokens)[-1]]] * rows, tokens - 1 + i) for i in range(SPARE)]
    state = {"next": 0}

    def token() -> None:
        if state["next"] == SPARE:
            for row in range(rows):
                llama.llama_memory_seq_rm(net.memory, row, tokens - 1, -1)
            state["next"] = 0
        net.decode(steps[state["next"]])
        state["next"] += 1

    yield Variant(token, "llama.cpp", wide=wide)


def start() -> tuple[str, Rows]:
    global llama, silent
    try:
        import llama_cpp as llama
    except ImportError as error:
        raise Missing("llama_cpp (llama-cpp-python) is not installed") from error
    silent = llama.llama_log_callback(lambda level, text, data: None)
    llama.llama_log_set(silent, ctypes.c_void_p(0))
    llama.llama_backend_init()
    return f"llama.cpp of llama-cpp-python {llama.__version__}", {"model": model}


if __name__ == "__main__":
    serve(start)
