#!/usr/bin/env python3
"""PyTorch and transformers as a peer of bench_locant (protocol.py). Outputs are allocated beforehand wherever the call
takes one; a name says where it does not."""

from __future__ import annotations

import functools
import importlib.util
import math
import warnings
from collections.abc import Iterator
from typing import Any

import torch

import answers
from protocol import QUICK, TARGET, THREADS, Call, Request, Rows, Variant, serve

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
LONG_PROMPT = 4096
QUICK_PRODUCTS = 2e11  # a context that takes more is a quarter of a minute
SPARE = 64  # tokens generated before the cache is cut back
MASK_BYTES = 1 << 30  # a bias tensor larger than this is made head by head
sdpa = torch.nn.functional.scaled_dot_product_attention


def wide(x: torch.Tensor) -> Any:
    return x.detach().to(torch.float32).numpy()


def lookup(r: Request) -> Iterator[Variant]:
    if r.get("dtype", "f32") not in DTYPES:
        return
    data = answers.lookup(r)
    table = torch.from_numpy(data.table).to(DTYPES[r.get("dtype", "f32")])
    ids, out = torch.from_numpy(data.ids), torch.empty(r["tokens"], r["width"], dtype=table.dtype)

    def run() -> object:
        return torch.index_select(table, 0, ids, out=out)

    note = "" if table.dtype == torch.float32 else f"writes {r['dtype']}"
    yield Variant(run, "torch", lambda _: data.error(wide(out), wide(table)), note)


def split(x: torch.Tensor, interleaved: bool) -> tuple[torch.Tensor, torch.Tensor]:
    half = x.shape[-1] // 2
    return (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])


def rotation(r: Request) -> Iterator[Variant]:
    if r.get("dtype", "f32") not in DTYPES:
        return
    data, dtype = answers.rotation(r), DTYPES[r.get("dtype", "f32")]
    original = torch.from_numpy(data.x).to(dtype)
    stored = wide(original)
    # tables in the type of x, as models keep them
    cos, sin = (torch.from_numpy(t)[:, None].to(dtype) for t in (data.cos, data.sin))
    full_cos, full_sin = (torch.cat((t, t), -1) for t in (cos, sin))
    x, room = original.clone(), torch.empty_like(split(original, False)[0])
    a, b = split(x, data.interleaved)

    def in_place() -> None:
        torch.mul(b, sin, out=room)
        b.mul_(cos).addcmul_(a, sin)
        a.mul_(cos).sub_(room)

    yield Variant(in_place, "torch in place", lambda _: data.error(wide(x), stored))

    if not data.interleaved:
        out = torch.empty_like(original)

        def rotate_half() -> torch.Tensor:
            first, second = split(original, False)
            torch.mul(original, full_cos, out=out)
            return out.addcmul_(torch.cat((-second, first), -1), full_sin)

        yield Variant(rotate_half, "torch rotate_half", lambda got: data.error(wide(got), stored))
    elif dtype == torch.float32:
        turns = torch.complex(cos, sin)
        z = torch.view_as_complex(original.clone().unflatten(-1, (-1, 2)))

        def turn() -> torch.Tensor:
            return z.mul_(turns)

        def check(got: torch.Tensor) -> float:
            return data.error(wide(torch.view_as_real(got).flatten(-2)), stored)

        yield Variant(turn, "torch complex in place", check)
    if not QUICK and r["tokens"] > 1:
        yield from compiled_rotation(data, original, cos, sin)


