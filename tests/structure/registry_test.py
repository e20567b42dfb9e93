# SPDX-License-Identifier: Apache-2.0
"""A mechanism is one file, one registry line, one case file and one page; none is missing, none is left over,
and the page's table of parameters is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mechanism_tables import parameters_of_code, parameters_of_page, registered
from tree import ROOT, explained, place, write

# cases that belong to no single mechanism
SHARED_CASES = {
    "hf_grids",
    "hf_masked_tail_ids",
    "hf_mrope_ids",
    "hf_pad_offset_ids",
    "hf_padded_ids",
    "hf_partial_ropes",
    "hf_position_ids",
    "hf_sections",
    "peer_ctranslate2",
    "peer_llama_cpp",
    "peer_mlx",
    "peer_onnxruntime",
}
# a second set of cases of one mechanism
MORE_CASES = {"alibi_slopes", "hf_alibi_scores", "hf_falcon_slopes", "hf_sinusoids"}


def described(root: Path) -> set[str]:
    """Mechanisms that a file of src/positions describes, registered or not."""
    found = set()
    for path in (root / "src/positions").glob("*.cc"):
        found |= set(re.findall(r"^Mechanism (\w+)\(\) \{", path.read_text(), re.M))
    return found


def violations(root: Path) -> list[str]:
    names, found = registered(root), []
    if len(names) != len(set(names)) or not names:
        found.append(f"src/positions/registry.cc: mechanisms are registered once each, got {names}")
    found += [
        f"{name} is described in src/positions and not registered" for name in sorted(described(root) - set(names))
    ]
    for name in names:
        source = root / f"src/positions/{name}.cc"
        if not source.exists() or f"Mechanism {name}()" not in source.read_text():
            found.append(f"{name}: src/positions/{name}.cc does not describe it")
            continue
        if not (root / f"tests/cases/{name}.json").exists():
            found.append(f"{name}: tests/cases/{name}.json is missing")
        page = root / f"docs/mechanisms/{name}.md"
        if not page.exists():
            found.append(f"{name}: docs/mechanisms/{name}.md is missing")
            continue
        code, told = parameters_of_code(root, name), parameters_of_page(page.read_text())
        if not code:
            found.append(f"{name}: kParameters of src/positions/{name}.cc cannot be read")
        elif code != told:
            found.append(f"{name}: the table of docs/mechanisms/{name}.md is not that of the code")
    for folder, ending in (("tests/cases", ".json"), ("docs/mechanisms", ".md")):
        for path in sorted((root / folder).glob(f"*{ending}")):
            stem = path.stem.removeprefix("hf_")
            if stem not in names and path.stem not in SHARED_CASES | MORE_CASES and path.name != "README.md":
                found.append(f"{place(root, path)}: no registered mechanism has this name")
    return found


def test_the_registry_is_complete() -> None:
    assert violations(ROOT) == []


def test_explain_says_what_the_code_says() -> None:
    for name in registered(ROOT):
        told = explained(name)["mechanism"]["parameters"]
        rows = [(p["name"], p["unit"], p["default"] or "required", p["config_keys"], p["meaning"]) for p in told]
        assert rows == parameters_of_code(ROOT, name)


SOURCE = """namespace {
constexpr std::array<ParameterDescription, 2> kParameters = {{
    {"theta", "1", "10000", "rope_theta a.b",
     "base of "
     "the ladder"},
    {"width", "elements", "", "", "columns"},
}};
}
Mechanism rope() { return {}; }
"""
PAGE = """# rope
<!-- parameters -->
| name | unit | default | config keys | meaning |
|---|---|---|---|---|
| `theta` | 1 | `10000` | `rope_theta` `a.b` | base of the ladder |
| `width` | elements | required | | columns |
<!-- parameters -->
"""


def seed(root: Path) -> None:
    write(
        root, "src/positions/registry.cc", "Mechanism rope();\nstatic const std::array kMechanisms = {\n rope(),\n};\n"
    )
    write(root, "src/positions/rope.cc", SOURCE)
    write(root, "tests/cases/rope.json", "{}")
    write(root, "docs/mechanisms/rope.md", PAGE)


def test_a_whole_tree_passes(tmp_path: Path) -> None:
    seed(tmp_path)
    assert violations(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("src/positions/rope.cc", "", "src/positions/rope.cc does not describe it"),
        ("tests/cases/rope.json", None, "tests/cases/rope.json is missing"),
        ("docs/mechanisms/rope.md", None, "docs/mechanisms/rope.md is missing"),
        ("docs/mechanisms/rope.md", PAGE.replace("10000", "500"), "is not that of the code"),
        ("docs/mechanisms/rope.md", "# rope\n", "is not that of the code"),
        ("docs/mechanisms/left.md", "", "no registered mechanism"),
        ("tests/cases/left.json", "{}", "no registered mechanism"),
        (
            "src/positions/alibi.cc",
            "Mechanism alibi() {\n}\n",
            "alibi is described in src/positions and not registered",
        ),
    ],
)
def test_a_seeded_violation_is_found(tmp_path: Path, name: str, text: str | None, said: str) -> None:
    seed(tmp_path)
    if text is None:
        (tmp_path / name).unlink()
    else:
        write(tmp_path, name, text)
    found = violations(tmp_path)
    assert len(found) == 1
    assert said in found[0]
