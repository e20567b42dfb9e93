# SPDX-License-Identifier: Apache-2.0
"""docs/families.md lists exactly the families that run computes, and the architectures whose files the tests write."""

from __future__ import annotations

import pytest

import families_table
from tree import ROOT


def test_the_page_lists_what_runs() -> None:
    binary = ROOT / "build" / "locant"
    if not binary.exists():
        pytest.skip("build/locant is not built")
    listed = families_table.families_of_page(families_table.PAGE.read_text())
    assert listed == families_table.runnable(binary)


def test_the_page_lists_the_files() -> None:
    listed = families_table.architectures_of_page(families_table.PAGE.read_text())
    pytest.importorskip("gguf", reason="gguf is not installed")
    from zoo_gguf import FILES

    assert listed == {(file.case.kind, file.architecture) for file in FILES.values()}


def test_a_missing_row_is_found() -> None:
    page = families_table.PAGE.read_text()
    lines = [line for line in page.splitlines() if not line.startswith("| `llama` ")]
    assert "llama" in families_table.families_of_page(page)
    assert "llama" not in families_table.families_of_page("\n".join(lines))
