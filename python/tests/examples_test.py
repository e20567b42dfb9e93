# SPDX-License-Identifier: Apache-2.0
"""Every example in Python runs, and prints what the pages show of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "cli"), str(ROOT / "examples")]
import found  # noqa: E402
from run_transcripts import matches, steps_of  # noqa: E402

PAGES = sorted((ROOT / "docs" / "problems").glob("*.md"))
FOUND = re.findall(r"`([a-z-]+)`", " ".join(re.findall(r"^## .*$", (ROOT / "docs/found.md").read_text(), re.M)))


def run(*arguments: str) -> tuple[int, list[str]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "build" / "python"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_problem_pages_show_what_their_script_prints(page: Path) -> None:
    (step,) = steps_of(page)
    program, script = step.command.split()
    assert program == "python"
    status, printed = run(script)
    assert status == step.status == 1
    assert matches(step.expected, printed), "\n".join(printed)
    assert printed[0] == "as it is: 0 found"


def test_there_are_six_of_them() -> None:
    assert len(PAGES) == 6


@pytest.mark.parametrize("name", [name for name in FOUND if name != "eager"])
def test_found_faults_are_still_there(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert found.show(found.CASES[name]) == 0
    printed = capsys.readouterr().out.splitlines()
    shown = [line for line in (ROOT / "docs/found.md").read_text().splitlines() if re.match(r"[A-Z]\d{3} ", line)]
    assert any(matches([line], printed[1:2]) for line in shown), "\n".join(printed)


def test_every_case_has_its_page() -> None:
    assert sorted(found.CASES) == sorted(name for name in FOUND if name != "eager")
