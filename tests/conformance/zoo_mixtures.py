# SPDX-License-Identifier: Apache-2.0
"""The mixtures of experts: each family with what its keys switch.

Numbers of experts that are no power of two, dense layers among the others, groups, windows and original lengths that
200 tokens pass.
"""

from __future__ import annotations

from family_zoo import Case, Keys, rope

# 6 query heads over 2, head_dim 14 where hidden / heads is 10
WIDE: Keys = {
    "hidden_size": 60, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 14,
    "intermediate_size": 84, "max_position_embeddings": 512, "tie_word_embeddings": False, **rope(),
}  # fmt: skip
EVEN: Keys = {**{key: value for key, value in WIDE.items() if key != "head_dim"}, "hidden_size": 72}
EXPERTS: Keys = {"num_local_experts": 5, "num_experts_per_tok": 2}
QWEN: Keys = {**WIDE, "num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 20}
GROUPS: Keys = {"n_routed_experts": 12, "num_experts_per_tok": 3, "moe_intermediate_size": 20, "n_group": 4,
                "topk_group": 2, "n_shared_experts": 2, "first_k_dense_replace": 1}  # fmt: skip
# heads of 10 + 6 channels, values of 14
LATENT: Keys = {
    "hidden_size": 60, "num_hidden_layers": 3, "num_attention_heads": 5, "num_key_value_heads": 5,
    "intermediate_size": 84, "max_position_embeddings": 512, "tie_word_embeddings": False, "kv_lora_rank": 18,
    "q_lora_rank": 26, "qk_nope_head_dim": 10, "qk_rope_head_dim": 6, "v_head_dim": 14, **GROUPS, **rope(),
}  # fmt: skip
YARN = rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, mscale=0.8, mscale_all_dim=0.7,
            beta_fast=32, beta_slow=1)  # fmt: skip


def stretched(original: int, truncate: bool) -> Keys:
    return rope(rope_type="yarn", factor=8.0, original_max_position_embeddings=original, beta_fast=32.0, beta_slow=1.0,
                truncate=truncate)  # fmt: skip


GPT_OSS: Keys = {**WIDE, **EXPERTS, "sliding_window": 24, "attention_bias": True, **stretched(32, truncate=False)}
# four layers: the last has no rotation and scales its queries; chunks of 24
LLAMA4: Keys = {
    **WIDE, "num_hidden_layers": 4, "intermediate_size_mlp": 68, "num_local_experts": 5, "attention_chunk_size": 24,
    "floor_scale": 32, "attn_scale": 0.3, "interleave_moe_layer_step": 2,
}  # fmt: skip
ERNIE: Keys = {
    **WIDE, "moe_num_experts": 7, "moe_k": 3, "moe_intermediate_size": 20, "moe_layer_start_index": 1,
    "moe_num_shared_experts": 2,
}  # fmt: skip
# half of a head of 12 rotates
GLM: Keys = {**WIDE, **GROUPS, "head_dim": 12, **rope(partial_rotary_factor=0.5)}

