"""What one part of `./dev test` found, and reading it from what test runners wrote."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Outcome:
    """What one part found. `skipped` counts by reason; `output` is shown when something failed."""

    passed: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    output: str = ""

    def add(self, other: Outcome) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.output += other.output


def read_gtest(path: Path) -> Outcome:
    found = Outcome()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None:
            found.failed += 1
        elif case.get("result") == "skipped" or case.find("skipped") is not None:
            skip = case.find("skipped")
            lines = (skip.get("message") or skip.text or "").strip().splitlines() if skip is not None else []
            found.skipped[lines[-1].removeprefix("Skipped: ") if lines else "no reason given"] += 1
        elif case.get("status") == "run":
            found.passed += 1
    return found


def read_junit(path: Path) -> list[tuple[str, str, str]]:
    """(name, passed|failed|skipped, reason) of every test case of pytest or ctest."""
    rows = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            rows.append((case.get("name", ""), "failed", ""))
        elif skip is not None or case.get("status") in ("notrun", "disabled"):
            rows.append((case.get("name", ""), "skipped", (skip.get("message") if skip is not None else "") or ""))
        else:
            rows.append((case.get("name", ""), "passed", ""))
    return rows
