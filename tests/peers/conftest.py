# SPDX-License-Identifier: Apache-2.0
"""LOCANT_SEEN names a file for what the matrix of families measured (tools/families_table.py)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from budgets import MEASURED, SEEN, budget
from command import ROOT, Locant


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if place := os.environ.get("LOCANT_SEEN"):
        Path(place).write_text(json.dumps(SEEN))
    if not MEASURED:
        return
    terminalreporter.section("largest differences seen")
    for name, (seen, what) in sorted(MEASURED.items()):
        terminalreporter.write_line(f"{name:34} {seen:9.3g} of {budget(name):9.3g}  {what}")


@pytest.fixture(scope="session")
def locant(tmp_path_factory: pytest.TempPathFactory) -> Locant:
    binary = Path(os.environ.get("LOCANT_BIN", ROOT / "build" / "locant"))
    if not binary.is_file():
        pytest.fail(f"{binary} is missing: build it first (./dev build), or name another with LOCANT_BIN")
    return Locant(binary, tmp_path_factory.mktemp("locant"))
