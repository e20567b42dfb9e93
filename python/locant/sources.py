# SPDX-License-Identifier: Apache-2.0
"""What the argument `model` means everywhere: a path, a bundled model's name, a config, a transformers model."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locant import _locant
from locant._locant import FileError, Spec, SpecError

BUNDLED = ("rope", "alibi", "learned", "sinusoidal", "rope-yarn")


@dataclass(frozen=True)
class Source:
    """A model's spec, and where its weights lie ("" = nowhere)."""

    spec: Spec
    weights: str
    path: str


def find_model(model: str | os.PathLike[str]) -> str:
    """The path of a model, or of a bundled one. FileError when there is neither."""
    name = os.fspath(model)
    if not Path(name).exists() and name not in BUNDLED:
        raise FileError(f"{name}: no such path, and no bundled model ({', '.join(BUNDLED)})")
    return _locant.find_model(name)


def config_of(model: Any) -> tuple[dict[str, Any], str] | None:
    """The config of a transformers model or config, or a dict; and what to call it."""
    if isinstance(model, dict):
        return model, str(model.get("model_type", "config"))
    config = getattr(model, "config", model)
    if not hasattr(config, "to_json_string") or not hasattr(config, "model_type"):
        return None
    told: dict[str, Any] = json.loads(config.to_json_string())
    if config is not model and not told.get("architectures"):
        told["architectures"] = [type(model).__name__]
    return told, type(model).__name__


def open_source(model: Any, stack: ExitStack) -> Source:
    """Reads a model; a config that is no file lies in a temporary folder until `stack` closes."""
    if isinstance(model, str | os.PathLike):
        path = find_model(model)
        spec = _locant.read_spec(path)
        return Source(spec, _locant.weights_beside(path, spec), path)
    told = config_of(model)
    if told is None:
        raise SpecError(
            f"model: a path, a bundled model's name, a config or a transformers model, got {type(model).__name__}"
        )
    config, name = told
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="locant-"))) / name
    folder.mkdir()
    path = str(folder / "config.json")
    Path(path).write_text(json.dumps(config), encoding="utf-8")
    return Source(_locant.read_spec(path), "", path)


def read_spec(model: Any, *, strict: bool = False) -> Spec:
    """What a model says of itself. What is not understood becomes a note, or under `strict` a SpecError.

    `model`: a path (directory, config.json, params.json, .gguf), a bundled model's name, a config as a dict, or a
    transformers model or config. FileError: missing or damaged; SpecError: a value that no model has.
    """
    with ExitStack() as stack:
        source = open_source(model, stack)
        if strict and source.spec.format == "hf":
            return _locant.read_spec_strict(source.path)
        return source.spec


def inspect(
    model: Any, *, distance: int | None = None, capacity: int | None = None, recipe: str | None = None
) -> dict[str, Any]:
    """The facts of a model in numbers: embedding, head, positions, attention, limits; the keys of `locant inspect
    --json`. `distance` states the plan when so many tokens were seen, `capacity` when the runtime was opened for so
    many.
    """
    with ExitStack() as stack:
        source = open_source(model, stack)
        facts: dict[str, Any] = json.loads(
            _locant.facts_json(source.spec, source.weights, recipe or "", distance, capacity)
        )
        return facts


def explain(name: str) -> str:
    """The page of a mechanism, a recipe or a rule ("rope", "llama.cpp", "R103"). SpecError with the nearest name."""
    status, page, said = _locant.command_text(["explain", name, "--color", "never"])
    if status != 0:
        raise SpecError(said.removeprefix("locant: ").strip())
    return page
