# SPDX-License-Identifier: Apache-2.0
"""The files of the repository as the structure tests read them. Each check is a function of a root folder,
so that a test can also hand it a small tree with a seeded violation."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (".cc", ".h", ".py", ".md", ".txt", ".json", ".toml", ".cmake", ".in", ".yml", ".cfg", "dev", "run")
CACHES = {"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".cache"}
NOT_OURS = {".git", ".venv", ".venv-peers", "node_modules", *CACHES}


def files(root: Path, *folders: str, endings: tuple[str, ...] = (".cc", ".h")) -> Iterator[Path]:
    """Files under the folders (the whole tree when none is named), without build folders and caches."""
    for start in [root / folder for folder in folders] or [root]:
        for path in sorted(start.rglob("*")):
            parts = path.relative_to(root).parts
            ours = not any(p in NOT_OURS or p == "build" or p.startswith("build-") for p in parts)
            if ours and path.is_file() and path.name.endswith(endings):
                yield path


def place(root: Path, path: Path, line: int = 0) -> str:
    where = path.relative_to(root).as_posix()
    return f"{where}:{line}" if line else where


TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'', re.S
)


def code_of(text: str) -> str:
    """C++ without comments and without what stands in string literals; lines keep their numbers."""

    def blank(match: re.Match[str]) -> str:
        found = match.group(0)
        kept = "\n" * found.count("\n")
        return kept if found.startswith("/") else '""' + kept

    return TOKEN.sub(blank, text)


def write(root: Path, name: str, text: str) -> None:
    """For seeded trees."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def explained(name: str) -> dict[str, Any]:
    """What `locant explain NAME --json` prints; the test is skipped where the command is not built."""
    binary = ROOT / "build" / "locant"
    if not binary.exists():
        pytest.skip("build/locant is not built")
    done = subprocess.run([binary, "explain", name, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told
