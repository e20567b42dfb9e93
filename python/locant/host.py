# SPDX-License-Identifier: Apache-2.0
"""What the command `locant` gets from Python: other runtimes to record and to drive, imports of dumps."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from locant._locant import SpecError

PLACE = str(Path(__file__).absolute().parent / "locant")
"""A file that would lie in the package: bundled models are in models/ beside it."""


@dataclass(frozen=True)
class RecordJob:
    """A recording of another runtime, or the import of what another tool dumped. See capture/."""

    runtime: str
    """"hf", "onnx", "llama.cpp"."""
    model: str
    """Path of the model."""
    dump: str
    """A directory or file of another tool to import; "": run the model."""
    output: str
    """The trace to write."""
    ids: list[list[int]]
    """Rows of the prompt."""
    steps: int
    """Greedy tokens after the prompt, one pass each."""
    pad: str
    """"left" or "right": where uneven rows are filled up."""


# runtime -> (module with record(job), packages it needs, the line that gets them)
ADAPTERS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "hf": ("locant.capture.decoding", ("torch", "transformers", "safetensors"), "locant[transformers]"),
    "onnx": ("locant.capture.onnx", ("onnx", "onnxruntime"), "locant[onnx]"),
    "llama.cpp": ("locant.capture.llama_cpp", ("llama_cpp",), "locant[llama-cpp]"),
}


def adapter(runtime: str) -> ModuleType:
    """The module that records a runtime. SpecError with the line that gets what is missing."""
    if runtime not in ADAPTERS:
        raise SpecError(f"--runtime {runtime}: there is locant, {', '.join(ADAPTERS)}")
    name, packages, extra = ADAPTERS[runtime]
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise SpecError(
                f"--runtime {runtime}: the package {package} is not installed here; `pip install '{extra}'` brings it"
            ) from error
    return _module(name, f"--runtime {runtime}")


def _module(name: str, who: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise SpecError(f"{who}: this version of locant has no {name}") from error


def record(
    *, runtime: str, model: str, dump: str, output: str, ids: Sequence[Sequence[int]], steps: int, pad: str
) -> None:
    """Writes the trace that a job asks for."""
    _silence()
    job = RecordJob(runtime, model, dump, output, [list(row) for row in ids], steps, pad)
    module = _module("locant.capture.dumps", "--from") if dump else adapter(runtime)
    module.record(job)


def _silence() -> None:
    """The command's stderr is its own: no progress bars or reports of other packages."""
    try:
        from transformers.utils import logging
    except ImportError:
        return
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def open_runtime(name: str, model: str) -> Any:
    """Another runtime, to be driven live."""
    if name != "hf":
        raise SpecError(f"--runtime {name}: locant and hf can be driven live")
    adapter(name)
    _silence()
    from locant.runtime import from_transformers

    return from_transformers(model)


def sentence(error: BaseException) -> str:
    """An exception as one line: its own words where it is one of ours, else its kind too."""
    words = " ".join(str(error).split())
    if isinstance(error, SpecError | OSError) and words:
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