MIXTURES: dict[str, Case] = {
    "mixtral": Case("mixtral", {**WIDE, **EXPERTS}),
    "mixtral window": Case("mixtral", {**WIDE, **EXPERTS, "sliding_window": 24}, of="mixtral"),
    "mixtral three chosen": Case("mixtral", {**WIDE, **EXPERTS, "num_experts_per_tok": 3}, of="mixtral"),
    "gpt_oss": Case("gpt_oss", GPT_OSS),
    "gpt_oss long": Case("gpt_oss", {**GPT_OSS, **stretched(300, truncate=False)}, of="gpt_oss"),
    "gpt_oss truncated": Case("gpt_oss", {**GPT_OSS, **stretched(300, truncate=True)}, of="gpt_oss long"),
    "gpt_oss no bias": Case("gpt_oss", {**GPT_OSS, "attention_bias": False}),
    "gpt_oss full": Case("gpt_oss", {**GPT_OSS, "layer_types": ["full_attention"] * 3}, of="gpt_oss"),
    "gpt_oss limit": Case("gpt_oss", {**GPT_OSS, "swiglu_limit": 0.5}, of="gpt_oss"),
    "deepseek_v3": Case("deepseek_v3", LATENT),
    "deepseek_v3 yarn": Case("deepseek_v3", {**LATENT, **YARN}, of="deepseek_v3"),
    "deepseek_v3 halves": Case("deepseek_v3", {**LATENT, "rope_interleave": False}, of="deepseek_v3"),
    "deepseek_v3 no q rank": Case("deepseek_v3", {**LATENT, "q_lora_rank": None}),
    "deepseek_v3 one group": Case("deepseek_v3", {**LATENT, "n_group": 1, "topk_group": 1}, of="deepseek_v3"),
    "deepseek_v3 scale": Case("deepseek_v3", {**LATENT, "routed_scaling_factor": 0.7}, of="deepseek_v3"),
    "deepseek_v3 not normalised": Case("deepseek_v3", {**LATENT, "norm_topk_prob": False}, of="deepseek_v3"),
    "deepseek_v2": Case("deepseek_v2", {**LATENT, "topk_method": "group_limited_greedy"}),
    "deepseek_v2 greedy": Case("deepseek_v2", {**LATENT, "topk_method": "greedy"}, of="deepseek_v2"),
    "deepseek_v2 lite": Case("deepseek_v2", {**LATENT, "topk_method": "greedy", "q_lora_rank": None, "n_group": None,
                                             "topk_group": None, "routed_scaling_factor": 1.7}),
    "deepseek_v2 yarn": Case("deepseek_v2", {**LATENT, **YARN, "topk_method": "greedy"}, of="deepseek_v2 greedy"),
    "qwen2_moe": Case("qwen2_moe", {**QWEN, "shared_expert_intermediate_size": 28, "mlp_only_layers": [1]}),
    "qwen2_moe normalised": Case("qwen2_moe", {**QWEN, "shared_expert_intermediate_size": 28, "mlp_only_layers": [1],
                                               "norm_topk_prob": True}, of="qwen2_moe"),
    "qwen2_moe step": Case("qwen2_moe", {**QWEN, "shared_expert_intermediate_size": 28, "decoder_sparse_step": 2}),
    "qwen2_moe window": Case("qwen2_moe", {**QWEN, "shared_expert_intermediate_size": 28, "mlp_only_layers": [1],
                                           "use_sliding_window": True, "sliding_window": 24, "max_window_layers": 2},
                             of="qwen2_moe"),
    "qwen2_moe no bias": Case("qwen2_moe", {**QWEN, "shared_expert_intermediate_size": 28, "qkv_bias": False}),
    "qwen3_moe": Case("qwen3_moe", QWEN),
    "qwen3_moe normalised": Case("qwen3_moe", {**QWEN, "norm_topk_prob": True}, of="qwen3_moe"),
    "qwen3_moe dense layer": Case("qwen3_moe", {**QWEN, "mlp_only_layers": [0]}),
    "qwen3_moe bias": Case("qwen3_moe", {**QWEN, "attention_bias": True}),
    "qwen3_moe window": Case("qwen3_moe", {**QWEN, "use_sliding_window": True, "sliding_window": 24}, of="qwen3_moe"),
    "olmoe": Case("olmoe", {**EVEN, "num_experts": 7, "num_experts_per_tok": 3}),
    "olmoe clipped": Case("olmoe", {**EVEN, "num_experts": 7, "num_experts_per_tok": 3, "clip_qkv": 0.9}, of="olmoe"),
    "olmoe normalised": Case("olmoe", {**EVEN, "num_experts": 7, "num_experts_per_tok": 3, "norm_topk_prob": True},
                             of="olmoe"),
    "llama4_text": Case("llama4_text", LLAMA4),
    "llama4_text no qk norm": Case("llama4_text", {**LLAMA4, "use_qk_norm": False}, of="llama4_text"),
    "llama4_text two chosen": Case("llama4_text", {**LLAMA4, "num_experts_per_tok": 2}, of="llama4_text"),
    "llama4_text even temperature": Case("llama4_text", {**LLAMA4, "attn_temperature_tuning": False}, of="llama4_text"),
    "granitemoe": Case("granitemoe", {**EVEN, **EXPERTS, "attention_multiplier": 0.31, "embedding_multiplier": 3.0,
                                      "logits_scaling": 4.0, "residual_multiplier": 0.4}),
    "ernie4_5_moe": Case("ernie4_5_moe", ERNIE),
    "ernie4_5_moe tied": Case("ernie4_5_moe", {**ERNIE, "tie_word_embeddings": True, "moe_layer_interval": 2}),
    "glm4_moe": Case("glm4_moe", GLM),
    "glm4_moe qk norm": Case("glm4_moe", {**GLM, "use_qk_norm": True, "attention_bias": True}),
}  # fmt: skip
