# SPDX-License-Identifier: Apache-2.0
"""Golden files beside this one: written, or compared with what a generator says now."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from generate import text_of

FOLDER = Path(__file__).resolve().parent
Make = Callable[[], dict[str, Any]]
Agree = Callable[[dict[str, Any], dict[str, Any]], bool]


def write_or_check(makes: dict[str, Make], usage: str | None, agree: Agree | None = None) -> int:
    """Writes <name>.json of every entry; with --check compares the text, or the cases when `agree` is given."""
    arguments = sys.argv[1:]
    if arguments not in ([], ["--check"]):
        print(usage, file=sys.stderr)
        return 2
    stale = []
    for name, make in makes.items():
        path = FOLDER / f"{name}.json"
        text = text_of(make()) + "\n"
        if not arguments:
            path.write_text(text)
        elif not path.exists():
            stale.append(path.name)
        elif agree is None:
            stale += [path.name] if path.read_text() != text else []
        else:
            old, new = json.loads(path.read_text())["cases"], json.loads(text)["cases"]
            if len(old) != len(new) or not all(map(agree, old, new)):
                stale.append(path.name)
    for name in stale:
        print(f"{name} is not what {Path(sys.argv[0]).name} writes", file=sys.stderr)
    return 1 if stale else 0
