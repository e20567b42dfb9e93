# SPDX-License-Identifier: Apache-2.0
"""Small GGUF files of the gguf package and what transformers makes of them: tests/spec/golden/gguf.json.

generate_gguf.py writes it, generate_gguf.py --check says whether it is what this transformers would write. Sizes,
theta and tie are transformers' own; frequencies are llama.cpp's rule, theta^(-2i/n_rot) / factor / divisor, in f64.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import transformers
from transformers import AutoConfig, PretrainedConfig

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity(50)

OUT = Path(__file__).resolve().parent / "gguf.json"
VOCAB, HIDDEN, LAYERS, HEADS, KV_HEADS, LENGTH = 4, 96, 3, 6, 2, 2048


@dataclass
class Case:
    """One file: keys beside the common ones (under the architecture's name), rows of f32, the rotation asked for."""

    architecture: str
    keys: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, list[float]] = field(default_factory=dict)
    tied: bool = False
    width: int = HIDDEN // HEADS
    theta: float = 10000.0
    factor: float = 1.0
    rotates: bool = True
    unread: tuple[str, ...] = ()  # what this transformers does not take from the file, a default of its class


LLAMA3 = [1.0, 1.0, 1.5, 2.0, 4.0, 8.0, 8.0, 8.0]

CASES: dict[str, Case] = {
    "llama": Case("llama", {"rope.freq_base": 500000.0, "rope.dimension_count": 16}, theta=500000.0),
    "llama-tied": Case("llama", tied=True),
    "llama-3.1": Case("llama", {"rope.freq_base": 500000.0}, {"rope_freqs.weight": LLAMA3}, theta=500000.0),
    "llama-linear": Case("llama", {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, factor=4.0),
    "llama-scale_linear": Case("llama", {"rope.scale_linear": 2.0}, factor=2.0),
    "llama-none": Case("llama", {"rope.scaling.type": "none", "rope.scaling.factor": 4.0}),
    "qwen2": Case("qwen2", {"rope.freq_base": 1000000.0}, theta=1000000.0),
    "qwen2moe": Case("qwen2moe", {"expert_count": 4, "expert_used_count": 2}),
    "qwen3": Case("qwen3", {"attention.key_length": 24, "attention.value_length": 24}, width=24, unread=("head_dim",)),
    "qwen3moe": Case(
        "qwen3moe", {"attention.key_length": 32, "expert_count": 4, "expert_used_count": 2}, width=32, tied=True
    ),
    "falcon": Case("falcon", unread=("tied",)),
    "phi3": Case("phi3", {"rope.dimension_count": 12, "rope.scaling.original_context_length": 512}, width=12),
    "bloom": Case("bloom", rotates=False, tied=True),
    "stablelm": Case("stablelm", {"rope.dimension_count": 4}, width=4),
    "gpt2": Case("gpt2", {"context_length": 16}, rotates=False, tied=True, unread=("vocab", "length")),
    "starcoder2": Case("starcoder2", {"rope.freq_base": 999999.0}, theta=999999.0, unread=("vocab", "theta")),
    "nemotron": Case("nemotron", {"rope.dimension_count": 8, "rope.freq_base": 20000.0}, width=8, theta=20000.0),
    "gemma2": Case("gemma2", {"attention.key_length": 32, "attention.sliding_window": 64}, width=32, tied=True),
    "gemma3": Case(
        "gemma3",
        {"block_count": 6, "attention.key_length": 32, "attention.sliding_window": 64, "rope.freq_base": 1000000.0},
        width=32,
        theta=1000000.0,
        tied=True,
    ),
    "gpt-oss": Case(
        "gpt-oss",
        {"attention.sliding_window": 32, "rope.freq_base": 150000.0},
        theta=150000.0,
        unread=("head_dim", "window"),
    ),
    "minimax-m2": Case(
        "minimax-m2", {"rope.dimension_count": 8, "attention.key_length": 16, "rope.freq_base": 5e6}, width=8, theta=5e6
    ),
}


def add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)


def write(case: Case, path: Path) -> None:
    name = case.architecture
    writer = gguf.GGUFWriter(path, name)
    common: dict[str, Any] = {
        "context_length": LENGTH,
        "embedding_length": HIDDEN,
        "block_count": LAYERS,
        "feed_forward_length": 160,
        "attention.head_count": HEADS,
        "attention.head_count_kv": HEADS if name in ("bloom", "gpt2") else KV_HEADS,
        "attention.layer_norm_epsilon": 3e-5,
        "attention.layer_norm_rms_epsilon": 3e-5,
        "vocab_size": VOCAB,
    }
    for key, value in {**common, **case.keys}.items():
        add(writer, f"{name}.{key}", value)
    table = gguf.quantize(np.zeros((VOCAB, HIDDEN), np.float32), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("token_embd.weight", table, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("output_norm.weight", np.zeros(HIDDEN, np.float32))
    if name == "gpt2":
        writer.add_tensor("position_embd.weight", np.zeros((case.keys["context_length"], HIDDEN), np.float16))
    for tensor, row in case.rows.items():
        writer.add_tensor(tensor, np.array(row, np.float32))
    if not case.tied:
        writer.add_tensor("output.weight", table, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def theta_of(config: PretrainedConfig) -> float | None:
    parameters = getattr(config, "rope_parameters", None) or {}
    if "full_attention" in parameters:
        parameters = parameters["full_attention"]
    return parameters.get("rope_theta", getattr(config, "rope_theta", None))


def frequencies(case: Case) -> list[float]:
    pairs = case.width // 2
    ladder = np.power(case.theta, -2.0 * np.arange(pairs, dtype=np.float64) / case.width) / case.factor
    divisors = np.array(case.rows.get("rope_freqs.weight", [1.0] * pairs), np.float32).astype(np.float64)
    return [float(one) for one in ladder / divisors]


def facts(name: str, case: Case, folder: Path) -> dict[str, Any]:
    path = folder / f"{name}.gguf"
    write(case, path)
    config = AutoConfig.from_pretrained(folder, gguf_file=path.name)
    config = getattr(config, "text_config", config)
    heads = config.num_attention_heads
    row: dict[str, Any] = {
        "bytes": path.read_bytes().hex(),
        "model_type": config.model_type,
        "layers": config.num_hidden_layers,
        "hidden": config.hidden_size,
        "heads": heads,
        "kv_heads": getattr(config, "num_key_value_heads", None),
        "head_dim": getattr(config, "head_dim", None) or config.hidden_size // heads,
        "vocab": config.vocab_size,
        "theta": theta_of(config) if case.rotates else None,
        "window": getattr(config, "sliding_window", None) if "attention.sliding_window" in case.keys else None,
        "tied": config.tie_word_embeddings,
        "length": getattr(config, "max_position_embeddings", None),
        "inv_freq": frequencies(case) if case.rotates else None,
    }
    return {key: None if key in case.unread else value for key, value in row.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = {name: facts(name, case, Path(folder)) for name, case in CASES.items()}
    rows = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in cases.items()]
    written = "{\n" + ",\n".join(rows) + "\n}\n"
    if not given.check:
        OUT.write_text(written)
        return 0
    same = OUT.read_text() == written
    print(f"{OUT.name} is {'what' if same else 'not what'} this transformers writes")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
