#!/usr/bin/env python3
"""PyTorch and transformers as a peer of bench_locant: one JSON request a line on stdin, one answer a line on stdout.

{"hello": true} -> {"name": ...}; {"op": ...} prepares a row -> {"ok": true}; {"slice": seconds} -> {"ns": best call}.
Outputs are allocated beforehand wherever the call takes one. usage: torch_peer.py THREADS
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers

Call = Callable[[], object]
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def lookup(r: dict[str, Any]) -> Call:
    table = torch.rand(r["vocab"], r["width"])
    ids = torch.randint(0, r["vocab"], (r["tokens"],))
    out = torch.empty(r["tokens"], r["width"])
    return lambda: torch.index_select(table, 0, ids, out=out)


def rotation(r: dict[str, Any]) -> Call:
    from transformers.models.llama.modeling_llama import rotate_half

    x = torch.rand(1, r["heads"], r["tokens"], r["width"])
    angle = torch.arange(r["tokens"])[:, None] * 10000.0 ** (-torch.arange(0, r["width"], 2) / r["width"])
    cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
    return lambda: x * cos + rotate_half(x) * sin


def attention(r: dict[str, Any]) -> Call:
    q = torch.rand(1, r["heads"], r["tokens"], r["width"])
    k, v = (torch.rand(1, r["kv_heads"], r["slots"], r["width"]) for _ in range(2))
    if r["alibi"]:
        slope = 2.0 ** (-8 * torch.arange(1, r["heads"] + 1) / r["heads"])
        bias = slope[:, None, None] * (torch.arange(r["slots"]) - (r["slots"] - 1))
        future = torch.full((r["tokens"], r["slots"]), -math.inf).triu(r["slots"] - r["tokens"] + 1)
        mask = (bias + future)[None]
        return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    causal = r["tokens"] > 1
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)


def head(r: dict[str, Any]) -> Call:
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[r["dtype"]]
    x = torch.rand(r["tokens"], r["width"]).to(dtype)
    weight = torch.rand(r["vocab"], r["width"]).to(dtype).T
    out = torch.empty(r["tokens"], r["vocab"], dtype=dtype)
    return lambda: torch.matmul(x, weight, out=out)


def model(r: dict[str, Any]) -> Call:
    def load() -> Any:
        return transformers.AutoModelForCausalLM.from_pretrained(r["path"], dtype=torch.float32).eval()

    if r["what"] == "load":
        return load
    net = load()
    ids = torch.tensor([[4 + i * 7 % (net.config.vocab_size - 4) for i in range(r["tokens"])]])
    if r["what"] == "prompt":
        return lambda: net(ids, use_cache=True, logits_to_keep=1)
    state: dict[str, Any] = {}

    def token() -> object:
        if state.get("left", 0) == 0:
            state["cache"] = net(ids[:, :-1], use_cache=True).past_key_values
            state["left"] = 65
        state["left"] -= 1
        return net(ids[:, -1:], past_key_values=state["cache"], use_cache=True)

    return token


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]))
    rows: dict[str, Callable[[dict[str, Any]], Call]] = {
        "lookup": lookup,
        "rotation": rotation,
        "attention": attention,
        "head": head,
        "model": model,
    }
    call: Call | None = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {"ok": False}
        with torch.inference_mode():
            if "hello" in request:
                answer = {"name": f"transformers {transformers.__version__}, torch {torch.__version__}"}
            elif "slice" in request and call is not None:
                best, start = math.inf, time.perf_counter()
                while True:
                    before = time.perf_counter_ns()
                    call()
                    best = min(best, time.perf_counter_ns() - before)
                    if time.perf_counter() - start >= request["slice"]:
                        break
                answer = {"ns": best}
            elif request.get("op") in rows:
                call = rows[request["op"]](request)
                call()
                answer = {"ok": True}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
