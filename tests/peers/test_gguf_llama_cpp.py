# SPDX-License-Identifier: Apache-2.0
"""How channels pair in GGUF files: `locant inspect` against llama_model_rope_type, for each architecture of llama.cpp.

LOCANT_BIN names another binary than build/locant. The files hold keys and three small tensors; llama.cpp opens them for
their vocabulary alone, which is enough for the rope type.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
gguf = pytest.importorskip("gguf", reason="gguf is not installed")

ROOT = Path(__file__).resolve().parents[2]
NONE, NORM, NEOX, MROPE, IMROPE = -1, 0, 2, 8, 40

# GPT-J's graph is gone from llama.cpp; those of BERT and StarCoder have learned positions whatever the type says.
DIFFERENT = {"bert": NONE, "gptj": NORM, "starcoder": NONE}


def write(name: str, path: Path) -> None:
    writer = gguf.GGUFWriter(path, name)
    for key, number in {
        "context_length": 64,
        "embedding_length": 32,
        "block_count": 4,
        "feed_forward_length": 48,
        "attention.head_count": 4,
        "attention.relative_buckets_count": 32,
        "attention.sliding_window": 8,
    }.items():
        writer.add_uint32(f"{name}.{key}", number)
    for key, value in {
        "attention.layer_norm_epsilon": 1e-5,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "logit_scale": 0.5,
        "attention.compress_rope_freq_base": 160000.0,
    }.items():
        writer.add_float32(f"{name}.{key}", value)
    writer.add_array(f"{name}.rope.dimension_sections", [2, 1, 1, 0])
    writer.add_array(f"{name}.attention.sliding_window_pattern", [True, True, True, False])
    writer.add_array(f"{name}.attention.compress_ratios", [0, 4, 0, 4])
    writer.add_string("tokenizer.ggml.model", "none")
    writer.add_tensor("token_embd.weight", np.zeros((8, 32), np.float32))
    writer.add_tensor("position_embd.weight", np.zeros((64, 32), np.float32))
    writer.add_tensor("output_norm.weight", np.zeros(32, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("architectures")
    paths = {name: folder / f"{name}.gguf" for name in sorted(gguf.MODEL_ARCH_NAMES.values())}
    for name, path in paths.items():
        write(name, path)
    return paths


@pytest.fixture(scope="module")
def rope_types(files: dict[str, Path]) -> dict[str, int | None]:
    """None where llama.cpp does not open the file."""
    quiet = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    options = llama_cpp.llama_model_default_params()
    options.vocab_only = True
    types: dict[str, int | None] = {}
    for name, path in files.items():
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        types[name] = llama_cpp.llama_model_rope_type(model) if model else None
        if model:
            llama_cpp.llama_model_free(model)
    llama_cpp.llama_log_set(llama_cpp.llama_log_callback(), ctypes.c_void_p(0))
    return types


def inspect(path: Path) -> dict[str, Any]:
    binary = os.environ.get("LOCANT_BIN", str(ROOT / "build" / "locant"))
    done = subprocess.run([binary, "inspect", str(path), "--json"], capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def known(answer: dict[str, Any]) -> bool:
    return not any("none that Locant knows" in note["text"] for note in answer["notes"])


def type_of(answer: dict[str, Any]) -> int:
    rotations = [entry for entry in answer["positions"] if entry["site"] == "rotation"]
    if not rotations:
        return NONE
    first = rotations[0]
    if first["axes"]:
        return IMROPE if first["parameters"]["axis_layout"] == "interleaved" else MROPE
    return NORM if first["pairing"] == "interleaved" else NEOX


def test_pairs_as_llama_cpp_does(files: dict[str, Path], rope_types: dict[str, int | None]) -> None:
    wrong, compared = [], 0
    for name, path in files.items():
        answer = inspect(path)
        if not known(answer) or rope_types[name] is None:
            continue
        compared += 1
        wanted = DIFFERENT.get(name, rope_types[name])
        # vocabulary alone: sections are not read, so that types which follow them are those of text
        if name in ("glm4", "glm4moe", "hunyuan_vl"):
            wanted = MROPE
        if type_of(answer) != wanted:
            wrong.append(f"{name}: {type_of(answer)}, llama.cpp has {rope_types[name]}")
    assert wrong == []
    assert compared >= 90
