#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases of biases and token types: buckets in whole numbers, slopes in 50 digits (mpmath).

usage: generate_bias.py [--check]
Writes t5_buckets.json, deberta.json, xlnet.json, alibi_slopes.json and token_types.json beside this file; --check
compares instead.
"""

import sys
from typing import Any

import mpmath as mp

from generate import alibi_slopes as slopes_of
from golden_files import write_or_check

FAR = [-(2**40), -100000, -4097, -2048, -513, -512, -511, 511, 512, 513, 2048, 4097, 100000, 2**40]
RELATIVE = sorted(list(range(-200, 201)) + FAR)


def provenance(source: str, arithmetic: str) -> dict[str, str]:
    return {"generator": "tests/cases/generate_bias.py", "arithmetic": arithmetic, "source": source}


def t5_bucket(relative: int, buckets: int, max_distance: int, bidirectional: bool) -> int:
    """floor((n - e) ln(d/e) / ln(max/e)) is the largest k with (max/e)^k <= (d/e)^(n - e)."""
    side = buckets // 2 if bidirectional else buckets
    if relative > 0 and not bidirectional:
        return 0
    first = side if relative > 0 else 0
    distance, exact = abs(relative), side // 2
    if distance < exact:
        return first + distance
    if distance >= max_distance:
        return first + side - 1
    count, step = side - exact, 0
    while max_distance ** (step + 1) * exact**count <= distance**count * exact ** (step + 1):
        step += 1
    return first + min(exact + step, side - 1)


def t5_buckets() -> dict[str, Any]:
    cases = []
    for buckets, max_distance, direction in (
        (32, 128, "bidirectional"),
        (32, 128, "causal"),
        (64, 256, "bidirectional"),
        (32, 1024, "causal"),
        (320, 800, "bidirectional"),
        (12, 100, "causal"),
        (33, 128, "bidirectional"),
        (4, 20, "bidirectional"),
        (2, 2, "causal"),
        (83, 1000, "causal"),
    ):
        found = [t5_bucket(r, buckets, max_distance, direction == "bidirectional") for r in RELATIVE]
        cases.append(
            {
                "parameters": {
                    "heads": 12,
                    "buckets": buckets,
                    "max_distance": max_distance,
                    "direction": direction,
                },
                "relative": RELATIVE,
                "buckets": found,
            }
        )
    source = "Raffel et al. 2020, arXiv:1910.10683, section 2.1; relative is key - query"
    return {"provenance": provenance(source, "whole numbers"), "cases": cases}


def deberta_bucket(relative: int, buckets: int, max_distance: int) -> int:
    """ceil((m - 1) ln(d/m) / ln((max - 1)/m)) is the smallest k with (d/m)^(m - 1) <= ((max - 1)/m)^k."""
    middle, distance = buckets // 2, abs(relative)
    if buckets == 0 or distance <= middle:
        return relative
    step = 0
    while distance ** (middle - 1) * middle**step > (max_distance - 1) ** step * middle ** (middle - 1):
        step += 1
    return middle + step if relative > 0 else -(middle + step)


def deberta() -> dict[str, Any]:
    cases = []
    for buckets, max_distance in ((256, 512), (0, 512), (0, 3), (32, 128), (64, 257), (10, 100), (16, 65), (4, 5)):
        # Further away the row is an end of the table, whatever the bucket.
        relative = [r for r in RELATIVE if abs(r) <= 5000]
        found = [deberta_bucket(r, buckets, max_distance) for r in relative]
        span = buckets or max_distance
        cases.append(
            {
                "parameters": {
                    "heads": 12,
                    "max_relative_positions": max_distance,
                    "position_buckets": buckets or -1,
                },
                "relative": relative,
                "buckets": found,
                "rows": [min(max(bucket + span, 0), 2 * span - 1) for bucket in found],
            }
        )
    source = "He et al. 2021, arXiv:2006.03654; buckets of DeBERTa-v2; relative is query - key"
    return {"provenance": provenance(source, "whole numbers"), "cases": cases}


def xlnet() -> dict[str, Any]:
    cases = []
    for width, theta, clamp in ((8, 10000, 0), (1024, 10000, -1), (96, 123456, 300)):
        ladder = [mp.power(theta, mp.mpf(-2 * i) / width) for i in range(width // 2)]
        columns = sorted({0, 1, width // 2 - 1, width // 2, width // 2 + 1, width - 1})
        distances = [-131071, -2049, -257, -1, 0, 1, 255, 256, 299, 300, 301, 2048, 4097, 1000000]
        held = [min(max(d, -clamp), clamp) if clamp > 0 else d for d in distances]
        cases.append(
            {
                "parameters": {"heads": 12, "width": width, "theta": theta, "clamp": clamp},
                "inv_freq": ladder,
                "columns": columns,
                "distances": distances,
                "rows": [
                    [(mp.sin if c < width // 2 else mp.cos)(d * ladder[c % (width // 2)]) for c in columns]
                    for d in held
                ],
            }
        )
    source = "Dai et al. 2019, arXiv:1901.02860, section 3.3; distance is query - key"
    return {"provenance": provenance(source, f"mpmath {mp.__version__}, 50 digits"), "cases": cases}


def rounded(value: mp.mpf, bits: int) -> mp.mpf:
    """To the nearest number of `bits` significant bits, ties to even."""
    mantissa, exponent = mp.frexp(value)
    return mp.ldexp(mp.nint(mp.ldexp(mantissa, bits)), int(exponent) - bits)


def alibi_slopes() -> dict[str, Any]:
    cases = []
    for heads in (1, 7, 12, 32, 64, 71):
        for dtype, bits in (("bf16", 8), ("f16", 11)):
            slopes = [rounded(slope, bits) for slope in slopes_of(heads, 8)]
            cases.append({"parameters": {"heads": heads, "slope_dtype": dtype}, "slopes": slopes})
    source = "Press et al. 2022, arXiv:2108.12409, section 3, rounded to the significant bits of the dtype"
    arithmetic = f"mpmath {mp.__version__}, 50 digits"
    return {"provenance": provenance(source, arithmetic), "cases": cases}


def token_types() -> dict[str, Any]:
    cases = []
    for rows, width in ((2, 768), (1, 1), (4, 10)):
        types = [-1, 0, 1, 2, 3, 4, 2**40]
        inside = [kind if 0 <= kind < rows else None for kind in types]
        cases.append({"parameters": {"rows": rows, "width": width}, "types": types, "rows": inside})
    source = "row = type inside [0, rows), null outside; Devlin et al. 2018, arXiv:1810.04805, section 3.2"
    return {"provenance": provenance(source, "whole numbers"), "cases": cases}


if __name__ == "__main__":
    with mp.workdps(50):
        makes = {make.__name__: make for make in (t5_buckets, deberta, xlnet, alibi_slopes, token_types)}
        sys.exit(write_or_check(makes, __doc__))
