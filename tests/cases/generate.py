#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases of the position mechanisms, from their formulas in 50 digits (mpmath).

usage: generate.py [--check]
Writes rope.json, alibi.json, sinusoidal.json and learned.json beside this file; --check compares instead.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

FOLDER = Path(__file__).resolve().parent
DIGITS = 20
POWERS = (10, 12, 14, 15, 16, 18, 20, 22, 23)
POSITIONS = sorted(
    {0, 1, 255, 256, 257, 2047, 2048, 2049, 4097, 131071, 1000000, 2**24 - 1, -1, -257, -131071}
    | {2**k + step for k in POWERS for step in (-1, 1)}
)


def text_of(value: Any, indent: int = 1) -> str:
    """JSON with numbers of DIGITS digits; lists of plain values stay on one line."""
    pad = " " * indent
    if isinstance(value, dict):
        lines = [f"{pad}{text_of(key)}: {text_of(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + pad[1:] + "}"
    if isinstance(value, list):
        if any(isinstance(item, (dict, list)) for item in value):
            lines = [f"{pad}{text_of(item, indent + 1)}" for item in value]
            return "[\n" + ",\n".join(lines) + "\n" + pad[1:] + "]"
        return "[" + ", ".join(text_of(item) for item in value) + "]"
    if isinstance(value, mp.mpf):
        return mp.nstr(value, DIGITS)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "null" if value is None else str(value)


def provenance(source: str) -> dict[str, str]:
    return {
        "generator": "tests/cases/generate.py",
        "arithmetic": f"mpmath {mp.__version__}, {mp.mp.dps} digits, written with {DIGITS}",
        "source": source,
    }


