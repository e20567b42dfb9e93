# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: the stub is the extension's, the version is the project's, nothing heavy is imported."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import locant
from tiny import ROOT


def test_version_is_that_of_the_project() -> None:
    stated = re.search(r"VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text())
    assert stated is not None
    assert locant.__version__ == stated[1]


def test_the_stub_is_what_the_extension_says(tmp_path: Path) -> None:
    pytest.importorskip("nanobind", reason="nanobind is not here")
    made = tmp_path / "stub.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "locant._locant", "-o", str(made)]
    path = str(Path(locant.__file__).parents[1])
    subprocess.run(command, check=True, env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"})
    committed = ROOT / "python" / "locant" / "_locant.pyi"
    assert made.read_text() == committed.read_text(), f"run: {' '.join(command[:-1])} {committed}"


def test_import_brings_nothing_heavy() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "import sys, locant; print(*{'torch', 'transformers', 'tokenizers'} & {*sys.modules})"],
        env={"PYTHONPATH": str(Path(locant.__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert said.stdout.split() == []


def test_every_public_name_is_there_and_described() -> None:
    missing = [name for name in locant.__all__ if not hasattr(locant, name)]
    assert missing == []
    assert [name for name in locant.__all__ if not (getattr(locant, name).__doc__ or "").strip()] == []


def test_errors_are_pythons_own_kinds() -> None:
    assert issubclass(locant.SpecError, ValueError)
    assert issubclass(locant.FileError, OSError)
    with pytest.raises(locant.FileError, match="a header has at most") as told:
        locant.TraceReader(str(ROOT / "README.md"))
    assert told.value.path == str(ROOT / "README.md")  # type: ignore[attr-defined]
    assert told.value.offset == 0  # type: ignore[attr-defined]


def test_threads_can_be_set() -> None:
    before = locant.get_threads()
    try:
        locant.set_threads(1)
        assert locant.get_threads() == 1
        with pytest.raises(locant.SpecError):
            locant.set_threads(0)
    finally:
        locant.set_threads(before)
