# SPDX-License-Identifier: Apache-2.0
"""A row's answer depends on its tokens and positions alone: not on padding, chunks, other rows or threads."""

from __future__ import annotations

import numpy as np
import pytest

from budgets import assert_within
from command import Locant
from models import FAMILIES, ModelShop, random_ids
from reference import Reference

ROWS = [random_ids(5, seed=1), random_ids(61, seed=2), random_ids(17, seed=3)]
SIDES = ("left", "right")


def span(row: list[int], side: str, width: int) -> slice:
    start = width - len(row) if side == "left" else 0
    return slice(start, start + len(row))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("family", FAMILIES)
def test_row_in_a_padded_batch(locant: Locant, reference: Reference, shop: ModelShop, family: str, side: str) -> None:
    model, width = shop.get(family), max(map(len, ROWS))
    batch = locant.run(model, "--pad", side, ids=ROWS, logits=True)
    hf = reference.batch_logits(model, ROWS, side)
    assert batch.logits.shape[:2] == (len(ROWS), width)
    for index, row in enumerate(ROWS):
        inside = span(row, side, width)
        got = batch.logits[index, inside]
        alone = locant.run(model, ids=row, logits=True).logits[0]
        assert_within(got, alone, "conformance_padding", f"{family} {side} row {index} against itself alone")
        assert_within(got, hf[index], "conformance_family", f"{family} {side} row {index} against transformers")
        padding = np.delete(batch.logits[index], np.arange(width)[inside], axis=0)
        assert np.isnan(padding).all(), f"{family} {side} row {index}: padding rows are NaN"
        assert batch.rows[index]["ids"] == row
        assert batch.rows[index]["positions"] == list(range(len(row)))


@pytest.mark.parametrize("family", FAMILIES)
def test_default_padding_gives_the_same_rows(locant: Locant, shop: ModelShop, family: str) -> None:
    model = shop.get(family)
    default = locant.run(model, "--continue", "12", ids=ROWS)
    for side in SIDES:
        chosen = locant.run(model, "--continue", "12", "--pad", side, ids=ROWS)
        for index in range(len(ROWS)):
            assert chosen.continuation(index) == default.continuation(index)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_a_batch_continue_as_alone(locant: Locant, reference: Reference, shop: ModelShop, family: str) -> None:
    model = shop.get(family, tie_word_embeddings=False)
    batch = locant.run(model, "--continue", "16", ids=ROWS)
    for index, row in enumerate(ROWS):
        assert batch.continuation(index) == reference.greedy(model, row, 16).ids, f"{family} row {index}"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "prompt", [1, 7, pytest.param(33, marks=pytest.mark.full), pytest.param(64, marks=pytest.mark.full)]
)
def test_token_by_token_is_the_prompt_at_once(
    locant: Locant, reference: Reference, shop: ModelShop, family: str, prompt: int
) -> None:
    """The same 80 tokens, fed at once, and as a prompt whose greedy continuation is the rest."""
    model = shop.get(family, tie_word_embeddings=False)
    start = random_ids(prompt, seed=23)
    steps = 80 - prompt
    want = reference.greedy(model, start, steps + 1)
    result = locant.run(model, "--continue", str(steps + 1), ids=start, logits=True, trace=True)
    assert result.continuation() == want.ids
    trace = result.trace
    stepped = np.concatenate(
        [result.logits[0], *(trace[f"step.{step}/logits"][0, -1:] for step in range(1, steps + 1))]
    )
    whole = locant.run(model, ids=start + want.ids[:steps], logits=True).logits[0]
    assert_within(stepped, whole, "conformance_padding", f"{family}, prompt of {prompt}")
    assert_within(stepped, want.logits, "conformance_family", f"{family}, prompt of {prompt}, transformers' steps")


@pytest.mark.parametrize("family", FAMILIES)
def test_prompt_logits_do_not_see_what_follows(locant: Locant, shop: ModelShop, family: str) -> None:
    """Prompts that end at any length share their logits: odd sizes around the block sizes of kernels."""
    model, ids = shop.get(family), random_ids(130, seed=29)
    whole = locant.run(model, ids=ids, logits=True).logits[0]
    for length in (2, 3, 15, 16, 17, 31, 33, 63, 65, 127, 129):
        part = locant.run(model, ids=ids[:length], logits=True).logits[0]
        assert_within(part, whole[:length], "conformance_padding", f"{family}, first {length} of 130")


@pytest.mark.parametrize("family", FAMILIES)
def test_threads_do_not_change_a_bit(locant: Locant, shop: ModelShop, family: str) -> None:
    model = shop.get(family)
    rows = [random_ids(300, seed=31), random_ids(77, seed=32)]
    runs = {
        threads: locant.run(model, "--threads", str(threads), "--continue", "10", ids=rows, logits=True, trace=True)
        for threads in (1, 2, 3)
    }
    first = runs[1]
    assert first.logits_file and first.trace_file
    for threads, run in runs.items():
        assert run.logits_file and run.trace_file
        assert run.logits_file.read_bytes() == first.logits_file.read_bytes(), f"{family}: {threads} threads"
        trace, expected = run.trace, first.trace
        assert trace.keys() == expected.keys()
        differing = [name for name in trace if trace[name].tobytes() != expected[name].tobytes()]
        assert not differing, f"{family}: {threads} threads: {differing[:5]}"


