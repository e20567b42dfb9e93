# SPDX-License-Identifier: Apache-2.0
"""What every capture fills and saves: the tensors of the passes so far under the canonical names of a trace.

Tensors are numpy arrays or torch tensors (bf16 comes as the latter); torch is imported where one is held.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64"}
Rows = Sequence[Sequence[int]]


def dtype_named(dtype: Any) -> str:
    """ "f32" and so on, of a dtype of numpy or torch; "f32" of any other."""
    return DTYPES.get(str(dtype).removeprefix("torch."), "f32")


@dataclass
class Recorder:
    """The tensors of the passes so far, by canonical name; those of a later pass behind `step.N/`."""

    producer: str
    model: str = ""
    """What was run: a class, a file."""
    dtype: str = "f32"
    """What it was computed in: "f32", "f16", "bf16", "f64"."""
    stack: str = ""
    """"encoder" where an encoder stands alone."""
    tensors: dict[str, Any] = field(default_factory=dict, repr=False)
    source_names: dict[str, str] = field(default_factory=dict)
    """Canonical name -> name in the runtime."""
    left_out: list[str] = field(default_factory=list)
    """A sentence for what was there and has no place in the trace."""
    step: int = -1
    """The pass that runs; -1 before the first."""

    def key(self, name: str) -> str:
        """The name in the pass that runs."""
        return (f"step.{self.step}/" if self.step > 0 else "") + name

    def put(self, name: str, tensor: Any, source: str = "") -> None:
        """Keeps a copy; the first tensor of a name in a pass stays."""
        key = self.key(name)
        if key not in self.tensors:
            self.tensors[key] = _copy(tensor)
            if source:
                self.source_names.setdefault(name, source)

    def get(self, name: str) -> Any:
        """The tensor of that name in the pass that runs, or None."""
        return self.tensors.get(self.key(name))

    def drop(self, prefix: str) -> None:
        """Forgets the tensors of the pass that runs whose names start so."""
        for name in [key for key in self.tensors if key.startswith(self.key(prefix))]:
            del self.tensors[name]

    def save(self, path: str | Path) -> None:
        """Writes the trace: one safetensors file."""
        metadata = {
            "locant.trace": "1",
            "locant.producer": self.producer,
            "locant.model": self.model,
            "locant.dtype": self.dtype,
            "locant.source_names": json.dumps(self.source_names, sort_keys=True),
        }
        if self.stack:
            metadata["locant.stack"] = self.stack
        if any(not isinstance(tensor, np.ndarray) for tensor in self.tensors.values()):
            from safetensors.torch import save_file as save_torch

            save_torch({name: _torch(tensor) for name, tensor in self.tensors.items()}, str(path), metadata)
        else:
            from safetensors.numpy import save_file

            save_file(self.tensors, str(path), metadata)


def _copy(tensor: Any) -> Any:
    if isinstance(tensor, np.ndarray):
        return np.array(tensor, order="C")
    return tensor.detach().to("cpu", copy=True).contiguous()


def _torch(tensor: Any) -> Any:
    if not isinstance(tensor, np.ndarray):
        return tensor
    import torch

    return torch.from_numpy(tensor)


@dataclass(frozen=True)
class Prompt:
    """Rows of token ids as one batch: `ids` and `mask` [B,T], 1 = token."""

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]

    @property
    def uneven(self) -> bool:
        return bool((self.mask == 0).any())

    @property
    def positions(self) -> NDArray[np.int64]:
        """[B,T]: each row counts its own tokens from 0; padding has 0."""
        counted: NDArray[np.int64] = np.maximum(self.mask.cumsum(-1) - 1, 0)
        return counted


def prompt(who: str, rows: Rows | NDArray[Any], pad: str = "left", fill: int = 0) -> Prompt:
    """Rows filled up on one side. ValueError where a row is empty or `pad` is neither "left" nor "right"."""
    given = [[int(one) for one in row] for row in np.atleast_2d(rows)] if isinstance(rows, np.ndarray) else rows
    if not given or not all(len(row) for row in given):
        raise ValueError(f"{who}: every row must hold a token or more")
    if pad not in ("left", "right"):
        raise ValueError(f"{who}: padding stands left or right, got {pad}")
    width = max(len(row) for row in given)
    ids, mask = np.full((len(given), width), fill, np.int64), np.zeros((len(given), width), np.int64)
    for index, row in enumerate(given):
        place = slice(width - len(row), width) if pad == "left" else slice(0, len(row))
        ids[index, place], mask[index, place] = row, 1
    return Prompt(ids, mask)
