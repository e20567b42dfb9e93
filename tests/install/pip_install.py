#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pip install .` into a fresh virtual environment, and a user's first lines there: the import, the command, the
bundled models, the pytest plugin, and every block of Python in README.md and docs/python.md. Blocks that need PyTorch
or transformers get those of the interpreter that runs this. Prints `ok NAME` or `FAILED NAME` for each step.

usage: pip_install.py [FOLDER]     works in FOLDER (kept) or in a temporary one (removed)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "docs" / "python.md")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
HEAVY = re.compile(r"^\s*(import|from) (torch|transformers)\b", re.M)


# where PyTorch, transformers and pytest lie
BORROWED = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))


class Failed(Exception):
    """A step that did not do what it should; the text says what."""


def run(*command: str | Path, cwd: Path, borrowed: str = "") -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**kept, **({"PYTHONPATH": borrowed} if borrowed else {}), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def install(work: Path) -> None:
    run(sys.executable, "-m", "venv", work / "venv", cwd=work)
    began = time.monotonic()
    run(work / "venv/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", ROOT, cwd=work)
    print(f"pip install took {time.monotonic() - began:.0f} s", flush=True)


def check_import(work: Path) -> None:
    """Nothing but numpy came along, and it is typed."""
    said = run(work / "venv/bin/python", "-m", "pip", "list", "--format=freeze", cwd=work)
    names = {line.split("==")[0].lower() for line in said.splitlines() if "==" in line}
    if names - {"pip", "setuptools", "locant", "numpy"}:
        raise Failed(f"installed: {sorted(names)}")
    lines = (
        "import locant, importlib.resources as r; files = {p.name for p in r.files('locant').iterdir()};"
        "assert {'py.typed', '_locant.pyi', 'models'} <= files, files; print(locant.__version__)"
    )
    version = run(work / "venv/bin/python", "-c", lines, cwd=work).strip()
    if f"locant VERSION {version} " not in (ROOT / "CMakeLists.txt").read_text():
        raise Failed(f"version {version}")


def check_command(work: Path) -> None:
    command = work / "venv/bin/locant"
    for model in ("rope", "alibi", "learned", "sinusoidal", "rope-yarn"):
        told = run(command, "run", model, "--ids", "5,6,7", "--json", "--quiet", cwd=work)
        if '"tool": "locant"' not in told and '"tool":"locant"' not in told:
            raise Failed(f"locant run {model} said {told}")
    run(command, "check", "rope", cwd=work)


def check_plugin(work: Path) -> None:
    """The plugin registers itself: its fixture is there without an import."""
    test = work / "test_plugin.py"
    test.write_text("def test_it(locant_report):\n    assert callable(locant_report)\n")
    said = run(work / "venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", test, cwd=work,
               borrowed=BORROWED)  # fmt: skip
    if "1 passed" not in said:
        raise Failed(said)


def check_block(work: Path, text: str) -> None:
    borrowed = BORROWED if HEAVY.search(text) else ""
    script = work / "block.py"
    script.write_text(text)
    shutil.copytree(ROOT / "models", work / "models", dirs_exist_ok=True)
    run(work / "venv/bin/python", script, cwd=work, borrowed=borrowed)


def main() -> int:
    kept = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
    work = kept or Path(tempfile.mkdtemp(prefix="locant-pip-"))
    steps: dict[str, Callable[[], None]] = {
        "pip install": partial(install, work),
        "import": partial(check_import, work),
        "command": partial(check_command, work),
        "plugin": partial(check_plugin, work),
    }
    for page in PAGES:
        for number, text in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")) if page.exists() else [], 1):
            steps[f"{page.name}: block {number}"] = partial(check_block, work, text)
    failures = 0
    try:
        for name, step in steps.items():
            try:
                step()
                print(f"ok {name}", flush=True)
            except (Failed, OSError) as error:
                failures += 1
                print(f"FAILED {name}: {error}", flush=True)
    finally:
        if kept is None:
            shutil.rmtree(work, ignore_errors=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
