# SPDX-License-Identifier: Apache-2.0
"""The comparison that judges what the examples print."""

from __future__ import annotations

import pytest

from compare_output import difference


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ("x 1.250 rad", "x 1.251 rad"),
        ("x -0.0000", "x 0.0000"),
        ("a  1.5e-05\nb 7", "a 1.4e-05\nb 7"),
        ("slopes: 0.5, 0.25.", "slopes: 0.5, 0.25."),
    ],
)
def test_last_digits_may_differ_by_one(expected: str, got: str) -> None:
    assert difference(expected, got) is None


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ("x 1.250", "x 1.252"),
        ("x 7", "x 8"),
        ("x 1.0 rad", "x 1.0 deg"),
        ("a\nb", "a"),
        ("1 2", "1 2 3"),
        ("x 1.5", "x -1.5"),
        ("token 32000", "token 32001"),
    ],
)
def test_anything_else_is_a_difference(expected: str, got: str) -> None:
    assert difference(expected, got) is not None
