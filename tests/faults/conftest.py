# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the command, the models that faults go into, and the matrix that is printed at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from command import ROOT, Locant
from detector import MATRIX, Detector, Matrix
from faults import ELSEWHERE
from zoo import Zoo, data_folder


@pytest.fixture(scope="session")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Detector]:
    binary = Path(os.environ.get("LOCANT_BIN", ROOT / "build" / "locant"))
    if not binary.is_file():
        pytest.fail(f"{binary} is missing: build it first (./dev build), or name another with LOCANT_BIN")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny matrices: threads would cost more than they bring
    folder = tmp_path_factory.mktemp("faults")
    yield Detector(Locant(binary, folder), Zoo(folder, data_folder()), folder)
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return MATRIX


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not MATRIX.total:
        return
    terminalreporter.section("faults put in and what named them")
    for line in MATRIX.lines():
        terminalreporter.write_line(line)
    for recipe, reason in ELSEWHERE.items():
        terminalreporter.write_line(f"{recipe}: {reason}")
