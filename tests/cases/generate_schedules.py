#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases of the RoPE schedules and of the attention temperature, from their formulas in 50 digits (mpmath).

usage: generate_schedules.py [--check]
Writes <mechanism>.json of every schedule beside this file; --check compares instead. Parameters are those of the
published configs that `name` tells; a decimal is the double it is read as.
"""

import sys
from collections.abc import Callable
from typing import Any

import mpmath as mp

from golden_files import write_or_check
from published_factors import PHI3_MINI_LONG, PHI3_MINI_SHORT, PHI35_MOE_LONG, PHI35_MOE_SHORT

POSITIONS = [-257, 0, 1, 255, 257, 2049, 4097, 131071, 1000000, 2**24 - 1]
Parameters = dict[str, Any]
Schedule = Callable[[Parameters, int], tuple[list[mp.mpf], mp.mpf]]


def provenance(source: str) -> dict[str, str]:
    return {
        "generator": "tests/cases/generate_schedules.py",
        "arithmetic": f"mpmath {mp.__version__}, {mp.mp.dps} digits, written with 20",
        "source": source,
    }


def width_of(p: Parameters) -> int:
    return int(p["rotary_dim"] if "rotary_dim" in p else p["head_dim"])


def ladder(theta: Any, width: int) -> list[mp.mpf]:
    return [mp.power(theta, mp.mpf(-2 * i) / width) for i in range(width // 2)]


def stretched(theta: Any, alpha: Any, width: int) -> mp.mpf:
    return mp.mpf(theta) * mp.power(alpha, mp.mpf(width) / (width - 2))


def pair_of(turns: Any, p: Parameters) -> mp.mpf:
    return width_of(p) * mp.log(mp.mpf(p["original_length"]) / (turns * 2 * mp.pi)) / (2 * mp.log(p["theta"]))


def ramp(low: Any, high: Any, width: int) -> list[mp.mpf]:
    low, high = max(low, mp.mpf(0)), min(high, mp.mpf(width - 1))
    if low == high:
        high += mp.mpf(0.001)
    return [min(max((i - low) / (high - low), mp.mpf(0)), mp.mpf(1)) for i in range(width // 2)]


def linear(p: Parameters, seen: int) -> tuple[list[mp.mpf], mp.mpf]:
    return [w / p["factor"] for w in ladder(p["theta"], width_of(p))], mp.mpf(1)


def ntk(p: Parameters, seen: int) -> tuple[list[mp.mpf], mp.mpf]:
    width = width_of(p)
    return ladder(stretched(p["theta"], p["alpha"], width), width), mp.mpf(1)


def dynamic_ntk(p: Parameters, seen: int) -> tuple[list[mp.mpf], mp.mpf]:
    width, factor = width_of(p), mp.mpf(p["factor"])
    length = max(seen, p["max_positions"])
    if p.get("growth") == "steps":
        steps = mp.ceil(mp.log(mp.mpf(length) / p["max_positions"]) / mp.log(factor) + 1)
        return ladder(stretched(p["theta"], max(factor**steps - 1, mp.mpf(1)), width), width), mp.mpf(1)
    return ladder(stretched(p["theta"], factor * length / p["max_positions"] - (factor - 1), width), width), mp.mpf(1)


def magnitude(factor: Any, mscale: Any, per_log: str = "0.1") -> mp.mpf:
    # the code's 0.1 is a double, as every decimal here
    return mp.mpf(1) if factor <= 1 else mp.mpf(float(per_log)) * mp.mpf(mscale) * mp.log(factor) + 1


def yarn(p: Parameters, seen: int) -> tuple[list[mp.mpf], mp.mpf]:
    width, factor = width_of(p), mp.mpf(p["factor"])
    plain = ladder(p["theta"], width)
    low, high = pair_of(p.get("beta_fast", 32), p), pair_of(p.get("beta_slow", 1), p)
    if p.get("truncate", 1):
        low, high = mp.floor(low), mp.ceil(high)
    keep = [(1 - r) * mp.mpf(p.get("extrapolation_factor", 1)) for r in ramp(low, high, width)]
    mixed = [w * k + w / factor * (1 - k) for w, k in zip(plain, keep, strict=True)]
    per_log = "0.07" if p.get("declared") == "telechat3-yarn" else "0.1"
    if p.get("declared") == "original":
        return plain, mp.mpf(1)
    if "attention_factor" in p:
        return mixed, mp.mpf(p["attention_factor"])
    mscale, both = p.get("mscale", 0), p.get("mscale", 0) and p.get("mscale_all_dim", 0)
    ratio = magnitude(factor, mscale) / magnitude(factor, p["mscale_all_dim"]) if both else None
    return mixed, ratio if ratio is not None else magnitude(factor, 1, per_log)


def longrope(p: Parameters, seen: int) -> tuple[list[mp.mpf], mp.mpf]:
    past = seen > p["original_length"]
    plain = ladder(p["theta"], width_of(p))
    factors = p["long_factor"] if past else p["short_factor"]
    scaled = [w / mp.mpf(f) for w, f in zip(plain, factors, strict=True)]
    if "short_mscale" in p:
        return scaled, mp.mpf(p["long_mscale"] if past else p["short_mscale"])
    if "attention_factor" in p:
        return scaled, mp.mpf(p["attention_factor"])
    ratio = mp.mpf(p["max_positions"]) / p["original_length"]
    return scaled, mp.sqrt(1 + mp.log(ratio) / mp.log(p["original_length"])) if ratio > 1 else mp.mpf(1)


def llama3(p: Parameters, seen: int) -> tuple[list[mp.mpf], mp.mpf]:
    low, high = mp.mpf(p.get("low_freq_factor", 1)), mp.mpf(p.get("high_freq_factor", 4))
    mixed = []
    for w in ladder(p["theta"], width_of(p)):
        turns = p["original_length"] * w / (2 * mp.pi)
        keep = mp.mpf(1) if turns > high else mp.mpf(0) if turns < low else (turns - low) / (high - low)
        mixed.append(w * keep + w / p["factor"] * (1 - keep))
    return mixed, mp.mpf(1)


def proportional(p: Parameters, seen: int) -> tuple[list[mp.mpf], mp.mpf]:
    width = width_of(p)
    turning = int(mp.floor(mp.mpf(p.get("proportion", 1)) * width / 2))
    plain = ladder(p["theta"], width)
    return [w / mp.mpf(p.get("factor", 1)) if i < turning else mp.mpf(0) for i, w in enumerate(plain)], mp.mpf(1)


def by_parts(p: Parameters, seen: int) -> tuple[list[mp.mpf], mp.mpf]:
    width, factor = width_of(p), mp.mpf(p["factor"])
    plain, by_base = ladder(p["theta"], width), ladder(stretched(p["theta"], factor, width), width)
    first = ramp(mp.floor(pair_of(mp.mpf(1.25), p)), mp.ceil(pair_of(mp.mpf(0.75), p)), width)
    second = ramp(mp.floor(pair_of(16, p)), mp.ceil(pair_of(2, p)), width)
    result = []
    for i, w in enumerate(plain):
        take = (1 - first[i]) * mp.mpf(p.get("ntk_factor", 1))
        keep = (1 - second[i]) * mp.mpf(p.get("extrapolation_factor", 1))
        result.append(keep * w + (1 - keep) * (take * by_base[i] + (1 - take) * w / factor))
    return result, mp.mpf(1)


GPT_OSS = {"theta": 150000, "head_dim": 64, "factor": 32, "original_length": 4096}
DEEPSEEK = {
    "theta": 10000,
    "head_dim": 192,
    "rotary_dim": 64,
    "rotary_offset": 128,
    "pairing": "interleaved",
    "write_pairing": "half",
    "factor": 40,
    "original_length": 4096,
}
QWEN_VL = {"theta": 1000000, "head_dim": 128, "factor": 4, "original_length": 32768}
PHI3 = {
    "theta": 10000,
    "head_dim": 96,
    "original_length": 4096,
    "max_positions": 131072,
    "short_factor": PHI3_MINI_SHORT,
    "long_factor": PHI3_MINI_LONG,
}
PHI_MOE = {
    "theta": 10000,
    "head_dim": 128,
    "original_length": 4096,
    "max_positions": 131072,
    "short_factor": PHI35_MOE_SHORT,
    "long_factor": PHI35_MOE_LONG,
    "short_mscale": 1.243163121016122,
    "long_mscale": 1.243163121016122,
}
QWEN = {"theta": 10000, "head_dim": 128, "factor": 2, "max_positions": 2048, "growth": "steps"}
LLAMA2 = {"theta": 10000, "head_dim": 128}
LLAMA31 = {"theta": 500000, "head_dim": 128, "factor": 8, "original_length": 8192}

CASES: dict[str, tuple[Schedule, str, list[tuple[str, Parameters, int]]]] = {
    "linear": (
        linear,
        "Chen et al. 2023, arXiv:2306.15595, eq. 3",
        [
            ("Gemma 3, global layers", {"theta": 1000000, "head_dim": 256, "factor": 8}, 0),
            ("a decimal factor", {"theta": 123456, "head_dim": 80, "rotary_dim": 10, "factor": 2.7}, 0),
        ],
    ),
    "ntk": (
        ntk,
        "Peng et al. 2023, arXiv:2309.00071, definition 1",
        [
            ("Hunyuan-A13B", {"theta": 10000, "head_dim": 128, "alpha": 1000}, 0),
            ("two pairs", {"theta": 500000, "head_dim": 4, "alpha": 3.5}, 0),
        ],
    ),
    "dynamic_ntk": (
        dynamic_ntk,
        "Peng et al. 2023, arXiv:2309.00071, section 3.3, as transformers computes it",
        [
            (
                f"Llama 2 doubled, {seen} seen",
                {"theta": 10000, "head_dim": 128, "factor": 2, "max_positions": 4096},
                seen,
            )
            for seen in (0, 4096, 4097, 8192, 32768)
        ]
        + [
            (
                "partial head",
                {"theta": 123456, "head_dim": 80, "rotary_dim": 20, "factor": 1.5, "max_positions": 300},
                2049,
            )
        ]
        + [(f"Qwen 7B, {seen} seen", QWEN, seen) for seen in (0, 2048, 2049, 4096, 4097, 8191, 32768)],
    ),
    "yarn": (
        yarn,
        "Peng et al. 2023, arXiv:2309.00071, sections 3.2 and 3.4; DeepSeek-AI 2024, arXiv:2405.04434",
        [
            ("gpt-oss", GPT_OSS | {"truncate": 0}, 0),
            ("gpt-oss, truncated", GPT_OSS | {"truncate": 1}, 0),
            ("DeepSeek-V3", DEEPSEEK | {"mscale": 1, "mscale_all_dim": 1}, 0),
            ("DeepSeek-V2-Lite", DEEPSEEK | {"mscale": 0.707, "mscale_all_dim": 0.707}, 0),
            ("an uneven mscale pair", DEEPSEEK | {"mscale": 0.8, "mscale_all_dim": 0.5}, 0),
            ("Qwen2.5-VL", QWEN_VL, 0),
            ("a stated amplitude", QWEN_VL | {"attention_factor": 1.5, "mscale": 2, "mscale_all_dim": 1}, 0),
            ("half extrapolation", QWEN_VL | {"extrapolation_factor": 0.5}, 0),
            ("Grok-2, original", QWEN_VL | {"declared": "original"}, 0),
            ("TeleChat3", QWEN_VL | {"declared": "telechat3-yarn"}, 0),
            ("betas of Devstral 2", QWEN_VL | {"factor": 64, "original_length": 4096, "beta_fast": 4}, 0),
            ("equal edges", {"theta": 10000, "head_dim": 8, "factor": 4, "original_length": 6, "beta_fast": 0.9}, 0),
        ],
    ),
    "longrope": (
        longrope,
        "Ding et al. 2024, arXiv:2402.13753; Abdin et al. 2024, arXiv:2404.14219",
        [(f"Phi-3-mini-128k, {seen} seen", PHI3, seen) for seen in (0, 4096, 4097, 131072)]
        + [(f"Phi-3.5-MoE, {seen} seen", PHI_MOE, seen) for seen in (4096, 4097)]
        + [
            ("a stated amplitude", PHI3 | {"attention_factor": 1.5}, 1),
            ("not scaled", PHI3 | {"max_positions": 4096}, 1),
        ],
    ),
    "llama3": (
        llama3,
        "Llama Team 2024, arXiv:2407.21783; published code: meta-llama/llama-models",
        [
            ("Llama 3.1", LLAMA31 | {"low_freq_factor": 1, "high_freq_factor": 4}, 0),
            ("Llama 3.2 1B", LLAMA31 | {"head_dim": 64, "factor": 32}, 0),
            ("equal edges", LLAMA31 | {"low_freq_factor": 2, "high_freq_factor": 2}, 0),
        ],
    ),
    "proportional": (
        proportional,
        "Barbero et al. 2025, arXiv:2410.06205, section 6; published code of Gemma 4",
        [
            ("Gemma 4, global layers", {"theta": 1000000, "head_dim": 512, "proportion": 0.25}, 0),
            ("with a factor", {"theta": 10000, "head_dim": 20, "proportion": 0.55, "factor": 8}, 0),
            ("whole", {"theta": 10000, "head_dim": 8}, 0),
        ],
    ),
    "by_parts": (
        by_parts,
        "published code: jquesnelle/yarn 1f8d29cd, scaled_rope/LlamaPartNTKScaledRotaryEmbedding.py",
        [
            ("LLaMA, 16 times", {"theta": 10000, "head_dim": 128, "factor": 16, "original_length": 2048}, 0),
            (
                "shares",
                {
                    "theta": 123456,
                    "head_dim": 80,
                    "rotary_dim": 20,
                    "factor": 3.5,
                    "original_length": 4096,
                    "ntk_factor": 0.75,
                    "extrapolation_factor": 0.5,
                },
                0,
            ),
        ],
    ),
}


def schedule(name: str) -> dict[str, Any]:
    make, source, listed = CASES[name]
    cases = []
    for title, parameters, seen in listed:
        inv_freq, amplitude = make(parameters, seen)
        pairs = sorted({0, 1, len(inv_freq) // 3, len(inv_freq) // 2, len(inv_freq) - 1})
        cases.append(
            {
                "name": title,
                "parameters": parameters,
                "seen": seen,
                "inv_freq": inv_freq,
                "amplitude": amplitude,
                "pairs": pairs,
                "positions": POSITIONS,
                "cos": [[amplitude * mp.cos(t * inv_freq[i]) for i in pairs] for t in POSITIONS],
                "sin": [[amplitude * mp.sin(t * inv_freq[i]) for i in pairs] for t in POSITIONS],
            }
        )
    return {"provenance": provenance(source), "cases": cases}


def attention_temperature() -> dict[str, Any]:
    cases = []
    for title, scale, floor, shift in (
        ("Llama 4", 0.1, 8192, 1),
        ("Ministral 3", 0.1, 16384, 0),
        ("off", 0, 8192, 1),
        ("steep", 0.75, 3, 0),
    ):
        positions = sorted({0, 1, floor - 2, floor - 1, floor, floor + 1, 10 * floor - 1, 10 * floor, 1000000})
        values = [1 + mp.mpf(scale) * mp.log(1 + (t + shift) // floor) for t in positions]
        parameters = {"scale": scale, "floor": floor, "shift": shift}
        cases.append({"name": title, "parameters": parameters, "positions": positions, "values": values})
    source = "Nakanishi 2025, arXiv:2501.19399; published code of Llama 4 and Ministral 3"
    return {"provenance": provenance(source), "cases": cases}


def logn() -> dict[str, Any]:
    cases = []
    for title, length, shift in (("Qwen 7B", 2048, 1), ("Qwen 72B", 32768, 1), ("Grok", 8192, 0), ("short", 3, 0)):
        positions = sorted({-1, 0, 1, length - 2, length - 1, length, length + 1, 10 * length, 1000000, 2**40})
        values = [max(mp.mpf(1), mp.log(t + shift) / mp.log(length)) if t + shift > 0 else mp.mpf(1) for t in positions]
        parameters = {"length": length, "shift": shift}
        cases.append({"name": title, "parameters": parameters, "positions": positions, "values": values})
    source = "Chiang, Cholak 2022, arXiv:2202.12172, section 5.3; published code of Qwen"
    return {"provenance": provenance(source), "cases": cases}


if __name__ == "__main__":
    with mp.workdps(50):
        makes: dict[str, Callable[[], dict[str, Any]]] = {
            name: (lambda name=name: schedule(name))  # type: ignore[misc]
            for name in CASES
        }
        sys.exit(write_or_check(makes | {"attention_temperature": attention_temperature, "logn": logn}, __doc__))
