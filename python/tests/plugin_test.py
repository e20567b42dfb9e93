# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: assert_positions_ok and the fixture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch

import locant
import tiny
from locant.pytest_plugin import assert_positions_ok, locant_report

__all__ = ["locant_report"]  # without an installation the plugin is not registered


@pytest.mark.parametrize("family", ["llama", "bloom", "gpt2"])
def test_clean_models_pass(family: str) -> None:
    assert_positions_ok(tiny.model(family))


def test_a_fault_fails_with_the_reports_text() -> None:
    model = tiny.model("llama")
    rotary = type(model.model.rotary_emb)
    original = rotary.forward

    def shifted(self: Any, x: torch.Tensor, position_ids: torch.Tensor, *args: Any, **given: Any) -> Any:
        return original(self, x, position_ids * 2, *args, **given)

    with mock.patch.object(rotary, "forward", shifted), pytest.raises(AssertionError, match="locant: 1 of") as told:
        assert_positions_ok(model, fail_on="note", select=["P", "R"])
    assert " error: " in str(told.value)
    assert "fix   " in str(told.value)


def test_what_is_ignored_does_not_fail() -> None:
    model = tiny.model("llama")
    rotary = type(model.model.rotary_emb)
    original = rotary.forward

    def shifted(self: Any, x: torch.Tensor, position_ids: torch.Tensor, *args: Any, **given: Any) -> Any:
        return original(self, x, position_ids * 2, *args, **given)

    with mock.patch.object(rotary, "forward", shifted):
        assert_positions_ok(model, ignore=["P", "R", "T"])


def test_the_fixture_gives_a_report(locant_report: Callable[..., locant.Report]) -> None:
    report = locant_report(tiny.model("llama"), ids=torch.arange(5, 25))
    assert isinstance(report, locant.Report)
    assert report.findings == []
    assert {one.kind for one in report.evidence} >= {"trace"}


def test_live_rules_drive_the_model() -> None:
    assert_positions_ok(tiny.model("llama"), live=True)
