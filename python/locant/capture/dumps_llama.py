# SPDX-License-Identifier: Apache-2.0
"""What `llama-debug --save-logits` leaves: llamacpp-<model>.bin (f32 logits of the last token) or .txt (a line each),
-tokens.bin (int32) or -prompt.txt (a line of ids)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locant.capture.recorder import Recorder

IDS = re.compile(r"^token ids:\s*(.*)$", re.MULTILINE)
LINE = re.compile(r"^(\d+):\s*(\S+)$")


def load_llama_debug(path: Path) -> Recorder:
    """input_ids [1,T] and logits [1,1,V]. ValueError where a file is missing or cut."""
    stem = path.with_suffix("")
    logits, ids = _logits(stem), _ids(stem)
    recorder = Recorder("llama.cpp llama-debug", stem.name.removeprefix("llamacpp-"), step=0)
    recorder.put("input_ids", ids[None].astype(np.int64), "tokens")
    recorder.put("logits", logits[None, None], "result_output")
    embeddings = stem.with_name(f"{stem.name}-embeddings.bin")
    if embeddings.exists():
        recorder.left_out.append(f"{embeddings.name}: whether its rows are pooled and normed is not in the file")
    return recorder


def _numbers(path: Path, kind: Any) -> NDArray[Any]:
    raw = path.read_bytes()
    if not raw or len(raw) % 4:
        raise ValueError(f"dumps: {path.name} must hold numbers of 4 bytes, it has {len(raw)} bytes")
    return np.frombuffer(raw, kind)


def _logits(stem: Path) -> NDArray[np.float32]:
    binary, text = stem.with_name(f"{stem.name}.bin"), stem.with_name(f"{stem.name}.txt")
    if binary.exists():
        return _numbers(binary, "<f4")
    if not text.exists():
        raise ValueError(f"dumps: logits must lie in {binary.name} or {text.name}, neither is there")
    values = []
    for number, line in enumerate(text.read_text().splitlines()):
        match = LINE.fullmatch(line)
        if match is None or int(match[1]) != number:
            raise ValueError(f"dumps: line {number + 1} of {text.name} must be `{number}: value`, got {line[:40]!r}")
        values.append(float(match[2]))
    if not values:
        raise ValueError(f"dumps: {text.name} must hold a logit a line, it is empty")
    return np.array(values, np.float32)


def _ids(stem: Path) -> NDArray[np.int32]:
    binary, text = stem.with_name(f"{stem.name}-tokens.bin"), stem.with_name(f"{stem.name}-prompt.txt")
    if binary.exists():
        return _numbers(binary, "<i4")
    match = IDS.search(text.read_text()) if text.exists() else None
    if match is None:
        raise ValueError(f"dumps: token ids must lie in {binary.name} or {text.name}, neither has them")
    return np.array([int(one) for one in match[1].split(",")], np.int32)