@pytest.mark.parametrize("family", ["llama", "gpt2", "xglm"])
@pytest.mark.parametrize("start", [1, 97])
def test_start_is_transformers_position_ids(
    locant: Locant, reference: Reference, shop: ModelShop, family: str, start: int
) -> None:
    model, ids = shop.get(family), random_ids(40, seed=37)
    result = locant.run(model, "--start", str(start), ids=ids, logits=True)
    positions = list(range(start, start + len(ids)))
    want = reference.logits(model, ids, positions)
    assert_within(result.logits[0], want, "conformance_family", f"{family} from {start}")
    assert result.rows[0]["positions"] == positions


@pytest.mark.parametrize(("family", "start"), [("llama", 1000), ("bloom", 1000), ("bloom", 97)])
def test_relative_mechanisms_do_not_see_the_start(locant: Locant, shop: ModelShop, family: str, start: int) -> None:
    model, ids = shop.get(family), random_ids(60, seed=41)
    moved = locant.run(model, "--start", str(start), ids=ids, logits=True).logits[0]
    still = locant.run(model, ids=ids, logits=True).logits[0]
    assert_within(moved, still, "conformance_shift", f"{family} from {start}")


@pytest.mark.parametrize("family", ["llama", "gpt2", "xglm"])
def test_explicit_positions(locant: Locant, reference: Reference, shop: ModelShop, family: str) -> None:
    """Positions that jump, repeat and fall, for one row, and per row of a batch."""
    model, length = shop.get(family), 24
    rng = np.random.default_rng(43)
    rows = [random_ids(length, seed=44), random_ids(length, seed=45)]
    positions = np.stack([rng.integers(0, 390, length), np.arange(length) * 3])
    one = locant.run(model, "--positions", str(locant.save(positions[0])), ids=rows[0], logits=True)
    want = reference.logits(model, rows[0], positions[0].tolist())
    assert_within(one.logits[0], want, "conformance_family", f"{family}, positions [T]")
    assert one.rows[0]["positions"] == positions[0].tolist()
    both = locant.run(model, "--positions", str(locant.save(positions)), ids=rows, logits=True)
    for index, row in enumerate(rows):
        want = reference.logits(model, row, positions[index].tolist())
        assert_within(both.logits[index], want, "conformance_family", f"{family}, positions [B,T] row {index}")


def test_a_shared_row_of_positions_serves_every_row(locant: Locant, reference: Reference, shop: ModelShop) -> None:
    model = shop.get("gpt2")
    rows = [random_ids(12, seed=46), random_ids(12, seed=47)]
    positions = np.arange(12, dtype=np.int64) * 2 + 5
    result = locant.run(model, "--positions", str(locant.save(positions)), ids=rows, logits=True)
    for index, row in enumerate(rows):
        want = reference.logits(model, row, positions.tolist())
        assert_within(result.logits[index], want, "conformance_family", f"positions [T] for row {index}")


@pytest.mark.parametrize("side", SIDES)
def test_positions_of_an_uneven_batch(locant: Locant, reference: Reference, shop: ModelShop, side: str) -> None:
    """[B, T] positions stand where their tokens stand; what stands on padding does not matter."""
    model, width = shop.get("gpt2"), max(map(len, ROWS))
    positions = np.full((len(ROWS), width), 399, dtype=np.int64)
    for index, row in enumerate(ROWS):
        positions[index, span(row, side, width)] = 10 * (index + 1) + np.arange(len(row))
    flags = ("--pad", side, "--positions", str(locant.save(positions)))
    result = locant.run(model, *flags, ids=ROWS, logits=True)
    for index, row in enumerate(ROWS):
        inside = span(row, side, width)
        want = reference.logits(model, row, positions[index, inside].tolist())
        assert_within(result.logits[index, inside], want, "conformance_family", f"{side}-padded row {index}")


@pytest.mark.parametrize(("family", "start"), [("llama", 250), ("gpt2", 250), ("xglm", 250), ("xglm", 2050)])
def test_continuation_counts_on_from_the_start(
    locant: Locant, reference: Reference, shop: ModelShop, family: str, start: int
) -> None:
    model, ids = shop.get(family, tie_word_embeddings=False), random_ids(10, seed=51)
    result = locant.run(model, "--start", str(start), "--continue", "12", ids=ids, trace=True)
    chosen = result.continuation()
    positions = list(range(start, start + len(ids) + len(chosen)))
    want = reference.logits(model, ids + chosen, positions)
    assert [int(row.argmax()) for row in want[len(ids) - 1 : -1]] == chosen
    trace = result.trace
    for step in (1, 11):
        assert trace[f"step.{step}/position_ids"].ravel().tolist() == [start + len(ids) + step - 1]
        got = trace[f"step.{step}/logits"][0, -1]
        assert_within(got, want[len(ids) + step - 1], "conformance_family", f"{family} from {start}, step {step}")


def test_row_order_does_not_matter(locant: Locant, shop: ModelShop) -> None:
    model = shop.get("llama")
    width = max(map(len, ROWS))
    forward = locant.run(model, "--pad", "right", ids=ROWS, logits=True).logits
    backward = locant.run(model, "--pad", "right", ids=ROWS[::-1], logits=True).logits
    for index, row in enumerate(ROWS):
        inside = span(row, "right", width)
        got, want = backward[len(ROWS) - 1 - index, inside], forward[index, inside]
        assert_within(got, want, "conformance_padding", f"row {index} at another place")
