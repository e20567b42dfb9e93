# SPDX-License-Identifier: Apache-2.0
"""Random transformers models of uneven shape on disk, the bundled four, and a real small one: what faults go into."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = {"bundled_rope": "rope", "bundled_alibi": "alibi", "bundled_learned": "learned", "bundled_sine": "sinusoidal"}
REAL = "stories260k"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
THETA = 50000.0
Config = dict[str, Any]

# 6 query heads over 2, heads of 12 channels where hidden / heads is 8
BASE: Config = {
    "vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
    "head_dim": 12, "intermediate_size": 40, "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "tie_word_embeddings": False,
}  # fmt: skip
# 4 heads of 16
SQUARE: Config = {**BASE, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16}
SINGLE: Config = {**SQUARE, "num_key_value_heads": 4}
GPT: Config = {"vocab_size": 97, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 512, "n_inner": 48}
EXPERTS: Config = {"num_local_experts": 2, "num_experts_per_tok": 1}
LATENT: Config = {
    "vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
    "intermediate_size": 48, "moe_intermediate_size": 24, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
    "topk_group": 1, "first_k_dense_replace": 1, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8, "v_head_dim": 8, "max_position_embeddings": 512,
}  # fmt: skip


def rope(**block: Any) -> Config:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": THETA, **block}}


LLAMA3 = rope(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)  # fmt: skip
YARN = rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=128)
LONG = rope(rope_type="longrope", original_max_position_embeddings=64,
            short_factor=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5], long_factor=[1.0, 1.5, 2.0, 3.0, 4.0, 6.0])  # fmt: skip

# name -> model_type, keys. A name is a family of transformers, or one with other keys.
CONFIGS: dict[str, tuple[str, Config]] = {
    "llama": ("llama", {**BASE, **rope()}),
    "llama_usual": ("llama", {**BASE, **rope(rope_theta=10000.0)}),
    "llama3": ("llama", {**BASE, **LLAMA3}),
    "yarn": ("llama", {**BASE, **YARN}),
    "yarn_stated": ("llama", {**BASE, **rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=128,
                                             attention_factor=1.25)}),
    "linear": ("llama", {**BASE, **rope(rope_type="linear", factor=4.0)}),
    "dynamic": ("llama", {**BASE, "max_position_embeddings": 64, **rope(rope_type="dynamic", factor=2.0)}),
    "longrope": ("phi3", {**BASE, "hidden_size": 72, "original_max_position_embeddings": 64, **LONG}),
    "mistral": ("mistral", {**BASE, "sliding_window": 8, **rope()}),
    "mixtral": ("mixtral", {**BASE, **EXPERTS, **rope()}),
    "qwen2": ("qwen2", {**BASE, **rope(rope_theta=1e6)}),
    "qwen3": ("qwen3", {**BASE, **rope(rope_theta=1e6)}),
    "qwen3_moe": ("qwen3_moe", {**BASE, "moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2}),
    "gemma": ("gemma", {**BASE, "tie_word_embeddings": True}),
    "gemma2": ("gemma2", {**BASE, "sliding_window": 8, "tie_word_embeddings": True}),
    "gemma3": ("gemma3_text", {**BASE, "num_hidden_layers": 6, "sliding_window": 8, "tie_word_embeddings": True}),
    "phi": ("phi", {**SINGLE, "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0,
                                                  "partial_rotary_factor": 0.5}}),
    "phi3": ("phi3", {**SQUARE}),
    "gpt_neox": ("gpt_neox", {**SINGLE, "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0,
                                                            "partial_rotary_factor": 0.5}}),
    "stablelm": ("stablelm", {**SINGLE, "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0,
                                                            "partial_rotary_factor": 0.25}}),
    "gptj": ("gptj", {**GPT, "rotary_dim": 8}),
    "codegen": ("codegen", {**GPT, "rotary_dim": 8}),
    "cohere": ("cohere", {**SQUARE, "tie_word_embeddings": True, **rope()}),
    "cohere2": ("cohere2", {**SQUARE, "num_hidden_layers": 4, "sliding_window": 8, "tie_word_embeddings": True}),
    "glm": ("glm", {**SQUARE}),
    "glm4": ("glm4", {**SQUARE}),
    "olmo": ("olmo", {**SQUARE}),
    "olmo2": ("olmo2", {**SQUARE}),
    "smollm3": ("smollm3", {**SQUARE, "num_hidden_layers": 4, **rope()}),
    "granite": ("granite", {**SQUARE, "embedding_multiplier": 3.0, "logits_scaling": 4.0}),
    "starcoder2": ("starcoder2", {**SQUARE, "sliding_window": 8}),
    "persimmon": ("persimmon", {**SINGLE}),
    "nemotron": ("nemotron", {**SQUARE}),
    "helium": ("helium", {**SQUARE}),
    "ernie4_5": ("ernie4_5", {**SQUARE}),
    "exaone4": ("exaone4", {**SQUARE, "num_hidden_layers": 4, "sliding_window": 8}),
    "llama4": ("llama4_text", {**SQUARE, **EXPERTS, "intermediate_size_mlp": 48, "num_hidden_layers": 4}),
    "gpt_oss": ("gpt_oss", {**SQUARE, **EXPERTS, "sliding_window": 8}),
    "deepseek_v3": ("deepseek_v3", {**LATENT}),
    "deepseek_yarn": ("deepseek_v3", {**LATENT, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0,
        "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 64}}),
    "deepseek_v2": ("deepseek_v2", {**LATENT}),
    "gpt2": ("gpt2", {**GPT}),
    "gpt_neo": ("gpt_neo", {"vocab_size": 97, "hidden_size": 64, "num_layers": 2, "num_heads": 4, "window_size": 8,
                            "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 512,
                            "intermediate_size": 48}),
    "opt": ("opt", {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
                    "ffn_dim": 48, "max_position_embeddings": 512, "word_embed_proj_dim": 64, "pad_token_id": 1}),
    "xglm": ("xglm", {"vocab_size": 97, "d_model": 48, "num_layers": 3, "attention_heads": 4, "ffn_dim": 48,
                      "max_position_embeddings": 512, "pad_token_id": 1}),
    "bloom": ("bloom", {"vocab_size": 97, "hidden_size": 96, "n_layer": 3, "n_head": 12}),
    "bloom8": ("bloom", {"vocab_size": 97, "hidden_size": 64, "n_layer": 2, "n_head": 8}),
    "mpt": ("mpt", {"vocab_size": 97, "d_model": 96, "n_layers": 3, "n_heads": 12, "expansion_ratio": 4,
                    "max_seq_len": 512}),
    "falcon": ("falcon", {"vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 6,
                          "ffn_hidden_size": 64, "multi_query": False, "new_decoder_architecture": False,
                          "parallel_attn": True, "alibi": False}),
}  # fmt: skip
VISION: dict[str, Config] = {
    "qwen2_vl": {"embed_dim": 32, "hidden_size": 64, "mlp_ratio": 2},
    "qwen2_5_vl": {"hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 32, "window_size": 16,
                   "fullatt_block_indexes": [0]},
    "qwen3_vl": {"hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 32, "num_position_embeddings": 64,
                 "deepstack_visual_indexes": []},
}  # fmt: skip
for _kind, _keys in VISION.items():
    CONFIGS[_kind] = (_kind, {
        "text_config": {**SQUARE, **rope(mrope_section=[2, 3, 3])},
        "vision_config": {"depth": 1, "num_heads": 2, "patch_size": 4, "spatial_merge_size": 2,
                          "temporal_patch_size": 2, "in_channels": 3, **_keys},
        "image_token_id": 90, "video_token_id": 91, "vision_start_token_id": 92, "vision_end_token_id": 93,
    })  # fmt: skip
# Further families that take these keys: clean runs alone, no fault is put into them.
FURTHER = [
    "afmoe",
    "apertus",
    "apertus1p5_text",
    "arcee",
    "aria_text",
    "biogpt",
    "bitnet",
    "cwm",
    "deepseek_v4",
    "diffllama",
    "doge",
    "ernie4_5_moe",
    "exaone",
    "exaone_moe",
    "falcon_h1",
    "flex_olmo",
    "flint",
    "fuyu",
    "gemma4_text",
    "glm4_moe",
    "gpt-sw3",
    "gpt_bigcode",
    "gpt_neox_japanese",
    "granitemoe",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "hy_v3",
    "hyperclovax",
    "internlm3",
    "iquestcoder",
    "jais2",
    "jetmoe",
    "kolibri1",
    "laguna",
    "lara_mini",
    "lfm2",
    "lfm3",
    "mellum",
    "minimax",
    "minimax_m2",
    "minimax_m3_vl_text",
    "ministral",
    "ministral3",
    "modernbert-decoder",
    "nemotron_h",
    "olmo3",
    "olmo_hybrid",
    "olmoe",
    "phimoe",
    "qwen2_moe",
    "sarvam_moe",
    "seed_oss",
    "solar_open",
    "zaya",
]
for _kind in FURTHER:
    CONFIGS[_kind] = (_kind, {**SQUARE, **EXPERTS, "moe_intermediate_size": 24, "num_experts": 4,
                              "n_routed_experts": 4, "n_group": 1, "topk_group": 1})  # fmt: skip
# families whose position table is a formula that stands among the parameters
SINUSOIDS = {"marian", "pegasus", "roformer"}
# families whose forward takes no position_ids
COUNTS_ALONE = {"bloom", "mpt"}


def opener(name: str) -> Any:
    return AutoModelForImageTextToText if name in VISION else AutoModelForCausalLM


@dataclass
class Zoo:
    """Builds each model once per session, on disk in f32, and loads it once per dtype."""

    folder: Path
    data: Path
    _loaded: dict[tuple[str, str], Any] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        if name in BUNDLED:
            return ROOT / "models" / BUNDLED[name]
        if name == REAL:
            return self.data / REAL / "hf"
        place = self.folder / name
        if not (place / "config.json").is_file():
            self._build(name).save_pretrained(place)
        return place

    def has(self, name: str) -> bool:
        return name != REAL or (self.data / REAL / "hf" / "config.json").is_file()

    def model(self, name: str, dtype: str = "f32") -> Any:
        if (name, dtype) not in self._loaded:
            self._loaded[name, dtype] = (
                opener(name)
                .from_pretrained(
                    self.path(name), dtype=DTYPES[dtype], attn_implementation="eager", local_files_only=True
                )
                .eval()
            )
        return self._loaded[name, dtype]

    def _build(self, name: str) -> Any:
        kind, keys = CONFIGS[name]
        torch.manual_seed(sum(map(ord, name)))
        model = opener(name).from_config(AutoConfig.for_model(kind, **keys), attn_implementation="eager")
        with torch.no_grad():
            for title, parameter in model.named_parameters():
                if parameter.dim() >= 2 and not (title.endswith("embed_positions.weight") and kind in SINUSOIDS):
                    parameter.normal_(std=1 / math.sqrt(parameter.shape[-1]))
        return model.eval()


def data_folder() -> Path:
    return Path(os.environ.get("LOCANT_DATA", ROOT.parent / "shared" / "data"))
