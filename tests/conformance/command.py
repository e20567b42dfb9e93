# SPDX-License-Identifier: Apache-2.0
"""Runs the locant command as a user does and reads what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import load_file

ROOT = Path(__file__).resolve().parents[2]
Ids = Sequence[int]
TIME_LIMIT_S = 120


@dataclass
class Result:
    """One finished command: exit status, both streams, and the files it was asked for."""

    arguments: list[str]
    status: int
    stdout: bytes
    stderr: str
    logits_file: Path | None = None
    trace_file: Path | None = None
    _json: dict[str, Any] = field(default_factory=dict)

    @property
    def json(self) -> dict[str, Any]:
        if not self._json:
            self._json = json.loads(self.stdout)
        return self._json

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.json["rows"]
        return rows

    @property
    def logits(self) -> NDArray[np.float32]:
        """[B, T, V], also for one row."""
        assert self.logits_file is not None
        got: NDArray[np.float32] = np.load(self.logits_file)
        assert got.dtype == np.float32, f"--logits is {got.dtype}, expected float32"
        return got if got.ndim == 3 else got[None]

    @property
    def trace(self) -> dict[str, NDArray[Any]]:
        assert self.trace_file is not None
        tensors: dict[str, NDArray[Any]] = load_file(self.trace_file)
        return tensors

    @property
    def trace_metadata(self) -> dict[str, str]:
        assert self.trace_file is not None
        with safe_open(self.trace_file, "numpy") as file:
            return dict(file.metadata() or {})

    def continuation(self, row: int = 0) -> list[int]:
        ids: list[int] = self.rows[row]["continuation"]["ids"]
        return ids


def ids_text(ids: Ids) -> str:
    return ",".join(str(int(i)) for i in ids)


@dataclass
class Locant:
    """The command under test. Every run gets its own place for the files it writes."""

    binary: Path
    scratch: Path
    _runs: count[int] = field(default_factory=count)

    def raw(self, *arguments: str, stdin: bytes = b"") -> Result:
        environment = {**os.environ, "NO_COLOR": "1"}
        done = subprocess.run(
            [str(self.binary), *arguments],
            input=stdin,
            capture_output=True,
            timeout=TIME_LIMIT_S,
            env=environment,
            check=False,
        )
        return Result(list(arguments), done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))

    def run(
        self,
        model: Path | str,
        *flags: str,
        ids: Ids | Sequence[Ids] | None = None,
        logits: bool = False,
        trace: bool = False,
        stdin: bytes = b"",
    ) -> Result:
        """`locant run MODEL --json`; must succeed with one JSON object on stdout."""
        result = self.attempt(model, *flags, ids=ids, logits=logits, trace=trace, stdin=stdin)
        assert result.status == 0, f"locant {' '.join(result.arguments)[:400]}: exit {result.status}: {result.stderr}"
        assert result.json["command"] == "run"
        return result

    def attempt(
        self,
        model: Path | str,
        *flags: str,
        ids: Ids | Sequence[Ids] | None = None,
        logits: bool = False,
        trace: bool = False,
        stdin: bytes = b"",
    ) -> Result:
        """As run(), whatever the exit status."""
        arguments = ["run", str(model), "--json", *flags]
        for row in _rows(ids):
            arguments += ["--ids", ids_text(row)]
        folder = self.scratch / f"run-{next(self._runs)}"
        folder.mkdir(parents=True)
        logits_file = folder / "logits.npy" if logits else None
        trace_file = folder / "trace.safetensors" if trace else None
        if logits_file:
            arguments += ["--logits", str(logits_file)]
        if trace_file:
            arguments += ["--trace", str(trace_file)]
        result = self.raw(*arguments, stdin=stdin)
        result.logits_file, result.trace_file = logits_file, trace_file
        return result

    def ids_file(self, ids: NDArray[np.int64]) -> Path:
        return self.save(ids)

    def save(self, array: NDArray[Any]) -> Path:
        path = self.scratch / f"array-{next(self._runs)}.npy"
        np.save(path, array)
        return path


def _rows(ids: Ids | Sequence[Ids] | None) -> list[Ids]:
    if ids is None:
        return []
    if len(ids) and isinstance(ids[0], (int, np.integer)):
        return [[int(i) for i in ids]]  # type: ignore[arg-type]
    return [list(row) for row in ids]  # type: ignore[arg-type]
