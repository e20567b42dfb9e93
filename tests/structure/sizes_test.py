# SPDX-License-Identifier: Apache-2.0
"""Files are small and do one job; large ones are listed with the reason. Names say what is inside."""

from __future__ import annotations

import re
import statistics
import warnings
from pathlib import Path

from tree import ROOT, files, place, write

LARGE = 400
FOLDERS = ("src", "include", "cli", "examples", "tests", "tools", "bench", "fuzz", "training", "python")
EMPTY_WORDS = re.compile(r"(^|_)(utils?|commons?|helpers?|misc)(_|\.|$)")


def lines(root: Path) -> dict[str, int]:
    return {
        place(root, path): path.read_text(errors="replace").count("\n")
        for path in files(root, *FOLDERS, endings=(".cc", ".h", ".py"))
    }


def unexplained(root: Path) -> list[str]:
    """Large files without a reason, and reasons without a large file."""
    listing = root / "tests" / "structure" / "large_files.txt"
    listed = {}
    for line in listing.read_text().splitlines() if listing.exists() else []:
        name, _, reason = line.partition(":")
        if line and not line.startswith("#"):
            listed[name.strip()] = reason.strip()
    counted = lines(root)
    found = [
        f"{name} has {n} lines and no reason in large_files.txt"
        for name, n in counted.items()
        if n > LARGE and not listed.get(name)
    ]
    found += [
        f"{name} is listed in large_files.txt and is not large" for name in listed if counted.get(name, 0) <= LARGE
    ]
    return found


def test_sizes() -> None:
    counted = lines(ROOT)
    large = sorted(name for name, n in counted.items() if n > LARGE)
    print(
        f"{len(counted)} files, median {statistics.median(counted.values()):.0f} lines, largest {max(counted.values())}"
    )
    if large:
        warnings.warn(f"files over {LARGE} lines: {', '.join(large)}", stacklevel=1)
    assert unexplained(ROOT) == []


def test_names_say_what_is_inside() -> None:
    found = [place(ROOT, p) for p in files(ROOT, *FOLDERS, endings=(".cc", ".h", ".py")) if EMPTY_WORDS.search(p.name)]
    assert found == []
    assert EMPTY_WORDS.search("string_utils.cc")
    assert EMPTY_WORDS.search("common.h")


def test_a_seeded_large_file_is_found(tmp_path: Path) -> None:
    write(tmp_path, "src/core/a.cc", "\n" * (LARGE + 1))
    assert [text.split()[0] for text in unexplained(tmp_path)] == ["src/core/a.cc"]
    write(
        tmp_path, "tests/structure/large_files.txt", "# name: reason\nsrc/core/a.cc: one table\nsrc/core/b.cc: gone\n"
    )
    assert unexplained(tmp_path) == ["src/core/b.cc is listed in large_files.txt and is not large"]