def rope() -> dict[str, Any]:
    cases = []
    for theta, head_dim, rotary_dim, offset, pairs in (
        (10000, 8, 8, 0, [0, 1, 2, 3]),
        (500000, 10, 10, 0, [0, 1, 2, 3, 4]),
        (123456, 64, 64, 0, [0, 1, 7, 16, 31]),
        (10000, 96, 96, 0, [0, 1, 23, 47]),
        (500000, 128, 128, 0, [0, 1, 2, 31, 63]),
        (10000, 128, 128, 0, [1, 5, 40, 63]),
        (123456, 96, 10, 0, [0, 1, 4]),
        (10000, 192, 64, 128, [0, 3, 31]),
    ):
        ladder = [mp.power(theta, mp.mpf(-2 * i) / rotary_dim) for i in range(rotary_dim // 2)]
        cases.append(
            {
                "parameters": {
                    "theta": theta,
                    "head_dim": head_dim,
                    "rotary_dim": rotary_dim,
                    "rotary_offset": offset,
                },
                "inv_freq": ladder,
                "pairs": pairs,
                "positions": POSITIONS,
                "cos": [[mp.cos(p * ladder[i]) for i in pairs] for p in POSITIONS],
                "sin": [[mp.sin(p * ladder[i]) for i in pairs] for p in POSITIONS],
            }
        )
    return {"provenance": provenance("Su et al. 2021, arXiv:2104.09864, eq. 15 and 34"), "cases": cases}


def alibi_slopes(heads: int, bias_max: int) -> list[mp.mpf]:
    """Section 3 of the paper for powers of two; the authors' published code for the rest."""
    power = 2 ** (heads.bit_length() - 1)
    slopes = [mp.power(2, -mp.mpf(bias_max * k) / power) for k in range(1, power + 1)]
    doubled = [mp.power(2, -mp.mpf(bias_max * k) / (2 * power)) for k in range(1, 2 * power + 1)]
    return slopes + doubled[::2][: heads - power]


def alibi() -> dict[str, Any]:
    counts = [(heads, 8) for heads in (1, 2, 3, 5, 7, 8, 12, 16, 20, 40, 71)] + [(12, 16), (16, 4)]
    cases = [
        {"parameters": {"heads": heads, "bias_max": bias_max}, "slopes": alibi_slopes(heads, bias_max)}
        for heads, bias_max in counts
    ]
    return {"provenance": provenance("Press et al. 2022, arXiv:2108.12409, section 3"), "cases": cases}


def sinusoid(dialect: str, theta: int, width: int) -> tuple[list[mp.mpf], Callable[[int, int], mp.mpf]]:
    """The ladder, and the value of a column at a row. An odd width has a last sine where the ladder goes on."""
    half = width // 2
    of_paper = dialect in ("paper", "ctrl", "xt")
    if of_paper:
        ladder = [mp.power(theta, mp.mpf(-2 * i) / width) for i in range((width + 1) // 2)]
    else:
        ladder = [mp.exp(-k * mp.log(theta) / max(half - 1, 1)) for k in range(half)]
    if dialect == "paper":
        return ladder, lambda row, c: (mp.cos if c % 2 else mp.sin)(row * ladder[c // 2])
    count = len(ladder)
    first, second = (mp.cos, mp.sin) if dialect == "cos_first" else (mp.sin, mp.cos)

    def value(row: int, c: int) -> mp.mpf:
        if c >= 2 * count:
            return mp.mpf(0)
        return first(row * ladder[c]) if c < count else second(row * ladder[c - count])

    return ladder, value


def sinusoidal() -> dict[str, Any]:
    cases = []
    for dialect, theta, width, offset, zero_row, columns in (
        ("paper", 10000, 8, 0, None, list(range(8))),
        ("paper", 10000, 512, 0, None, [0, 1, 2, 3, 255, 256, 510, 511]),
        ("paper", 123456, 10, 1, None, list(range(10))),
        ("halves", 10000, 8, 0, None, list(range(8))),
        ("halves", 10000, 9, 2, 1, list(range(9))),
        ("halves", 10000, 1024, 2, 1, [0, 1, 255, 511, 512, 513, 767, 1023]),
        ("halves", 500000, 64, 0, 0, [0, 1, 16, 31, 32, 48, 63]),
        ("halves", 10000, 2, 0, None, [0, 1]),
        ("paper", 10000, 9, 0, None, list(range(9))),
        ("ctrl", 10000, 8, 0, None, list(range(8))),
        ("ctrl", 10000, 9, 0, None, list(range(9))),
        ("ctrl", 10000, 512, 0, None, [0, 1, 28, 255, 256, 257, 284, 511]),
        ("marian", 10000, 9, 0, None, list(range(9))),
        ("marian", 10000, 512, 0, None, [0, 1, 28, 255, 256, 257, 284, 511]),
        ("cos_first", 10000, 8, 0, None, list(range(8))),
        ("cos_first", 10000, 11, 1, 0, list(range(11))),
        ("cos_first", 123456, 1024, 0, None, [0, 1, 511, 512, 513, 1023]),
        ("xt", 10000, 8, 0, None, list(range(8))),
        ("xt", 500000, 96, 0, None, [0, 1, 47, 48, 95]),
    ):
        ladder, value = sinusoid(dialect, theta, width)
        scale = mp.mpf(1) / 4 if dialect == "xt" else mp.mpf(1)
        parameters: dict[str, Any] = {"width": width, "dialect": dialect, "theta": theta, "offset": offset}
        if zero_row is not None:
            parameters["zero_row"] = zero_row
        if dialect == "xt":
            parameters["scale"] = scale
        rows = [
            [mp.mpf(0) if p + offset == zero_row else scale * value(p + offset, c) for c in columns] for p in POSITIONS
        ]
        cases.append(
            {
                "parameters": parameters,
                "inv_freq": ladder,
                "columns": columns,
                "positions": POSITIONS,
                "rows": rows,
            }
        )
    source = "Vaswani et al. 2017, arXiv:1706.03762, section 3.5; halves: tensor2tensor, get_timing_signal_1d"
    return {"provenance": provenance(source), "cases": cases}


def learned() -> dict[str, Any]:
    cases = []
    for rows, width, offset in ((1024, 768, 0), (2050, 512, 2), (514, 64, 2), (1, 1, 0), (3, 5, 2)):
        positions = sorted({-3, -2, -1, 0, 1, 255, 256, 257, rows - offset - 1, rows - offset, rows, 2**62})
        inside = [p + offset if 0 <= p + offset < rows else None for p in positions]
        cases.append(
            {
                "parameters": {"rows": rows, "width": width, "offset": offset},
                "positions": positions,
                "rows": inside,
            }
        )
    source = "row = position + offset inside [0, rows), null outside; Gehring et al. 2017, arXiv:1705.03122"
    return {"provenance": provenance(source), "cases": cases}


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = []
    with mp.workdps(50):
        for make in (rope, alibi, sinusoidal, learned):
            path = FOLDER / f"{make.__name__}.json"
            text = text_of(make()) + "\n"
            if not arguments:
                path.write_text(text)
            elif not path.exists() or path.read_text() != text:
                stale.append(path.name)
    for name in stale:
        print(f"{name} is not what generate.py writes", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
