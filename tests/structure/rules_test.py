# SPDX-License-Identifier: Apache-2.0
"""A rule is one constant, one row of the table and one page of the same title; none is missing or left over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tree import ROOT, explained, place, write

CONSTANT = re.compile(r'std::string_view (k\w+) = "(C\d{3})";')
ROW = re.compile(r'\{\.id = rules::(k\w+),\s*\.name =\s*"([a-z-]+)"')
TRACE_ROW = re.compile(r'Rule\{\s*\.id = "([A-Z]\d{3})",\s*\.name =\s*"([a-z-]+)"')


def rules(root: Path) -> dict[str, str]:
    """Id -> name of the rules that the code has."""
    ids = dict(CONSTANT.findall((root / "src/spec/config_rules.h").read_text()))
    table = {ids[constant]: name for constant, name in ROW.findall((root / "src/spec/config_rules.cc").read_text())}
    return table | dict(TRACE_ROW.findall((root / "src/check/catalogue.cc").read_text()))


def violations(root: Path) -> list[str]:
    ids = [number for _, number in CONSTANT.findall((root / "src/spec/config_rules.h").read_text())]
    found = [] if ids and len(ids) == len(set(ids)) else [f"config_rules.h: ids are there once each, got {ids}"]
    table = rules(root)
    found += [f"{number} has no row in src/spec/config_rules.cc" for number in ids if number not in table]
    sources = "".join(path.read_text() for path in (root / "src").rglob("*.cc") if path.name != "config_rules.cc")
    for constant, number in CONSTANT.findall((root / "src/spec/config_rules.h").read_text()):
        if f"rules::{constant}" not in sources:
            found.append(f"{number} is raised nowhere")
    raised = "".join(path.read_text() for path in (root / "src/check").glob("*.cc") if path.name != "catalogue.cc")
    found += [f"{number} is raised nowhere" for number in table if number not in ids and f'"{number}"' not in raised]
    for number, name in table.items():
        page = root / f"docs/rules/{number}.md"
        if not page.exists():
            found.append(f"{number}: docs/rules/{number}.md is missing")
        elif not page.read_text().startswith(f"# {number} {name}\n"):
            found.append(f"{number}: docs/rules/{number}.md is not titled '{number} {name}'")
    for path in sorted((root / "docs/rules").glob("*.md")):
        if path.stem not in table:
            found.append(f"{place(root, path)}: no rule has this id")
    return found


def test_every_rule_has_a_page() -> None:
    assert violations(ROOT) == []


def test_explain_prints_what_the_page_says() -> None:
    for number in rules(ROOT):
        rule = explained(number)["rule"]
        page = (ROOT / f"docs/rules/{number}.md").read_text()
        for part in ("summary", "needs", "example", "cannot_tell", "fix"):
            assert rule[part] in page, f"{number}: {part}"


HEADER = 'inline constexpr std::string_view kOne = "C101";\n'
TABLE = '{{.id = rules::kOne,\n .name = "one-rule",\n'


def seed(root: Path) -> None:
    write(root, "src/spec/config_rules.h", HEADER)
    write(root, "src/spec/config_rules.cc", TABLE)
    write(root, "src/spec/reader.cc", "odd(rules::kOne)")
    write(root, "src/check/catalogue.cc", 'Rule{.id = "R101",\n .name = "two-rule",')
    write(root, "src/check/rules_rotation.cc", 'add("R101")')
    write(root, "docs/rules/R101.md", "# R101 two-rule\n")
    write(root, "docs/rules/C101.md", "# C101 one-rule\n")


def test_a_whole_tree_passes(tmp_path: Path) -> None:
    seed(tmp_path)
    assert violations(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("docs/rules/C101.md", None, "docs/rules/C101.md is missing"),
        ("docs/rules/C101.md", "# C101 other-rule\n", "is not titled"),
        ("docs/rules/C102.md", "# C102 left\n", "no rule has this id"),
        ("src/spec/reader.cc", "", "C101 is raised nowhere"),
        ("src/check/rules_rotation.cc", "", "R101 is raised nowhere"),
        ("docs/rules/R101.md", None, "docs/rules/R101.md is missing"),
        ("src/spec/config_rules.h", HEADER + HEADER.replace("kOne", "kTwo"), "ids are there once each"),
    ],
)
def test_a_seeded_violation_is_found(tmp_path: Path, name: str, text: str | None, said: str) -> None:
    seed(tmp_path)
    if text is None:
        (tmp_path / name).unlink()
    else:
        write(tmp_path, name, text)
    assert any(said in found for found in violations(tmp_path)), violations(tmp_path)
