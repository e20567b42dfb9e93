#!/usr/bin/env python3
"""Runs a program and compares what it prints with a committed text, number by number.

usage: compare_output.py EXPECTED.txt PROGRAM [ARGUMENTS...]    (LOCANT_UPDATE_EXPECTED=1 writes EXPECTED.txt)
Words must be equal. A number may differ by one in the last digit that the expected text shows: kernels of
different instruction sets may round the last digit differently, and nothing else may.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")


def last_digit(number: str) -> Decimal:
    """The value of one in the last digit shown; 0 for whole numbers, which must be equal."""
    exponent = Decimal(number).as_tuple().exponent
    whole = not re.search(r"[.eE]", number)
    return Decimal(0) if whole or not isinstance(exponent, int) else Decimal(1).scaleb(exponent)


def difference(expected: str, got: str) -> str | None:
    """What differs first, as a sentence, or None."""
    want_lines, got_lines = expected.splitlines(), got.splitlines()
    if len(want_lines) != len(got_lines):
        return f"{len(want_lines)} lines expected, {len(got_lines)} printed"
    for at, (want, have) in enumerate(zip(want_lines, got_lines, strict=True), 1):
        if NUMBER.sub("#", want).split() != NUMBER.sub("#", have).split():
            return f"line {at}: expected {want!r}, got {have!r}"
        for a, b in zip(NUMBER.findall(want), NUMBER.findall(have), strict=True):
            if abs(Decimal(a) - Decimal(b)) > last_digit(a):
                return f"line {at}: expected {a}, got {b} in {have!r}"
    return None


def main() -> int:
    expected, program = Path(sys.argv[1]), sys.argv[2:]
    done = subprocess.run(program, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{program[0]} ended with status {done.returncode}\n{done.stdout}{done.stderr}")
        return 1
    if os.environ.get("LOCANT_UPDATE_EXPECTED"):
        expected.parent.mkdir(parents=True, exist_ok=True)
        expected.write_text(done.stdout)
        return 0
    wrong = difference(expected.read_text(), done.stdout)
    if wrong:
        print(f"{expected.name}: {wrong}\nwhole output:\n{done.stdout}")
        return 1
    print(done.stdout, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
