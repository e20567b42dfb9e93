#!/usr/bin/env python3
"""Writes the C++ header of error budgets from tests/budgets.json.

usage: budgets_header.py budgets.json budgets.h
Each entry: {"name": "rotation_f32", "value": 1.2e-7, "unit": "of the pair norm", "reason": "..."}
"""

import json
import sys
from pathlib import Path


def header(text: str) -> str:
    lines = [
        "// Generated from tests/budgets.json by tools/budgets_header.py.",
        "#pragma once",
        "",
        "namespace locant::budgets {",
    ]
    seen: set[str] = set()
    for entry in json.loads(text):
        name, value = entry["name"], float(entry["value"])
        if name in seen or not entry["reason"] or not entry["unit"] or value <= 0:
            raise SystemExit(f"budgets.json: {name}: names are unique, values positive, unit and reason are given")
        seen.add(name)
        camel = "k" + "".join(part.capitalize() for part in name.split("_"))
        lines += [f"/// {entry['unit']}: {entry['reason']}", f"inline constexpr double {camel} = {value!r};"]
    return "\n".join([*lines, "}  // namespace locant::budgets", ""])


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(header(source.read_text()))