def compiled_rotation(
    data: answers.Rotation, original: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> Iterator[Variant]:
    def formula(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        a, b = split(x, data.interleaved)
        first, second = a * cos - b * sin, b * cos + a * sin
        return torch.stack((first, second), -1).flatten(-2) if data.interleaved else torch.cat((first, second), -1)

    torch._dynamo.reset()
    run = torch.compile(formula, dynamic=False)
    try:
        run(original, cos, sin)
    except Exception:  # no compiler here: torch's own reasons, and no row of a table
        return

    def check(got: torch.Tensor) -> float:
        return data.error(wide(got), wide(original))

    yield Variant(lambda: run(original, cos, sin), "torch.compile", check, "allocates")


def attention(r: Request) -> Iterator[Variant]:
    dtype = DTYPES.get(r.get("dtype", "f32"))
    if dtype is None:
        return
    data, heads, groups, tokens = answers.attention(r), r["heads"], r["kv_heads"], r["tokens"]
    # [1, heads, T, D], as models hold them
    q, k, v = (torch.from_numpy(x).to(dtype).transpose(0, 1).contiguous()[None] for x in (data.q, data.k, data.v))
    stored = [wide(x[0].transpose(0, 1)) for x in (q, k, v)]
    note = "" if dtype == torch.float32 else f"queries in {r['dtype']}"
    slots = r["slots"]
    slopes = None if data.slopes is None else torch.from_numpy(data.slopes)

    def checked(call: Call, name: str, note: str) -> Variant:
        def check(got: torch.Tensor) -> float:
            return data.error(wide(got.reshape(heads, tokens, -1).transpose(0, 1)), *stored)

        return Variant(call, name, check, note)

    if tokens == 1:
        # the heads of a group are the queries of one: exact, and up to four times as fast as enable_gqa
        rows = q.view(1, groups, heads // groups, -1)
        bias = None
        if slopes is not None:
            distance = torch.arange(slots) - (slots - 1)
            bias = (slopes[:, None] * distance).view(1, groups, heads // groups, slots).to(dtype)
        yield checked(lambda: sdpa(rows, k, v, attn_mask=bias), "torch, heads folded", note)
    elif slopes is None:
        yield checked(lambda: sdpa(q, k, v, is_causal=True, enable_gqa=True), "torch", note)
    else:
        flex = None if QUICK or slots != tokens else flexible(q, k, v, slopes.float())
        if flex is not None:
            yield checked(flex, "torch flex_attention", f"{note}{', ' * bool(note)}compiled")
        if tokens > LONG_PROMPT and (QUICK or flex is not None):
            return  # what follows is twice as slow and slower, and half a minute long
        distance = (torch.arange(slots) - torch.arange(slots - tokens, slots)[:, None]).to(torch.float32)
        distance.masked_fill_(distance > 0, -math.inf)
        if heads * tokens * slots * q.element_size() <= MASK_BYTES:
            mask = (slopes.float()[:, None, None] * distance)[None].to(dtype)
            yield checked(lambda: sdpa(q, k, v, attn_mask=mask, enable_gqa=True), "torch, bias tensor", note)
        else:
            distance = distance.to(dtype)
            yield checked(lambda: by_head(q, k, v, slopes, distance), "torch, bias by head", note)


def flexible(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slopes: torch.Tensor) -> Call | None:
    """The slope inside compiled attention, future blocks passed over."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def score(value: torch.Tensor, _: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
        return value + slopes[head] * (key - query)

    def causal(_: Any, __: Any, query: Any, key: Any) -> Any:
        return query >= key

    torch._dynamo.reset()
    try:
        blocks = create_block_mask(causal, None, None, q.shape[2], k.shape[2], device="cpu")
        run = torch.compile(flex_attention, dynamic=False)
        run(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=True)
    except Exception:  # no compiler here
        return None
    return lambda: run(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=True)


def by_head(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slopes: torch.Tensor, distance: torch.Tensor
) -> torch.Tensor:
    mask, out = torch.empty_like(distance), torch.empty_like(q)
    share = q.shape[1] // k.shape[1]
    for h in range(q.shape[1]):
        torch.mul(distance, float(slopes[h]), out=mask)
        g = slice(h // share, h // share + 1)
        out[:, h : h + 1] = sdpa(q[:, h : h + 1], k[:, g], v[:, g], attn_mask=mask)
    return out


def head(r: Request) -> Iterator[Variant]:
    data, name = answers.head(r), r["dtype"]
    if name in DTYPES:
        yield from float_head(data, name)
    elif name in ("int8", "i8", "q8_0"):
        yield from int8_head(data)
    elif name in ("int4", "q4_0"):
        yield from int4_head(data)


def float_head(data: answers.Head, name: str) -> Iterator[Variant]:
    dtype = DTYPES[name]
    x, weight = (torch.from_numpy(t).to(dtype) for t in (data.x, data.weight))
    rows, stored = wide(weight[data.at]), wide(x)
    out, turned = torch.empty(len(data.x), len(data.weight), dtype=dtype), weight.T
    note = "" if name == "f32" else f"answers in {name}"

    def check(got: torch.Tensor) -> float:
        return data.error(wide(got), rows, stored)

    yield Variant(lambda: torch.matmul(x, turned, out=out), "torch", check, note)
    run = packed(x, weight)
    if run is not None:
        yield Variant(run, "torch packed", check, f"{note}{', ' * bool(note)}allocates")


def packed(x: torch.Tensor, weight: torch.Tensor) -> Call | None:
    """The product with a weight in the layout that the library likes best, as torch.compile makes it."""
    mkldnn, mkl = torch.ops.mkldnn, getattr(torch.ops, "mkl", None)
    try:
        if x.dtype == torch.float32 and mkl is not None and torch.backends.mkl.is_available():
            ready = mkl._mkl_reorder_linear_weight(weight, len(x))
            return lambda: mkl._mkl_linear(x, ready, weight, None, len(x))
        ready = mkldnn._reorder_linear_weight(weight, len(x))
        return lambda: mkldnn._linear_pointwise(x, ready, None, "none", [], "")
    except (RuntimeError, AttributeError):
        return None


def int8_head(data: answers.Head) -> Iterator[Variant]:
    x, weight = torch.from_numpy(data.x), torch.from_numpy(data.weight)
    scales = weight.abs().amax(1).double() / 127
    quantised = torch.quantize_per_channel(weight, scales, torch.zeros_like(scales).long(), 0, torch.qint8)
    rows = quantised.dequantize()[data.at].numpy()
    for engine in ("onednn", "fbgemm"):
        if engine not in torch.backends.quantized.supported_engines:
            continue
        torch.backends.quantized.engine = engine
        ready = torch.ops.quantized.linear_prepack(quantised, None)

        def run(ready: Any = ready) -> Any:
            return torch.ops.quantized.linear_dynamic(x, ready)

        def check(got: torch.Tensor) -> float:
            return data.error(got.numpy(), rows)

        wide = bool(TARGET) and engine == "fbgemm"  # which has no switch
        yield Variant(run, f"torch int8 {engine}", check, "weights by row, allocates", wide)


def int4_head(data: answers.Head) -> Iterator[Variant]:
    x, weight = torch.from_numpy(data.x).bfloat16(), torch.from_numpy(data.weight)
    group = 32
    groups = weight.unflatten(1, (-1, group))
    scales = groups.abs().amax(-1) / 7.5
    q = (groups / scales[..., None] + 7.5).round().clamp(0, 15)
    rows = ((q - 8 + 0.5) * scales[..., None]).flatten(1)[data.at].numpy()
    ready = torch.ops.aten._convert_weight_to_int4pack_for_cpu(q.flatten(1).int(), 1)
    both = torch.stack((scales, scales / 2), -1).transpose(0, 1).contiguous().bfloat16()

    def run() -> Any:
        return torch.ops.aten._weight_int4pack_mm_for_cpu(x, ready, group, both)

    def check(got: torch.Tensor) -> float:
        return data.error(wide(got), rows, wide(x))

    yield Variant(run, "torch int4", check, "groups of 32, bf16 activations, allocates")


@functools.lru_cache(maxsize=1)
def loaded(path: str) -> Any:
    return answers.transformers_model(path)


def model(r: Request) -> Iterator[Variant]:
    path = str(r["path"])
    if path.endswith(".gguf") and importlib.util.find_spec("gguf") is None:
        return

    if r["what"] == "load":
        if path.endswith(".gguf"):  # it turns every block into f32: seconds, and another thing
            return
        yield Variant(lambda: answers.transformers_model(path), "transformers")
        return
    if r["what"] == "first":
        yield Variant(lambda: answers.transformers_model(path)(torch.tensor([[4]])), "transformers")
        return
    net, rows = loaded(path), int(r.get("rows", r.get("batch", 1)) or 1)
    ids = torch.tensor([[4 + i * 7 % (net.config.vocab_size - 4) for i in range(r["tokens"])]] * rows)
    if r["what"] == "prompt":
        yield Variant(lambda: net(ids, use_cache=True, logits_to_keep=1), "transformers")
        return
    before = r["tokens"] - 1
    if QUICK and before * net.num_parameters() > QUICK_PRODUCTS:
        return
    cache = net(ids[:1, :-1], use_cache=True, logits_to_keep=1).past_key_values
    cache.batch_repeat_interleave(rows)  # all of them have the same context

    def token() -> object:
        if cache.get_seq_length() == before + SPARE:
            cache.crop(-SPARE)
        return net(ids[:, -1:], past_key_values=cache, use_cache=True)

    yield Variant(token, "transformers")


def start() -> tuple[str, Rows]:
    torch.set_num_threads(THREADS)
    warnings.simplefilter("ignore")
    if TARGET:  # for what it compiles; the environment holds the rest
        torch._inductor.config.cpp.simdlen = 256 if TARGET == "AVX2" else 1
    name = f"torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"
    try:
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        name += f", transformers {transformers.__version__}"
    except ImportError:
        return name, {"lookup": lookup, "rotation": rotation, "attention": attention, "head": head}
    return name, {"lookup": lookup, "rotation": rotation, "attention": attention, "head": head, "model": model}


if __name__ == "__main__":
    serve(start, around=torch.inference_mode)
