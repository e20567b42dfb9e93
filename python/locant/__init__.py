# SPDX-License-Identifier: Apache-2.0
"""Locant: the input and output side of a Transformer, exact, and able to find and name position faults.

>>> import locant
>>> locant.inspect("rope")["positions"][0]["mechanism"]
'rope'
>>> report = locant.check("rope")
>>> bool(report)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from locant import _locant
except ImportError as error:
    raise ImportError(
        "locant: the compiled part is not here; `pip install .` in the source tree installs it, "
        "`./dev build` leaves a package in build/python"
    ) from error

from locant import ops, runtime
from locant._locant import (
    Bias,
    Deviation,
    Evidence,
    Explained,
    FileError,
    Finding,
    Hypothesis,
    Mechanism,
    Note,
    Place,
    Plan,
    PositionEmbedding,
    PositionSpec,
    QueryScale,
    Recipe,
    Rotation,
    Rule,
    Session,
    Skipped,
    Spec,
    SpecError,
    TraceReader,
    families,
    get_threads,
    mechanisms,
    recipes,
    rules,
    runnable_families,
    set_threads,
)
from locant.diffs import Diff, diff
from locant.lengths import trust
from locant.models import Model, load
from locant.ops import attend, bias_scores, embed, head, project, rotate
from locant.plans import alibi_slopes, deberta_bucket, plan, t5_bucket, tables
from locant.reports import Report, check
from locant.runtime import Runtime, RuntimeSession
from locant.sources import explain, inspect, read_spec

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    from locant.capture.transformers import Recorder

__version__: str = _locant.version()


def trace(model: Any) -> AbstractContextManager[Recorder]:
    """Records every forward pass of a transformers model inside the context.

    >>> with locant.trace(model) as recorded:
    ...     model(input_ids=ids)
    >>> recorded.save("run.safetensors")

    Tensors are read on their way and none is changed; everything is put back at the end. Needs torch and transformers:
    `pip install locant[transformers]`.
    """
    from locant.capture.transformers import trace as record

    return record(model)


__all__ = [
    "Bias",
    "Deviation",
    "Diff",
    "Evidence",
    "Explained",
    "FileError",
    "Finding",
    "Hypothesis",
    "Mechanism",
    "Model",
    "Note",
    "Place",
    "Plan",
    "PositionEmbedding",
    "PositionSpec",
    "QueryScale",
    "Recipe",
    "Report",
    "Rotation",
    "Rule",
    "Runtime",
    "RuntimeSession",
    "Session",
    "Skipped",
    "Spec",
    "SpecError",
    "TraceReader",
    "alibi_slopes",
    "attend",
    "bias_scores",
    "check",
    "deberta_bucket",
    "diff",
    "embed",
    "explain",
    "families",
    "get_threads",
    "head",
    "inspect",
    "load",
    "mechanisms",
    "ops",
    "plan",
    "project",
    "read_spec",
    "recipes",
    "rotate",
    "rules",
    "runnable_families",
    "runtime",
    "set_threads",
    "t5_bucket",
    "tables",
    "trace",
    "trust",
]
