# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of transformers as GGUF, as llama.cpp's converter makes them: names, fused rows, permuted q and k."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from gguf_writer import Array, Value, write_gguf

LLAMA = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
}  # fmt: skip
ENDS = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
SANDWICH = {**LLAMA, "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm"}  # fmt: skip
GPT2 = {"ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
        "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}  # fmt: skip
BLOOM = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output",
    "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
}  # fmt: skip
NEOX = {name.replace("self_attention", "attention"): place for name, place in BLOOM.items()}
MPT = {"norm_1": "attn_norm", "norm_2": "ffn_norm", "attn.Wqkv": "attn_qkv", "attn.out_proj": "attn_output",
       "ffn.up_proj": "ffn_up", "ffn.down_proj": "ffn_down"}  # fmt: skip
PHI = {**LLAMA, "self_attn.dense": "attn_output", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down"}


@dataclass(frozen=True)
class Family:
    """How a family of the zoo is converted."""

    architecture: str
    names: dict[str, str] = field(default_factory=lambda: LLAMA)
    ends: dict[str, str] = field(default_factory=lambda: ENDS)
    permutes: bool = False
    per_head: bool = False
    transposes: bool = False
    adds_one: bool = False
    layer_norm: bool = False


FAMILIES = {
    "llama": Family("llama", permutes=True),
    "llama_usual": Family("llama", permutes=True),
    "llama3": Family("llama", permutes=True),
    "linear": Family("llama", permutes=True),
    "yarn": Family("llama", permutes=True),
    "longrope": Family("phi3"),
    "mistral": Family("llama", permutes=True),
    "smollm3": Family("smollm3", permutes=True),
    "granite": Family("granite", permutes=True),
    "qwen2": Family("qwen2"),
    "qwen3": Family("qwen3"),
    "gemma": Family("gemma", adds_one=True),
    "gemma2": Family("gemma2", SANDWICH, adds_one=True),
    "gemma3": Family("gemma3", SANDWICH, adds_one=True),
    "olmo2": Family("olmo2", {**LLAMA, "post_attention_layernorm": "post_attention_norm",
                              "post_feedforward_layernorm": "post_ffw_norm"}),
    "cohere": Family("command-r", layer_norm=True),
    "starcoder2": Family("starcoder2", {**LLAMA, "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}, layer_norm=True),
    "phi": Family("phi2", PHI, {**ENDS, "final_layernorm": "output_norm"}, layer_norm=True),
    "phi3": Family("phi3"),
    "gpt2": Family("gpt2", GPT2, {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"},
                   transposes=True, layer_norm=True),
    "bloom": Family("bloom", BLOOM, {"word_embeddings": "token_embd", "word_embeddings_layernorm": "token_embd_norm",
                                     "ln_f": "output_norm"}, per_head=True, layer_norm=True),
    "gpt_neox": Family("gptneox", NEOX, {"embed_in": "token_embd", "final_layer_norm": "output_norm",
                                         "embed_out": "output"}, per_head=True, layer_norm=True),
    "mpt": Family("mpt", MPT, {"wte": "token_embd", "norm_f": "output_norm"}, layer_norm=True),
}  # fmt: skip
LAYER = re.compile(r"(?:layers|h|blocks)\.(\d+)\.(.+)\.(weight|bias)$")


def permuted(rows: Array, heads: int) -> Array:
    """Rows of each head from (2, D/2) to (D/2, 2)."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def unpermuted(rows: Array, heads: int) -> Array:
    return rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def one_after_another(rows: Array, heads: int) -> Array:
    """q, k and v of each head together -> all of q, of k, of v."""
    width = rows.shape[0] // heads // 3
    return rows.reshape(heads, 3, width, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)


@dataclass
class Checkpoint:
    """A checkpoint in memory: what a fault changes before it is written."""

    config: dict[str, Any]
    tensors: dict[str, Array]

    @classmethod
    def read(cls, folder: Path) -> Checkpoint:
        tensors = {name: values.astype(np.float32) for name, values in load_file(folder / "model.safetensors").items()}
        return cls(json.loads((folder / "config.json").read_text()), tensors)

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config))
        save_file({n: np.ascontiguousarray(v) for n, v in self.tensors.items()}, folder / "model.safetensors")
        return folder

    def first(self, *names: str) -> Any:
        """The first key that is there."""
        blocks = [self.config, self.config.get("rope_parameters") or {}, self.config.get("attn_config") or {}]
        return next((b[n] for n in names for b in blocks if b.get(n) is not None), None)

    @property
    def heads(self) -> int:
        return int(self.first("num_attention_heads", "n_head", "n_heads"))

    @property
    def kv_heads(self) -> int:
        return int(self.first("num_key_value_heads") or self.heads)

    @property
    def hidden(self) -> int:
        return int(self.first("hidden_size", "n_embd", "d_model"))


@dataclass
class Converted:
    """A GGUF file in memory."""

    keys: dict[str, Value]
    tensors: dict[str, Array]

    def write(self, path: Path, kind: str = "f32") -> Path:
        return write_gguf(path, self.keys, self.tensors, kind)


def keys_of(source: Checkpoint, family: Family) -> dict[str, Value]:
    heads = source.heads
    head_dim = int(source.first("head_dim") or source.hidden // heads)
    rotary = source.first("rotary_dim") or int(head_dim * (source.first("partial_rotary_factor") or 1))
    stated: dict[str, Any] = {
        "context_length": source.first("max_position_embeddings", "n_positions", "max_seq_len", "seq_length") or 2048,
        "embedding_length": source.hidden,
        "block_count": source.first("num_hidden_layers", "n_layer", "n_layers"),
        "feed_forward_length": source.first("intermediate_size", "n_inner") or 4 * source.hidden,
        "attention.head_count": heads,
        "attention.head_count_kv": source.kv_heads,
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "rope.dimension_count": rotary,
        "rope.freq_base": float(source.first("rope_theta") or 10000.0),
        "attention.sliding_window": source.first("sliding_window"),
        "logit_scale": source.first("logit_scale", "logits_scaling"),
        "embedding_scale": source.first("embedding_multiplier"),
        "attention.scale": source.first("attention_multiplier"),
        "residual_scale": source.first("residual_multiplier"),
        "attn_logit_softcapping": source.first("attn_logit_softcapping"),
        "final_logit_softcapping": source.first("final_logit_softcapping"),
    }  # fmt: skip
    eps = float(source.first("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon") or 1e-5)
    stated["attention.layer_norm_epsilon" if family.layer_norm else "attention.layer_norm_rms_epsilon"] = eps
    if family.architecture == "mpt":
        stated["attention.max_alibi_bias"] = 8.0
    if family.architecture in ("bloom", "mpt"):
        stated["feed_forward_length"] = source.hidden * int(source.config.get("expansion_ratio", 4))
    if family.architecture == "gemma3":
        full = source.config["rope_parameters"]["full_attention"]
        stated["rope.freq_base"] = float(full["rope_theta"])
    scaling = source.first("rope_type")
    if scaling in ("linear", "yarn", "longrope"):
        stated["rope.scaling.type"] = scaling
        stated["rope.scaling.factor"] = float(source.first("factor") or 0) or None
        stated["rope.scaling.original_context_length"] = source.first("original_max_position_embeddings")
    if scaling == "longrope":
        ratio = stated["context_length"] / stated["rope.scaling.original_context_length"]
        stated["rope.scaling.attn_factor"] = math.sqrt(
            1 + math.log(ratio) / math.log(stated["rope.scaling.original_context_length"])
        )
    keys: dict[str, Value] = {"general.architecture": family.architecture}
    for key, value in stated.items():
        if value is not None:
            number = float(value) if "scale" in key or "softcapping" in key else value
            keys[f"{family.architecture}.{key}"] = number
    return keys


def divisors_of(source: Checkpoint) -> dict[str, Array]:
    """What divides the frequencies, as tensors: those of Llama 3 or the two lists of LongRoPE."""
    rope = source.config.get("rope_parameters") or {}
    if rope.get("rope_type") == "longrope":
        return {f"rope_factors_{n}.weight": np.array(rope[f"{n}_factor"], dtype=np.float32) for n in ("long", "short")}
    if rope.get("rope_type") != "llama3":
        return {}
    width = int(source.config["head_dim"])
    low, high, factor = (float(rope[key]) for key in ("low_freq_factor", "high_freq_factor", "factor"))
    turns = rope["original_max_position_embeddings"] / (
        2 * math.pi * float(rope["rope_theta"]) ** (np.arange(0, width, 2) / width)
    )
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return {"rope_freqs.weight": (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)}


def convert(source: Checkpoint, family: Family) -> Converted:
    tensors: dict[str, Array] = divisors_of(source)
    for name, values in source.tensors.items():
        if found := LAYER.search(name):
            layer, module, ending = found.groups()
            place = family.names[module]
            if family.transposes and values.ndim == 2:
                values = values.T
            if family.permutes and place in ("attn_q", "attn_k"):
                values = permuted(values, source.heads if place == "attn_q" else source.kv_heads)
            if family.per_head and place == "attn_qkv":
                values = one_after_another(values, source.heads)
            target = f"blk.{layer}.{place}.{ending}"
        else:
            module, ending = name.rsplit(".", 2)[-2:]
            target = f"{family.ends[module]}.{ending}"
        if family.adds_one and target.endswith("norm.weight"):
            values = values + 1
        tensors[target] = np.array(values, dtype=np.float32, order="C")
    return Converted(keys_of(source, family), tensors)
