# SPDX-License-Identifier: Apache-2.0
"""Imports what other tools dumped as a trace.

A directory of transformers' model_addition_debugger_context(..., use_repr=False), whose last pass it is, and what
llama.cpp's `llama-debug --save-logits` leaves. What has no place in a trace is listed in `left_out`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from locant.capture.dumps_debugger import load_debugger
from locant.capture.dumps_llama import load_llama_debug
from locant.capture.recorder import Recorder


def load(path: str | Path, model: str | Path | None = None) -> Recorder:
    """path: a directory or a file of either tool. model: a directory with config.json, which says how many heads
    there are: without it q, k and v of a debugger's dump are left out. ValueError where the dump is neither."""
    path = Path(path)
    if path.is_dir() and any(path.glob("*_debug_tree*.json")):
        return load_debugger(path, None if model is None else Path(model))
    if path.is_dir():
        found = sorted(one for one in path.glob("llamacpp-*") if one.suffix in (".bin", ".txt") and not _beside(one))
        stems = {one.with_suffix("") for one in found}
        if len(stems) != 1:
            raise ValueError(f"dumps: {path} must hold one dump of a tool that is known, there are {len(stems)}")
        return load_llama_debug(found[0])
    if path.is_file() and path.name.startswith("llamacpp-"):
        return load_llama_debug(path)
    raise ValueError(
        f"dumps: {path} must be the directory of a debugger context or a file of llama-debug, it is neither"
    )


def _beside(path: Path) -> bool:
    return path.stem.endswith(("-tokens", "-prompt", "-embeddings"))


def record(job: Any) -> None:
    """Writes the trace that `locant trace --from` asks for: see locant.host.RecordJob."""
    load(job.dump, job.model or None).save(job.output)
