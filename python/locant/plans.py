# SPDX-License-Identifier: Apache-2.0
"""From what a model says to numbers: plans and the tables they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from locant import _locant
from locant._locant import (
    Bias,
    Plan,
    PositionEmbedding,
    PositionSpec,
    QueryScale,
    Rotation,
    Spec,
    SpecError,
    alibi_slopes,
    deberta_bucket,
    t5_bucket,
)
from locant.sources import read_spec

__all__ = ["alibi_slopes", "deberta_bucket", "plan", "t5_bucket", "tables"]
Positions = int | Sequence[int] | npt.NDArray[np.int64]


def plan(model: Any, recipe: str | None = None, *, seen: int = 0, capacity: int = 0, stack: str = "") -> Plan:
    """The plan of a model's positions under a recipe: what each layer rotates, adds or scales, in doubles.

    `model`: a Spec, or what read_spec() takes. `seen`: tokens so far; `capacity`: tokens the runtime was opened for
    (LongRoPE and dynamic NTK choose by one or the other). `stack`: "decoder", "encoder", "cross"; "" = the main one.
    `recipe`: None = the one the checkpoint was published for.
    """
    if isinstance(model, PositionSpec):
        raise SpecError("plan: a whole model, got a PositionSpec; its own plan() gives the site")
    spec = model if isinstance(model, Spec) else read_spec(model)
    return _locant.plan(spec, recipe or "", seen, capacity, stack)


def _positions(positions: Positions) -> npt.NDArray[np.int64]:
    if isinstance(positions, int):
        return np.arange(positions, dtype=np.int64)
    return np.ascontiguousarray(positions, dtype=np.int64)


def tables(
    site: Plan | Rotation | PositionEmbedding,
    positions: Positions,
    *,
    recipe: str | None = None,
    run_dtype: str = "f32",
    layer: int = 0,
) -> Any:
    """The table of a plan's site at positions: (cos, sin) [T, P] f32 of a rotation, amplitude included; rows [T, width]
    of a sinusoidal embedding.

    `positions`: a count T (0 .. T-1), [T], or [axes, T]. Of a Plan: the rotation of `layer`, or the sinusoid at the
    embedding where no layer rotates. `recipe`: whose numbers; None = the plan's own, "exact" for a bare site.
    Maximum error under "exact": 2^-24 * amplitude at positions below 2^24.
    """
    named = recipe or (site.recipe if isinstance(site, Plan) else "exact")
    at = _positions(positions)
    if isinstance(site, Plan):
        site = _site(site, layer)
    if isinstance(site, Rotation):
        return _locant.rotation_tables(site, at, named, run_dtype)
    if isinstance(site, PositionEmbedding):
        return _locant.sinusoid_rows(site, at, named, run_dtype)
    if isinstance(site, Bias | QueryScale):
        raise SpecError(f"tables: a rotation or a sinusoid has one, got {type(site).__name__}")
    raise SpecError(f"tables: a Plan, a Rotation or a PositionEmbedding, got {type(site).__name__}")


def _site(whole: Plan, layer: int) -> Rotation | PositionEmbedding:
    rotation = whole.layer(layer).rotation
    if rotation is not None:
        return rotation
    for embedding in whole.embedding:
        if embedding.form == "sinusoid":
            return embedding
    raise SpecError(f"tables: layer {layer} rotates nothing, and no sinusoid is added at the embedding")
