# SPDX-License-Identifier: Apache-2.0
"""Operations on numpy and torch arrays: equal to the formulas, without a copy, with sentences for what cannot be."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
import torch

import locant
from budgets import budget
from locant import ops

RNG = np.random.default_rng(5)
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def rotation_of(**parameters: float) -> locant.Rotation:
    rotation = locant.PositionSpec("rope", parameters).plan()
    assert isinstance(rotation, locant.Rotation)
    return rotation


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_embed_torch(dtype: str) -> None:
    table = torch.from_numpy(normal(11, 6)).to(TORCH[dtype])
    ids = torch.tensor([[3, 0, 10], [7, 7, 1]])
    out = locant.embed(table, ids, scale=2.5)
    assert isinstance(out, torch.Tensor)
    assert out.dtype == torch.float32
    want = table[ids].double() * 2.5
    assert ((out.double() - want).abs() <= budget("embed_scaled") * want.abs()).all()
    assert torch.equal(locant.embed(table, ids), table[ids].float())


def test_embed_numpy_and_out() -> None:
    table = normal(11, 6).astype(np.float16)
    out = np.empty((3, 6), dtype=np.float32)
    given = locant.embed(table, [3, 0, 10], out=out)
    assert given is out
    assert np.array_equal(out, table[[3, 0, 10]].astype(np.float32))
    before = out.copy()
    ops.add_rows(out, table, np.array([1, 1, 2]))
    assert np.array_equal(out, before + table[[1, 1, 2]].astype(np.float32))
    strided = normal(11, 12)[:, :6]
    assert np.array_equal(locant.embed(strided, [2]), strided[[2]])


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_rotate(pairing: str, dtype: str) -> None:
    rotation = rotation_of(head_dim=10, rotary_dim=6, theta=500.0)
    cos, sin = (torch.from_numpy(part) for part in locant.tables(rotation, [0, 3, 300, 3000]))
    x = torch.from_numpy(normal(4, 3, 10)).to(TORCH[dtype])
    got = locant.rotate(x, cos, sin, pairing=pairing)
    assert got.dtype == x.dtype
    first, second = (slice(0, 3), slice(3, 6)) if pairing == "half" else (slice(0, 6, 2), slice(1, 6, 2))
    a, b = x[..., first].double(), x[..., second].double()
    c, s = cos.double()[:, None], sin.double()[:, None]
    norm = (a * a + b * b).sqrt()
    bound = budget(f"rotate_{dtype}") * norm
    assert ((got[..., first].double() - (a * c - b * s)).abs() <= bound).all()
    assert ((got[..., second].double() - (b * c + a * s)).abs() <= bound).all()
    assert torch.equal(got[..., 6:], x[..., 6:])
    back = locant.rotate(got.clone(), cos, sin, pairing=pairing, direction="inverse")
    assert ((back[..., first].double() - a).abs() <= 3 * bound + budget("norm_kept") * norm).all()


def test_rotate_in_place_and_batches() -> None:
    rotation = rotation_of(head_dim=8, theta=10000.0)
    cos, sin = locant.tables(rotation, 5)
    x = normal(2, 5, 3, 8)
    want = np.stack([locant.rotate(row, cos, sin) for row in x])
    assert np.array_equal(locant.rotate(x, cos, sin), want)
    per_row = np.stack([cos, cos]), np.stack([sin, sin])
    assert np.array_equal(locant.rotate(x, *per_row), want)
    address = x.ctypes.data
    assert locant.rotate(x, cos, sin, out=x) is x
    assert x.ctypes.data == address
    assert np.array_equal(x, want)
    # [B, heads, T, head_dim] of torch, turned without a copy
    turned = torch.from_numpy(normal(2, 3, 5, 8))
    view = turned.transpose(1, 2)
    expected = locant.rotate(view.contiguous(), cos, sin)
    locant.rotate(view, cos, sin, out=view)
    assert torch.equal(turned.transpose(1, 2), expected)


def test_nothing_is_copied() -> None:
    """What is written through DLPack is in the caller's memory, at the caller's address."""
    for array in (np.zeros((2, 4), dtype=np.float32), torch.zeros(2, 4)):
        address = array.ctypes.data if isinstance(array, np.ndarray) else array.data_ptr()
        table = np.full((3, 4), 7, dtype=np.float32)
        assert locant.embed(table, [0, 2], out=array) is array
        assert (array.ctypes.data if isinstance(array, np.ndarray) else array.data_ptr()) == address
        assert float(array[1, 3]) == 7.0
    # a table that changes later is read as it is now: nothing kept a copy
    table = np.zeros((3, 4), dtype=np.float32)
    out = np.empty((1, 4), dtype=np.float32)
    locant.embed(table, [1], out=out)
    table[1] = 3
    locant.embed(table, [1], out=out)
    assert out.tolist() == [[3.0] * 4]


def test_a_large_table_costs_no_memory() -> None:
    import resource

    table = np.zeros((200_000, 256), dtype=np.float16)  # 100 MB, never touched
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(5):
        locant.embed(table, [1, 2, 3])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def reference_attention(q: Any, k: Any, v: Any, slopes: Any = None, scale: float | None = None) -> Any:
    """Plain f64: q [T, H, D], k, v [G, S, D]."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    tokens, heads, width = q.shape
    group, slots = heads // k.shape[0], k.shape[1]
    out = np.zeros((tokens, heads, v.shape[2]))
    for h in range(heads):
        for t in range(tokens):
            seen = slots - tokens + t + 1
            scores = k[h // group, :seen] @ q[t, h] * (scale or width**-0.5)
            if slopes is not None:
                scores = scores + slopes[h] * (np.arange(seen) - (seen - 1))
            weights = np.exp(scores - scores.max())
            out[t, h] = weights @ v[h // group, :seen] / weights.sum()
    return out


@pytest.mark.parametrize("tokens", [1, 7])
def test_attend(tokens: int) -> None:
    q, k, v = normal(tokens, 6, 8), normal(2, 300, 8), normal(2, 300, 5)
    got = locant.attend(q, k, v)
    assert got.shape == (tokens, 6, 5)
    assert np.abs(got - reference_attention(q, k, v)).max() <= budget("attend") * np.abs(v).max()
    slopes = locant.alibi_slopes(6)
    got = locant.attend(q, k, v, slopes=slopes)
    assert np.abs(got - reference_attention(q, k, v, slopes)).max() <= budget("attend") * np.abs(v).max()


def test_attend_batches_scores_and_torch() -> None:
    q, k, v = normal(2, 3, 4, 8), normal(2, 2, 9, 8), normal(2, 2, 9, 8)
    scores = np.empty((2, 4, 3, 9), dtype=np.float32)
    got = locant.attend(q, k, v, scores=scores)
    for row in range(2):
        assert np.array_equal(got[row], locant.attend(q[row], k[row], v[row]))
    assert np.isneginf(scores[:, :, 0, 7:]).all()
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    want = torch.nn.functional.scaled_dot_product_attention(
        tensors[0].transpose(1, 2).double(), tensors[1].repeat_interleave(2, 1).double(),
        tensors[2].repeat_interleave(2, 1).double(),
        attn_mask=torch.ones(3, 9, dtype=torch.bool).tril(6))  # fmt: skip
    told = locant.attend(*tensors)
    assert isinstance(told, torch.Tensor)
    assert (told.double() - want.transpose(1, 2)).abs().max() <= budget("attend") * np.abs(v).max()
    half = locant.attend(tensors[0], tensors[1].half(), tensors[2].bfloat16())
    assert torch.isfinite(half).all()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_project_and_head(dtype: str) -> None:
    x = torch.from_numpy(normal(2, 3, 33))
    weight = torch.from_numpy(normal(17, 33)).to(TORCH[dtype])
    bias = torch.from_numpy(normal(17))
    got = locant.project(x, weight, bias=bias, scale=0.5)
    want = 0.5 * (x.double() @ weight.double().T) + bias.double()
    size = 0.5 * (x.double().abs() @ weight.double().abs().T) + bias.double().abs()
    assert got.shape == (2, 3, 17)
    assert ((got.double() - want).abs() <= budget("project") * size).all()
    assert torch.equal(locant.head(x, weight), locant.project(x, weight))
    one = np.ones(33, dtype=np.float32)
    assert locant.head(one, weight.float().numpy()).shape == (17,)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: locant.embed(normal(4, 3), [4]), IndexError, "embed: token 4 at row 0 is outside vocab 4"),
        (lambda: locant.embed(normal(4, 3), [-1]), IndexError, "embed: token -1 at row 0"),
        (lambda: locant.embed(normal(4, 3).astype(np.float64), [1]), locant.SpecError, "f64"),
        (lambda: locant.embed(normal(4, 3), np.array([1], dtype=np.int32)), locant.SpecError,
         "embed: ids is i32, expected i64"),
        (lambda: locant.embed([[1.0]], [0]), locant.SpecError, "embed: table must be an array on the CPU, got list"),
        (lambda: locant.embed(torch.zeros(4, 3, device="meta"), [0]), locant.SpecError,
         "embed: table must be an array on the CPU, got Tensor on meta"),
        (lambda: locant.embed(torch.zeros(4, 3, requires_grad=True), [0]), locant.SpecError,
         "table requires a gradient, which no operation gives"),
        (lambda: locant.embed(normal(4, 6)[:, ::2], [0]), locant.SpecError, "stride"),
        (lambda: locant.embed(normal(4, 3), [0], out=np.empty((2, 3), dtype=np.float32)), locant.SpecError,
         "embed: out is"),
        (lambda: locant.embed(normal(4, 3), [0], out=np.empty((1, 3))), locant.SpecError,
         "embed: out is f64, expected f32"),
        (lambda: locant.embed(np.zeros((2, 2), dtype=complex), [0]), locant.SpecError, "dtype that no operation takes"),
        (lambda: locant.rotate(normal(2, 2), normal(2, 1), normal(2, 1)), locant.SpecError, "rotate: x is .2, 2."),
        (lambda: locant.rotate(normal(2, 1, 4), normal(3, 2), normal(3, 2)), locant.SpecError, "rotate: cos is"),
        (lambda: locant.rotate(normal(2, 1, 4), normal(2, 2), normal(2, 2), pairing="odd"), locant.SpecError,
         "rotate: pairing is half or interleaved"),
        (lambda: locant.rotate(normal(2, 1, 4), normal(2, 2), normal(2, 2), direction="back"), locant.SpecError,
         "rotate: direction is forward or inverse"),
        (lambda: locant.rotate(normal(2, 1, 4).astype(np.int64), normal(2, 2), normal(2, 2)), locant.SpecError,
         "rotate: x is i64, expected f32, f16 or bf16"),
        (lambda: locant.rotate(normal(2, 2, 1, 4), normal(3, 2, 2), normal(3, 2, 2)), locant.SpecError,
         "rotate: cos has 3 rows, x has 2"),
        (lambda: locant.attend(normal(3, 4, 8), normal(3, 5, 8), normal(3, 5, 8)), locant.SpecError,
         "attend: 4 heads are no multiple of 3 kv heads"),
        (lambda: locant.attend(normal(3, 4, 8), normal(2, 2, 8), normal(2, 2, 8)), IndexError, "attend: slots"),
        (lambda: locant.attend(normal(1, 3, 4, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 8)), locant.SpecError,
         "attend: q has 1 rows, another tensor 2"),
        (lambda: locant.attend(normal(3, 4, 8), normal(2, 8, 5).transpose(0, 2, 1), normal(2, 5, 8)), locant.SpecError,
         "attend: keys is .* expected row-major"),
        (lambda: locant.project(normal(2, 3), normal(4, 5)), locant.SpecError, "project: "),
    ],
)  # fmt: skip
def test_errors_are_sentences(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()


def test_without_gradients_parameters_are_taken_as_they_are() -> None:
    table = torch.nn.Parameter(torch.from_numpy(normal(4, 3)))
    with torch.no_grad():
        assert torch.equal(locant.embed(table, [2]), table[[2]])
    assert torch.equal(locant.embed(table.detach(), [2]), table.detach()[[2]])


def test_a_read_only_output_is_refused() -> None:
    out = np.zeros((1, 3), dtype=np.float32)
    out.flags.writeable = False
    with pytest.raises(locant.SpecError, match="embed: out must be an array that can be written on the CPU"):
        locant.embed(normal(4, 3), [0], out=out)
    table = normal(4, 3)
    table.flags.writeable = False
    assert np.array_equal(locant.embed(table, [0]), table[[0]])


def test_long_calls_let_other_threads_run() -> None:
    x, weight = normal(256, 1024), normal(4096, 1024)
    ticks = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0)

    counter = threading.Thread(target=count)
    counter.start()
    try:
        out = np.empty((256, 4096), dtype=np.float32)
        locant.project(x, weight, out=out)
        before = ticks
        began = time.monotonic()
        for _ in range(20):
            locant.project(x, weight, out=out)
        seconds, ran = time.monotonic() - began, ticks - before
    finally:
        stop.set()
        counter.join()
    assert ran > 20, f"{ran} ticks in {seconds:.2f} s"
