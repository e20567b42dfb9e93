# SPDX-License-Identifier: Apache-2.0
"""Writes a transformers model as GGUF, as llama.cpp's converter lays tensors out and names keys.

Names are those of the gguf package; what a family fuses, turns or adds is said here, one function a family.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf.tensor_mapping import get_tensor_name_map
from transformers import PreTrainedModel

Tensors = dict[str, torch.Tensor]
Keys = dict[str, int | float | bool | str | list[int]]
SUFFIXES = (".weight", ".bias")
NOT_WEIGHTS = (
    "inv_freq", ".attn.bias", "masked_bias", "position_ids", "token_type_ids", "rotary_emb", "embed_positions",
    "pooler.",
)  # fmt: skip
ARCHITECTURES = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}


def permuted(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of halves -> rows of neighbours."""
    return weight.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def neighbours(tensors: Tensors, config: Any) -> None:
    """Llama's q and k, whose channels pair as neighbours in a file."""
    for name in list(tensors):
        if ".q_proj." in name:
            tensors[name] = permuted(tensors[name], config.num_attention_heads)
        if ".k_proj." in name:
            tensors[name] = permuted(tensors[name], config.num_key_value_heads)


def thirds(tensors: Tensors, config: Any) -> None:
    """q, k and v of each head together -> all q, all k, all v."""
    heads = config.num_attention_heads
    for name in list(tensors):
        if ".query_key_value." in name:
            parts = tensors[name].unflatten(0, (heads, 3, -1))
            tensors[name] = torch.cat([parts[:, part].flatten(0, 1) for part in range(3)])


def falcon(tensors: Tensors, config: Any) -> None:
    groups = config.num_kv_heads if config.new_decoder_architecture else 1 if config.multi_query else 0
    groups = groups or config.num_attention_heads
    each = config.num_attention_heads // groups
    for name in list(tensors):
        if ".query_key_value." in name:
            parts = tensors[name].unflatten(0, (groups, each + 2, -1))
            tensors[name] = torch.cat(
                [parts[:, :each].flatten(0, 2), parts[:, -2].flatten(0, 1), parts[:, -1].flatten(0, 1)]
            )


def gemma(tensors: Tensors, config: Any) -> None:
    for name in list(tensors):
        if name.endswith("norm.weight"):
            tensors[name] = tensors[name] + 1


def gpt2(tensors: Tensors, config: Any) -> None:
    for name in list(tensors):
        if name.endswith((".c_attn.weight", ".c_fc.weight", ".c_proj.weight")):
            tensors[name] = tensors[name].T


def stablelm(tensors: Tensors, config: Any) -> None:
    for layer in range(config.num_hidden_layers):
        for part in "qk":
            at = f"model.layers.{layer}.self_attn.{part}_layernorm."
            heads = [name for name in tensors if name.startswith(at)]
            if heads:
                stacked = torch.stack([tensors.pop(f"{at}norms.{head}.weight") for head in range(len(heads))])
                tensors[at + "weight"] = stacked


def split_experts(tensors: Tensors, config: Any) -> None:
    """Stacked gate and up halves of all experts -> a stack of each."""
    for name in list(tensors):
        at, _, last = name.rpartition(".")
        if not at.endswith(".experts"):
            continue
        layer = at.split(".layers.")[1].split(".")[0]
        weight = tensors.pop(name)
        if last == "gate_up_proj":
            gate, up = weight.chunk(2, 1)
            tensors[f"blk.{layer}.ffn_gate_exps.weight"], tensors[f"blk.{layer}.ffn_up_exps.weight"] = gate, up
        else:
            tensors[f"blk.{layer}.ffn_down_exps.weight"] = weight


def gpt_oss(tensors: Tensors, config: Any) -> None:
    for name in list(tensors):
        if name.endswith(".sinks"):
            tensors[name + ".weight"] = tensors.pop(name)
        if ".experts." not in name:
            continue
        weight, layer = tensors.pop(name), name.split(".")[2]
        ending = "bias" if name.endswith("_bias") else "weight"
        if ending == "weight":
            weight = weight.mT
        if ".gate_up_proj" in name:
            tensors[f"blk.{layer}.ffn_gate_exps.{ending}"] = weight[:, ::2]
            tensors[f"blk.{layer}.ffn_up_exps.{ending}"] = weight[:, 1::2]
        else:
            tensors[f"blk.{layer}.ffn_down_exps.{ending}"] = weight


def llama4(tensors: Tensors, config: Any) -> None:
    for name in list(tensors):
        if name.endswith((".experts.gate_up_proj", ".experts.down_proj")):
            tensors[name] = tensors[name].mT
    split_experts(tensors, config)


def deepseek(tensors: Tensors, config: Any) -> None:
    split_experts(tensors, config)
    for name in list(tensors):
        if name.endswith(".e_score_correction_bias"):
            tensors[name.replace("e_score_correction_bias", "e_score_correction.bias").replace(".gate.moe", ".moe")] = (
                tensors.pop(name)
            )


def deepseek_in_parts(tensors: Tensors, config: Any) -> None:
    """Keys' and values' halves of kv_b, as files have them since latent attention is computed on the ranks."""
    deepseek(tensors, config)
    heads, still = config.num_attention_heads, config.qk_nope_head_dim
    for name in list(tensors):
        if name.endswith(".kv_b_proj.weight"):
            layer = name.split(".")[2]
            parts = tensors.pop(name).unflatten(0, (heads, -1))
            tensors[f"blk.{layer}.attn_k_b.weight"] = parts[:, :still].mT
            tensors[f"blk.{layer}.attn_v_b.weight"] = parts[:, still:]


