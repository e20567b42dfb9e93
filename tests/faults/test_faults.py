# SPDX-License-Identifier: Apache-2.0
"""Every fault that is put in is found and named by its rule, nothing else fires, and the number is right."""

from __future__ import annotations

import random

import pytest

import passes
from detector import ALL, Case, Detector, Matrix, cases, full
from faults import Fault


def shown(case: Case) -> str:
    return case.title.replace(" ", "_")


@pytest.mark.parametrize("case", cases(sample=not full()), ids=shown)
def test_is_named(case: Case, detector: Detector, matrix: Matrix) -> None:
    if not detector.zoo.has(case.family):
        pytest.skip(f"no real checkpoints: {detector.zoo.data} is missing (LOCANT_DATA names the folder)")
    answer = detector.ask(case.family, case.dtype, case.fault.run, [(case.fault, case.strength)])
    wrong = matrix.judge(case, answer, detector.zoo.model(case.family, case.dtype))
    assert not wrong, "\n".join(wrong)


def test_every_recipe_that_can_be_is_there(matrix: Matrix) -> None:
    """F06, F11, F18 to F20, F39 and F40 are no recipes of the catalogue."""
    from faults import ELSEWHERE

    known = {fault.recipe for fault in ALL} | {word.split()[0] for word in ELSEWHERE}
    left_out = {6, 11, 18, 19, 20, 39, 40}
    assert known >= {f"F{number:02}" for number in range(1, 43) if number not in left_out}
    del matrix


# -- two at once

PAIRS, NAMED = 30, 27
TOGETHER = ("F01 decoding stays at 0", "F03 prompt length added again", "F08 columns as positions, prompt only",
            "F13 rotated twice", "F13 turns back", "F15 interleaved kernel", "F22 theta is the default",
            "F23 linear unasked", "F24 another softmax scale", "F24 amplitude where none is due",
            "F32 scale where none is due", "F33 rows of other ids", "F33 embedding loaded from the head",
            "F33 head is the embedding", "F33 logits scaled", "F41 pads visible", "F41 future visible")  # fmt: skip


def places(fault: Fault) -> str:
    """Faults of one place hide each other: what is drawn comes from two."""
    if fault.recipe in ("F01", "F03", "F08"):
        return "positions"
    if fault.recipe in ("F13", "F15", "F22", "F23"):
        return "rotation"
    return fault.name


@pytest.mark.parametrize("seed", range(5, 15) if full() else (7,))
def test_two_at_once_are_both_named(seed: int, detector: Detector) -> None:
    pool = [fault for fault in ALL if fault.title in TOGETHER]
    assert len(pool) == len(TOGETHER)
    draw = random.Random(seed)
    missed = []
    for number in range(PAIRS):
        one, other = draw.sample(pool, 2)
        while places(one) == places(other) or {"F33 embedding loaded from the head", "F33 head is the embedding"} == {
            one.title, other.title
        }:  # fmt: skip
            one, other = draw.sample(pool, 2)
        family = draw.choice(("llama", "qwen2"))
        dtype = "f32" if number % 3 else "bf16"
        answer = detector.ask(family, dtype, passes.PADDED, [(one, one.strengths[0]), (other, other.strengths[0])])
        if not all(set(answer.rules) & set(fault.rules) for fault in (one, other)):
            missed.append(f"{one.title} and {other.title} [{family} {dtype}]: {answer.text()}")
    assert PAIRS - len(missed) >= NAMED, "\n".join(missed)
