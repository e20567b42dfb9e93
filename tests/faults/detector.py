# SPDX-License-Identifier: Apache-2.0
"""One fault, or none, put into one model: what `locant check` says about its recorded passes."""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from budgets import budget
from command import Locant
from faults import Fault
from faults_positions import FAULTS as POSITIONS
from faults_rotation import FAULTS as ROTATIONS
from faults_scores import FAULTS as SCORES
from faults_vision import FAULTS as VISION
from passes import Run, record
from zoo import Zoo

ALL: list[Fault] = [*POSITIONS, *ROTATIONS, *SCORES, *VISION]


@dataclass(frozen=True)
class Case:
    fault: Fault
    family: str
    dtype: str
    strength: float

    @property
    def title(self) -> str:
        return f"{self.fault.title} [{self.family} {self.dtype} {self.strength:g}]"


@dataclass
class Answer:
    """What the command said: findings as (rule, severity, JSON object)."""

    findings: list[dict[str, Any]]
    passed: list[str]

    @property
    def rules(self) -> list[str]:
        return [finding["rule"] for finding in self.findings]

    def loud(self) -> list[str]:
        return [f["rule"] for f in self.findings if f["severity"] != "note"]

    def text(self) -> str:
        return "; ".join(f"{f['rule']} {f['severity']}: {f['message']}" for f in self.findings) or "nothing"


@dataclass
class Detector:
    locant: Locant
    zoo: Zoo
    folder: Path
    _runs: count[int] = field(default_factory=count)

    def ask(self, family: str, dtype: str, run: Run, faults: list[tuple[Fault, float]]) -> Answer:
        model = self.zoo.model(family, dtype)
        with ExitStack() as stack:
            for fault, strength in faults:
                stack.enter_context(fault.inject(model, strength))
            recorded = record(model, run)
        path = self.folder / f"{next(self._runs)}.safetensors"
        recorded.save(path)
        result = self.locant.raw("check", str(self.zoo.path(family)), "--trace", str(path), "--json")
        path.unlink()
        assert result.status in (0, 1), f"locant check: exit {result.status}: {result.stderr}"
        return Answer(result.json["findings"], result.json["passed"])


def cases(sample: bool) -> list[Case]:
    """All of them, or two of each fault: the first family in f32 and another, by a fixed draw, in any dtype."""
    chosen = []
    for fault in ALL:
        every = [Case(fault, family, dtype, strength) for strength in fault.strengths for family in fault.families
                 for dtype in fault.dtypes]  # fmt: skip
        if sample:
            rest = every[1:]
            every = every[:1] + random.Random(fault.title).sample(rest, min(1, len(rest)))
        chosen += every
    return chosen


def full() -> bool:
    return os.environ.get("LOCANT_FULL") == "1"


@dataclass
class Matrix:
    """recipe x rule: how often a rule named a recipe, and what else was said."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    wrong: list[str] = field(default_factory=list)
    total: int = 0

    def judge(self, case: Case, answer: Answer, model: Any) -> list[str]:
        """What is wrong with the answer."""
        before = len(self.wrong)
        self.total += 1
        fault = case.fault
        named = [rule for rule in answer.rules if rule in fault.rules]
        row = self.counts[fault.recipe]
        if named:
            row[named[0]] += 1
        else:
            row["missed"] += 1
            self.wrong.append(f"missed: {case.title}, {'/'.join(fault.rules)} due: {answer.text()}")
        strange = [rule for rule in answer.loud() if rule not in (*fault.rules, *fault.also)]
        if strange:
            row["strange"] += 1
            self.wrong.append(f"strange {' '.join(strange)}: {case.title}: {answer.text()}")
        elif named and fault.number is not None:
            got, expected, due = (*number_of(fault, answer), fault.number(model, case.strength))
            size = max(abs(due), abs(expected) if isinstance(expected, (int, float)) else 0)
            if not isinstance(got, (int, float)) or abs(got - due) > budget(f"fault_number_{case.dtype}") * size:
                row["number"] += 1
                self.wrong.append(f"number {got!r} where {due:.6g} is due: {case.title}: {answer.text()}")
        return self.wrong[before:]

    def lines(self) -> list[str]:
        out = [f"{'recipe':<8}{'cases':>6}{'named':>7}{'missed':>8}{'strange':>9}{'number':>8}  rules"]
        for recipe in sorted(self.counts):
            row = self.counts[recipe]
            rules = {rule: n for rule, n in row.items() if rule not in ("missed", "strange", "number")}
            named = sum(rules.values())
            out.append(
                f"{recipe:<8}{named + row['missed']:>6}{named:>7}{row['missed']:>8}{row['strange']:>9}"
                f"{row['number']:>8}  {' '.join(f'{rule}:{n}' for rule, n in sorted(rules.items()))}"
            )
        return out


def number_of(fault: Fault, answer: Answer) -> tuple[Any, Any]:
    """What was observed, and what was due instead."""
    for finding in answer.findings:
        if finding["rule"] not in fault.rules:
            continue
        if not fault.parameter:
            return finding["observed"], finding["expected"]
        for hypothesis in finding["hypotheses"]:
            if fault.parameter in hypothesis["parameters"]:
                return hypothesis["parameters"][fault.parameter], None
    return None, None


MATRIX = Matrix()  # of this session; printed at its end
