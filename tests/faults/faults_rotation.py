# SPDX-License-Identifier: Apache-2.0
"""Rotation: pairing, width, base, schedules, amplitude, rounding, and tables that hold something else."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch

import injections as put
import passes
from faults import Fault

HALF = ("llama", "llama_usual", "mistral", "qwen2", "qwen3", "granite", "olmo2", "nemotron", "stories260k",
        "bundled_rope")  # fmt: skip
FULL = tuple(name for name in HALF if name != "nemotron")
INTERLEAVED = ("cohere",)
PARTIAL = ("phi", "gpt_neox", "stablelm")
THETA = ("llama", "qwen2", "qwen3", "phi", "gpt_neox", "stablelm", "mistral", "cohere", "smollm3")
BUFFERED = ("llama", "llama_usual", "mistral", "qwen2", "qwen3", "phi", "gpt_neox", "cohere", "olmo2", "gemma",
            "granite", "stories260k", "bundled_rope")  # fmt: skip
Manager = AbstractContextManager[None]


def width_of(model: Any) -> int:
    (rotary,) = put.modules(model, "rotary_emb")
    return 2 * int(rotary.inv_freq.shape[0])


def head_dim(model: Any) -> int:
    config = model.config
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def twice(model: Any, _strength: float) -> Manager:
    def rotate(original: Any, q: Any, k: Any, *args: Any, **kwargs: Any) -> Any:
        return original(*original(q, k, *args, **kwargs), *args, **kwargs)

    return put.rotation(model, rotate)


def missing(which: str) -> Any:
    def inject(model: Any, _strength: float) -> Manager:
        def rotate(original: Any, q: Any, k: Any, *args: Any, **kwargs: Any) -> Any:
            rotated = original(q, k, *args, **kwargs)
            return (rotated[0] if "q" not in which else q.clone(), rotated[1] if "k" not in which else k.clone())

        return put.rotation(model, rotate)

    return inject


def backwards(model: Any, _strength: float) -> Manager:
    return put.tables(model, lambda cos, sin: (cos, -sin))


def crossed_half(model: Any, _strength: float) -> Manager:
    def change(table: torch.Tensor) -> torch.Tensor:
        return table[..., : table.shape[-1] // 2].repeat_interleave(2, -1)

    return put.tables(model, lambda cos, sin: (change(cos), change(sin)))


def crossed_twos(model: Any, _strength: float) -> Manager:
    def change(table: torch.Tensor) -> torch.Tensor:
        return torch.cat((table[..., ::2], table[..., ::2]), -1)

    return put.tables(model, lambda cos, sin: (change(cos), change(sin)))


def interleaved_kernel(model: Any, _strength: float) -> Manager:
    def rotate(_original: Any, q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1, **_more: Any) -> Any:
        pairs = cos.shape[-1] // 2
        c, s = (table[..., :pairs].repeat_interleave(2, -1).unsqueeze(unsqueeze_dim) for table in (cos, sin))
        return tuple((x * c + put.twos(x) * s).to(x.dtype) for x in (q, k))

    return put.rotation(model, rotate)


def half_kernel(model: Any, _strength: float) -> Manager:
    def rotate(_original: Any, q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1, **_more: Any) -> Any:
        c, s = (torch.cat((t[..., ::2], t[..., ::2]), -1).unsqueeze(unsqueeze_dim) for t in (cos, sin))
        return tuple((x * c + put.halves(x) * s).to(x.dtype) for x in (q, k))

    return put.rotation(model, rotate)


def other_width(count: Any) -> Any:
    """The rotation covers another width, by a ladder of that width."""

    def inject(model: Any, _strength: float) -> Manager:
        return _with_width(model, count(model))

    return inject


@contextmanager
def _with_width(model: Any, width: int) -> Any:
    def rotate(_original: Any, q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1, **_more: Any) -> Any:
        c, s = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        return tuple(torch.cat((x * c + put.halves(x) * s, still[..., width:]), -1)
                     for x, still in ((q[..., :width], q), (k[..., :width], k)))  # fmt: skip

    theta = float(model.config.rope_parameters["rope_theta"])
    attention = put.blocks(model)
    with ExitStack() as stack:
        stack.enter_context(put.frequencies(model, lambda _: put.ladder(theta, width)))
        stack.enter_context(put.attributes(attention, "rotary_ndims", lambda _: width))
        yield


def wrong_partner(model: Any, _strength: float) -> Manager:
    """Pairs (i, i + head_dim / 2), where (i, i + rotary_dim / 2) is due; the whole head is handed over."""
    span, pairs = head_dim(model) // 2, width_of(model) // 2

    def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        out = x.clone()
        a, b = x[..., :pairs], x[..., span : span + pairs]
        c, s = cos[..., None, :, :pairs], sin[..., None, :, :pairs]
        out[..., :pairs], out[..., span : span + pairs] = a * c - b * s, b * c + a * s
        return out

    def rotate(_original: Any, q: Any, k: Any, cos: Any, sin: Any, *_args: Any, **_more: Any) -> Any:
        return turn(q, cos, sin), turn(k, cos, sin)

    return put.rotation(model, rotate)


def swapped(model: Any, _strength: float) -> Manager:
    return put.tables(model, lambda cos, sin: (sin, cos))


def theta(value: float | None = None) -> Any:
    def inject(model: Any, strength: float) -> Manager:
        return put.frequencies(model, lambda _: put.ladder(value or strength, width_of(model)))

    return inject


def llama3_ladder(base: float, width: int, factor: float) -> torch.Tensor:
    out = []
    for frequency in put.ladder(base, width).tolist():
        wave = 2 * math.pi / frequency
        if wave < 64 / 4:
            out.append(frequency)
        elif wave > 64:
            out.append(frequency / factor)
        else:
            smooth = (64 / wave - 1) / 3
            out.append((1 - smooth) * frequency / factor + smooth * frequency)
    return torch.tensor(out)


def llama3_factor(model: Any, strength: float) -> Manager:
    base = float(model.config.rope_parameters["rope_theta"])
    return put.frequencies(model, lambda _: llama3_ladder(base, width_of(model), strength))


def divided(model: Any, strength: float) -> Manager:
    return put.frequencies(model, lambda inv_freq: inv_freq / strength)


def plain_ladder(model: Any, _strength: float) -> Manager:
    base = float(model.config.rope_parameters["rope_theta"])
    return put.frequencies(model, lambda _: put.ladder(base, width_of(model)))


def amplitude(value: Any) -> Any:
    def inject(model: Any, strength: float) -> Manager:
        change = value if callable(value) else lambda _: strength
        return put.attributes(put.modules(model, "rotary_emb"), "attention_scaling", change)

    return inject


def long_list(which: str) -> Any:
    @contextmanager
    def inject(model: Any, _strength: float) -> Any:
        (rotary,) = put.modules(model, "rotary_emb")
        factors = torch.tensor(model.config.rope_parameters[f"{which}_factor"])
        base = float(model.config.rope_parameters["rope_theta"])
        fixed = put.ladder(base, width_of(model)) / factors
        kept = getattr(rotary, "long_inv_freq", None)
        rotary.long_inv_freq = fixed
        with put.frequencies(model, lambda _: fixed.clone()):
            yield
        if kept is None:
            del rotary.long_inv_freq
        else:
            rotary.long_inv_freq = kept

    return inject


def never_shrinks(model: Any, strength: float) -> Manager:
    """A longer text was seen before; the base stays."""
    return _dynamic(model, strength, frozen=True)


def constant_base(model: Any, strength: float) -> Manager:
    return _dynamic(model, strength, frozen=True)


@contextmanager
def _dynamic(model: Any, seen: float, frozen: bool) -> Any:
    block, length = model.config.rope_parameters, model.config.max_position_embeddings
    width = width_of(model)
    factor = block["factor"]
    base = block["rope_theta"] * ((factor * seen / length) - (factor - 1)) ** (width / (width - 2))
    fixed = put.ladder(base, width)
    with put.frequencies(model, lambda _: fixed.clone()):
        (rotary,) = put.modules(model, "rotary_emb")
        kept = rotary.max_seq_len_cached
        # neither grows nor is reset: longer than any text, and not longer than what it was made for
        rotary.rope_type = "default" if frozen else rotary.rope_type
        yield
        rotary.rope_type = "dynamic"
        rotary.max_seq_len_cached = kept


def negative_base(model: Any, _strength: float) -> Manager:
    return put.frequencies(model, lambda inv_freq: inv_freq * float("nan"))


def rounded_frequencies(dtype: torch.dtype) -> Any:
    return lambda model, _strength: put.frequencies(model, lambda inv_freq: inv_freq.to(dtype).float())


def rounded_positions(dtype: torch.dtype) -> Any:
    return lambda model, _strength: put.positions_inside(model, lambda ids, _step: ids.to(dtype).float())


def junk(model: Any, _strength: float) -> Manager:
    generator = torch.Generator().manual_seed(1)
    return put.frequencies(model, lambda inv_freq: torch.rand(inv_freq.shape, generator=generator))


def zeros(model: Any, _strength: float) -> Manager:
    return put.frequencies(model, torch.zeros_like)


def bytes_of_bf16(model: Any, _strength: float) -> Manager:
    def change(inv_freq: torch.Tensor) -> torch.Tensor:
        twice = torch.cat((inv_freq, inv_freq)).bfloat16()
        return twice.view(torch.float32)[: inv_freq.shape[0]].clone()

    return put.frequencies(model, change)


def rope_everywhere(model: Any, _strength: float) -> Manager:
    return put.attributes(put.blocks(model), "use_rope", lambda _: 1)


def rope_nowhere(model: Any, strength: float) -> Manager:
    chosen = [block for block in put.blocks(model) if block.layer_idx == int(strength)]
    return put.attributes(chosen, "use_rope", lambda _: 0)


@contextmanager
def global_tables(model: Any, _strength: float) -> Any:
    """Sliding layers get the tables of the full ones."""
    kinds = model.config.layer_types
    (rotary,) = put.modules(model, "rotary_emb")
    with ExitStack() as stack:
        for kind in set(kinds):
            if kind == "sliding_attention":
                other = rotary.full_attention_inv_freq
                kept = rotary.sliding_attention_inv_freq
                rotary.sliding_attention_inv_freq = torch.nn.Buffer(other.clone(), persistent=False)
                stack.callback(setattr, rotary, "sliding_attention_inv_freq", kept)
        yield


FAULTS = [
    Fault("F13", "rotated twice", ("R103",), (*HALF, *PARTIAL, *INTERLEAVED), twice),
    Fault("F13", "not rotated", ("R104",), (*HALF, *PARTIAL, *INTERLEAVED), missing("qk")),
    Fault("F13", "k not rotated", ("R104",), (*HALF, *INTERLEAVED), missing("k")),
    Fault("F13", "turns back", ("R105", "T104"), (*HALF, *PARTIAL, *INTERLEAVED), backwards),
    Fault("F13", "cos and sin swapped", ("R105", "T104"), (*HALF, *PARTIAL, *INTERLEAVED), swapped),
    Fault("F14", "table of twos, rotation of halves", ("R101",), FULL, crossed_half),
    Fault("F14", "table of halves, rotation of twos", ("R101",), INTERLEAVED, crossed_twos),
    Fault("F15", "interleaved kernel", ("R101",), FULL, interleaved_kernel),
    Fault("F15", "half kernel", ("R101",), INTERLEAVED, half_kernel),
    Fault("F17", "factor ignored", ("R102",), ("gpt_neox", "phi"), other_width(head_dim),
          number=lambda m, s: head_dim(m)),
    Fault("F17", "factor applied twice", ("R102",), ("gpt_neox", "phi"),
          other_width(lambda m: width_of(m) ** 2 // head_dim(m)),
          number=lambda m, s: width_of(m) ** 2 // head_dim(m)),
    Fault("F17", "wrong partner", ("R102",), ("gpt_neox",), wrong_partner,
          number=lambda m, s: head_dim(m) // 2),
    Fault("F21", "rope in layers without", ("R110",), ("smollm3",), rope_everywhere),
    Fault("F21", "no rope in a layer with", ("R104", "R110"), ("smollm3",), rope_nowhere, strengths=(0, 2)),
    Fault("F21", "sliding layers as the full ones", ("R110", "T101", "T102"), ("gemma3",), global_tables),
    Fault("F22", "theta is the default", ("T101", "R106"), THETA, theta(10000.0), run=passes.MIDDLE,
          number=lambda m, s: 10000.0, parameter="theta"),
    Fault("F22", "theta is another", ("T101", "R106"), THETA, theta(), run=passes.MIDDLE,
          strengths=(70000.0, 30000.0, 250000.0), number=lambda m, s: s, parameter="theta"),
    Fault("F23", "llama3 missing", ("T102", "R107"), ("llama3",), plain_ladder, run=passes.MIDDLE),
    Fault("F23", "llama3 factor", ("T102", "R107"), ("llama3",), llama3_factor, run=passes.MIDDLE,
          strengths=(32.0, 16.0, 5.0), number=lambda m, s: s, parameter="factor"),
    Fault("F23", "llama3 unasked", ("T102", "R107"), ("llama", "llama_usual"), llama3_factor, run=passes.MIDDLE,
          strengths=(8.0,)),
    Fault("F23", "yarn missing", ("T102", "R107"), ("yarn",), plain_ladder, run=passes.MIDDLE),
    Fault("F23", "linear missing", ("T102", "R107"), ("linear",), plain_ladder, run=passes.MIDDLE),
    Fault("F23", "linear unasked", ("T102", "R107"), ("llama", "qwen2"), divided, run=passes.MIDDLE,
          strengths=(2.0, 3.0, 8.0), number=lambda m, s: s, parameter="factor"),
    Fault("F24", "amplitude missing", ("T105", "R108"), ("yarn", "yarn_stated", "longrope"),
          amplitude(lambda _: 1.0), number=lambda m, s: 1.0),
    Fault("F24", "amplitude squared", ("T105", "R108"), ("yarn", "yarn_stated"), amplitude(lambda a: a * a)),
    Fault("F24", "stated amplitude ignored", ("T105", "R108"), ("yarn_stated",),
          amplitude(lambda _: 0.1 * math.log(4) + 1), number=lambda m, s: 0.1 * math.log(4) + 1),
    Fault("F24", "amplitude where none is due", ("T105", "R108"), ("llama", "gpt_neox", "deepseek_yarn"), amplitude(0),
          strengths=(1.25, 1.0 + 0.1 * math.log(8)), number=lambda m, s: s),
    Fault("F25", "short list for a long text", ("T102", "R107"), ("longrope",), long_list("short"),
          run=passes.MIDDLE),
    Fault("F25", "long list for a short text", ("T102", "R107"), ("longrope",), long_list("long"), run=passes.SHORT),
    Fault("F26", "base of a longer text", ("T102", "R107"), ("dynamic",), never_shrinks, run=passes.SHORT,
          strengths=(100, 300, 1000), number=lambda m, s: s, parameter="seen", dtypes=("f32",)),
    Fault("F26", "base of a longer text, bf16", ("T102", "R107"), ("dynamic",), never_shrinks, run=passes.SHORT,
          strengths=(100, 300, 1000), dtypes=("bf16",)),
    Fault("F26", "base of a shorter text", ("T102", "R107"), ("dynamic",), constant_base, run=passes.MIDDLE,
          strengths=(64, 90)),
    Fault("F26", "base not finite", ("T104",), ("dynamic", "llama"), negative_base, run=passes.SHORT,
          also=("R111", "B107", "B108", "B110", "E108")),
    Fault("F27", "frequencies in bf16", ("T103", "R112"), BUFFERED, rounded_frequencies(torch.bfloat16),
          run=passes.LONG),
    Fault("F27", "frequencies in f16", ("T103", "R112"), BUFFERED, rounded_frequencies(torch.float16),
          run=passes.LONG, dtypes=("f32",)),
    Fault("F27", "positions in bf16", ("T103", "R112"), BUFFERED, rounded_positions(torch.bfloat16),
          run=passes.LONG),
    Fault("F28", "junk in the buffer", ("T104",), BUFFERED, junk),
    Fault("F28", "zeros in the buffer", ("T104",), BUFFERED, zeros),
    Fault("F28", "bytes of bf16 read as f32", ("T104",), BUFFERED, bytes_of_bf16),
]  # fmt: skip
