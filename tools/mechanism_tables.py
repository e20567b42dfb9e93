#!/usr/bin/env python3
"""Writes the table of parameters of every page in docs/mechanisms from the descriptions in src/positions.

usage: mechanism_tables.py     replaces what stands between the two <!-- parameters --> marks
tests/structure/registry_test.py holds pages and code against each other with the same functions.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- parameters -->\n)(.*?)(<!-- parameters -->)", re.S)
HEAD = "| name | unit | default | config keys | meaning |\n|---|---|---|---|---|\n"
LITERAL = r'"(?:[^"\\]|\\.)*"'
Row = tuple[str, ...]  # name, unit, default, keys, meaning


def registered(root: Path) -> list[str]:
    """The mechanisms of the registry, in its order."""
    text = (root / "src/positions/registry.cc").read_text()
    table = re.search(r"kMechanisms\b[^{]*\{(.*?)\};", text, re.S)
    return re.findall(r"\b(\w+)\(\)", table.group(1)) if table else []


def parameters_of_code(root: Path, name: str) -> list[Row]:
    """The rows of kParameters in the mechanism's file, after those of rotary.h where it is a rotation's own kOwn;
    a parameter without a default is `required`."""
    text = (root / f"src/positions/{name}.cc").read_text()
    rows = rows_of(text, "kParameters") or rows_of(text, "kOwn")
    if "with_rotary(kOwn)" in text or ".parameters = kRotaryParameters" in text:
        rows = rows_of((root / "src/positions/rotary.h").read_text(), "kRotaryParameters") + rows
    return rows


def rows_of(text: str, array: str) -> list[Row]:
    table = re.search(rf"ParameterDescription, \d+> {array} = \{{\{{(.*?)\}}\}};", text, re.S)
    adjacent_joined = re.sub(r'"\s+"', "", table.group(1)) if table else ""
    listed = re.finditer(rf"\{{\s*({LITERAL}(?:\s*,\s*{LITERAL})*)\s*,?\s*\}}", adjacent_joined)
    rows = [tuple(text[1:-1] for text in re.findall(LITERAL, match[1])) for match in listed]
    return [(*row[:2], row[2] or "required", *row[3:]) for row in rows if len(row) == 5]


def parameters_of_page(text: str) -> list[Row]:
    block = BLOCK.search(text)
    lines = block.group(2).strip().splitlines()[2:] if block else []
    return [tuple(cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")) for line in lines]


def table(rows: list[Row]) -> str:
    def line(row: Row) -> str:
        name, unit, default, keys, meaning = row
        shown = default if default == "required" else f"`{default}`"
        return f"| `{name}` | {unit} | {shown} | {' '.join(f'`{key}`' for key in keys.split())} | {meaning} |\n"

    return HEAD + "".join(line(row) for row in rows)


def main() -> int:
    for name in registered(ROOT):
        page = ROOT / f"docs/mechanisms/{name}.md"
        parts = BLOCK.split(page.read_text()) if page.exists() else []
        if len(parts) != 5:  # before, opening mark, table, closing mark, after
            print(f"docs/mechanisms/{name}.md: no page with a <!-- parameters --> block")
            continue
        parts[2] = table(parameters_of_code(ROOT, name))
        page.write_text("".join(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
