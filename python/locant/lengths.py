# SPDX-License-Identifier: Apache-2.0
"""trust(): how far a model's positions can be trusted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from locant import _locant
from locant._locant import SpecError
from locant.models import Model, load, rows_of
from locant.runtime import Runtime, from_transformers
from locant.sources import find_model, open_source
from locant.text import open_tokenizer


def trust(
    model: Any,
    *,
    documents: Sequence[Any] | None = None,
    runtime: Any = None,
    to: int | None = None,
    trained: int | None = None,
    budget: float = 120.0,
    seed: int = 1,
    recipe: str | None = None,
) -> dict[str, Any]:
    """What `locant trust --json` says, as a dict.

    `model`: a path, a bundled model's name, a Model, a config as a dict, or a transformers model or config.
    `documents`: texts, or rows of ids; None = what follows from config and weights alone. `runtime`: what is measured:
    a Model or a Runtime; None = Locant's own, or an adapter of the transformers model. `to`: how far is asked, in
    tokens; `trained`: what training saw, before any field. `budget`: seconds.

    Raises SpecError (ValueError) for texts that are too short, too few or all the same, a horizon past the table, and a
    budget that is too small.
    """
    own = model if isinstance(model, Model) else None
    with ExitStack() as stack:
        source = open_source(own.path if own else model, stack)
        live: Any = None
        rows: list[list[int]] = []
        lead: list[int] = []
        if documents is not None:
            live = _live(runtime, own or model, recipe)
            rows, lead = _rows(documents, source.path, source.spec.bos)
        elif runtime is not None:
            raise SpecError("trust: a runtime is measured on documents, none are given")
        told: dict[str, Any] = json.loads(
            _locant.trust(
                source.spec, source.weights, recipe or "", to, trained, live, rows, lead, float(budget), int(seed)
            )
        )
        return told


def _live(runtime: Any, model: Any, recipe: str | None) -> Any:
    """What the measurements drive."""
    if isinstance(runtime, Model):
        return runtime.loaded
    if isinstance(runtime, Runtime):
        return runtime
    if runtime is not None:
        raise SpecError(f"trust: a runtime is a Model or a Runtime, got {type(runtime).__name__}")
    if isinstance(model, Model):
        return model.loaded
    if hasattr(model, "forward") and hasattr(model, "config"):
        return from_transformers(model)
    if isinstance(model, dict) or hasattr(model, "model_type"):
        raise SpecError("trust: a config has no weights to be measured, give a model or a runtime")
    return load(find_model(model), recipe=recipe).loaded


def _rows(documents: Sequence[Any], path: str, bos: int | None) -> tuple[list[list[int]], list[int]]:
    """Rows of ids, and what the tokenizer puts in front of each: that stands before every window."""
    if isinstance(documents, str):
        documents = [documents]
    texts = [one for one in documents if isinstance(one, str)]
    if not texts:
        return [rows_of(one)[0] for one in documents], []
    if len(texts) != len(documents):
        raise SpecError("trust: documents are texts or rows of ids, not both")
    tokenizer = open_tokenizer(path)
    rows = [list(tokenizer.encode(text)) for text in texts]
    if bos is None or not all(row[:1] == [bos] for row in rows):
        return rows, []
    return [row[1:] for row in rows], [bos]
