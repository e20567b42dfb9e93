# SPDX-License-Identifier: Apache-2.0
"""What documents quote of an example's output is what the example prints: `<!-- example: NAME -->` and a text block
hold examples/expected/NAME.txt, which ctest compares with the program."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QUOTED = re.compile(r"<!-- example: (\w+) -->\n```text\n(.*?)\n```", re.S)


def wrong_quotes(page: str, expected: Path) -> list[str]:
    """Names of examples that the page quotes otherwise than they print, or without a block."""
    quoted = dict(QUOTED.findall(page))
    named = re.findall(r"<!-- example: (\w+) -->", page)
    return [
        name
        for name in named
        if name not in quoted or (expected / f"{name}.txt").read_text(encoding="utf-8").rstrip() != quoted[name]
    ]


def test_documents_quote_what_examples_print() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = {
        page.name: wrong_quotes(page.read_text(encoding="utf-8"), ROOT / "examples" / "expected") for page in pages
    }
    assert not {name: wrong for name, wrong in found.items() if wrong}
    assert any("<!-- example: " in page.read_text(encoding="utf-8") for page in pages)


def test_a_wrong_quote_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n", encoding="utf-8")
    page = "<!-- example: a -->\n```text\n1\n{}\n```\n"
    assert wrong_quotes(page.format(2), tmp_path) == []
    assert wrong_quotes(page.format(3), tmp_path) == ["a"]
    assert wrong_quotes("<!-- example: a -->\n", tmp_path) == ["a"]