def bert(tensors: Tensors, config: Any) -> None:
    for name in list(tensors):
        weight = tensors.pop(name)
        if not name.startswith("cls."):
            tensors[name.removeprefix("bert.")] = weight


def bloom(tensors: Tensors, config: Any) -> None:
    for name in list(tensors):
        tensors[name.removeprefix("transformer.")] = tensors.pop(name)


def t5(tensors: Tensors, config: Any) -> None:
    """One table of tokens under one name."""
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        tensors.pop(name, None)


CHANGES: dict[str, list[Callable[[Tensors, Any], None]]] = {
    "llama": [neighbours, split_experts],
    "granite": [neighbours],
    "granitemoe": [neighbours],
    "smollm3": [neighbours],
    "olmo": [neighbours],
    "arcee": [neighbours],
    "gptneox": [thirds],
    "bloom": [thirds, bloom],
    "falcon": [falcon],
    "gemma": [gemma],
    "gemma2": [gemma],
    "gemma3": [gemma],
    "gpt2": [gpt2],
    "stablelm": [stablelm],
    "qwen2moe": [split_experts],
    "qwen3moe": [split_experts],
    "olmoe": [split_experts],
    "ernie4_5-moe": [deepseek],
    "gpt-oss": [gpt_oss],
    "llama4": [llama4],
    "deepseek2": [deepseek],
    "deepseek2 in parts": [deepseek_in_parts],
    "bert": [bert],
    "nemotron": [gemma],
    "t5": [t5],
}


def first(config: Any, *names: str, default: Any = None) -> Any:
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    return default


def rope_keys(config: Any, head_dim: int) -> Keys:
    block = getattr(config, "rope_parameters", None) or {}
    by_type = block.get("full_attention")
    local = block.get("sliding_attention")
    block = by_type or block
    if "rope_theta" not in block:
        return {}
    part = first(config, "partial_rotary_factor", default=block.get("partial_rotary_factor", 1.0))
    keys: Keys = {"rope.freq_base": block["rope_theta"], "rope.dimension_count": int(head_dim * part)}
    if local:
        keys["rope.freq_base_swa"] = local["rope_theta"]
    if block.get("rope_type") in ("linear", "yarn"):
        keys["rope.scaling.type"] = block["rope_type"]
        keys["rope.scaling.factor"] = block["factor"]
    if block.get("rope_type") == "yarn":
        keys["rope.scaling.original_context_length"] = block["original_max_position_embeddings"]
    return keys


def common_keys(config: Any, architecture: str) -> Keys:
    hidden = first(config, "hidden_size", "n_embd", "d_model")
    heads = first(config, "num_attention_heads", "n_head", "n_heads", "num_heads")
    layers = first(config, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
    kv_heads = first(config, "num_key_value_heads", default=heads)
    head_dim = first(config, "head_dim", "d_kv", default=hidden // heads)
    width = first(config, "intermediate_size", "n_inner", "ffn_hidden_size", "d_ff", default=4 * hidden)
    eps = first(config, "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", default=1e-5)
    keys: Keys = {
        "context_length": first(config, "max_position_embeddings", "n_positions", "max_seq_len", default=512),
        "embedding_length": hidden,
        "block_count": layers,
        "feed_forward_length": width,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "vocab_size": config.vocab_size,
        "attention.layer_norm_rms_epsilon": eps,
        "attention.layer_norm_epsilon": eps,
    }
    if head_dim * heads != hidden:
        keys["attention.key_length"] = keys["attention.value_length"] = head_dim
    return keys | rope_keys(config, head_dim)


def tensor_name(names: Any, name: str) -> str:
    if name.startswith("blk."):
        return name
    found = names.get_name(name, SUFFIXES)
    if found is None:
        raise KeyError(f"the gguf package has no name for {name}")
    return str(found)


def convert(model: PreTrainedModel, architecture: str, keys: Keys, path: Path, changes: str = "") -> Path:
    """Writes `model` in float32; `keys` are those that its family adds, below the architecture's name."""
    config: Any = model.config.get_text_config() if architecture != "t5" else model.config
    tensors: Tensors = {
        name: value.detach().float()
        for name, value in model.state_dict().items()
        if not any(part in name for part in NOT_WEIGHTS)
    }
    # transformers ties T5's head whatever a config says, which then only leaves it unscaled
    if config.tie_word_embeddings and getattr(config, "scale_decoder_outputs", True):
        for name in ("lm_head.weight", "embed_out.weight"):
            tensors.pop(name, None)
    for change in CHANGES.get(changes or architecture, []):
        change(tensors, config)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_tokenizer_model("no_vocab")
    if architecture == "bert":
        writer.add_token_type_count(config.type_vocab_size)
    for key, value in (common_keys(config, architecture) | keys).items():
        add_key(writer, f"{architecture}.{key}", value)
    layers = int(first(config, "num_hidden_layers", "n_layer", "n_layers", "num_layers"))
    names = get_tensor_name_map(
        ARCHITECTURES[architecture], max(layers, first(config, "num_decoder_layers", default=0))
    )
    for name, tensor in tensors.items():
        place = tensor_name(names, name)
        writer.add_tensor(place, tensor.squeeze().contiguous().numpy().astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_key(writer: Any, name: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(name, value)
    elif isinstance(value, int):
        writer.add_uint32(name, value)
    elif isinstance(value, float):
        writer.add_float32(name, value)
    elif isinstance(value, list):
        writer.add_array(name, value)
    else:
        writer.add_string(name, value)
