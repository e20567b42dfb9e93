# SPDX-License-Identifier: Apache-2.0
"""For pytest: assert_positions_ok(model), and the fixture locant_report.

>>> from locant.pytest_plugin import assert_positions_ok
>>> def test_positions():
...     assert_positions_ok(AutoModelForCausalLM.from_pretrained("path", attn_implementation="eager"))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from locant.reports import Report

TOKENS, SHORTER, STEPS = 24, 17, 2


def positions_report(
    model: Any,
    ids: Any = None,
    *,
    select: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    live: bool = False,
) -> Report:
    """Records a transformers model and checks what it did: a left-padded batch with two decode steps, and with `live`
    the rules that drive it. `ids` [T]: the longer row of the batch; None = drawn from the vocabulary.

    Scores are recorded where attention has an explicit softmax: under attn_implementation="eager".
    """
    from locant.capture.decoding import record_rows
    from locant.reports import check
    from locant.runtime import from_transformers

    row = _drawn(model) if ids is None else [int(one) for one in (ids.tolist() if hasattr(ids, "tolist") else ids)]
    shorter = row[: max(1, len(row) * SHORTER // TOKENS)]
    recorded = record_rows(model, [shorter, row], steps=STEPS, pad="left")
    runtime = from_transformers(model) if live else None
    return check(model, trace=recorded, runtime=runtime, ids=row if live else None, select=select, ignore=ignore)


def _drawn(model: Any) -> list[int]:
    vocab = int(model.config.get_text_config().vocab_size)
    least = 5 if vocab > TOKENS else 0
    return [least + (31 * index + index * index) % (vocab - least) for index in range(TOKENS)]


def assert_positions_ok(
    model: Any,
    ids: Any = None,
    *,
    select: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    fail_on: str = "error",
    live: bool = False,
) -> None:
    """AssertionError with the report's text when a finding of severity `fail_on` or above is there.

    See positions_report() for what is recorded.
    """
    __tracebackhide__ = True
    report = positions_report(model, ids, select=select, ignore=ignore, live=live)
    found = report.worst(fail_on)
    if found:
        raise AssertionError(f"locant: {len(found)} of severity {fail_on} or above\n{report}")


@pytest.fixture
def locant_report() -> Callable[..., Report]:
    """positions_report(): records a transformers model, checks it and returns the report."""
    return positions_report
