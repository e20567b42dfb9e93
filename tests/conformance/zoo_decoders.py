# SPDX-License-Identifier: Apache-2.0
"""The dense decoders: each family with what its keys switch.

Heads that are no power of two, heads of another width than hidden / heads where a class has them, fewer key heads
than query heads, parts of heads that rotate, windows and original lengths that 200 tokens pass.
"""

from __future__ import annotations

from family_zoo import Case, Keys, inside, rope

# 6 query heads over 2, head_dim 14 where hidden / heads is 10
WIDE: Keys = {
    "hidden_size": 60, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 14,
    "intermediate_size": 85, "max_position_embeddings": 512, "tie_word_embeddings": False, **rope(),
}  # fmt: skip
# 6 heads of 12 over 3, for classes that have no head_dim
EVEN: Keys = {**{key: value for key, value in WIDE.items() if key != "head_dim"}, "hidden_size": 72,
              "num_key_value_heads": 3}  # fmt: skip
# 5 heads of 12, all with keys of their own
SINGLE: Keys = {**EVEN, "hidden_size": 60, "num_attention_heads": 5, "num_key_value_heads": 5}
GPT: Keys = {
    "n_embd": 60, "n_layer": 3, "n_head": 5, "n_positions": 400, "n_inner": 85, "tie_word_embeddings": False,
}  # fmt: skip
OPT: Keys = {
    "hidden_size": 60, "num_hidden_layers": 3, "num_attention_heads": 5, "ffn_dim": 85, "word_embed_proj_dim": 60,
    "max_position_embeddings": 400, "tie_word_embeddings": False, "pad_token_id": 1,
}  # fmt: skip
FALCON: Keys = {
    "hidden_size": 72, "num_hidden_layers": 3, "num_attention_heads": 6, "ffn_hidden_size": 85,
    "max_position_embeddings": 512, "tie_word_embeddings": False, **rope(),
}  # fmt: skip
MPT: Keys = {"d_model": 60, "n_layers": 3, "n_heads": 5, "max_seq_len": 512, "tie_word_embeddings": False}
NEO: Keys = {
    "hidden_size": 60, "num_layers": 3, "num_heads": 5, "window_size": 24, "intermediate_size": 85,
    "attention_types": [[["global", "local", "local"], 1]], "max_position_embeddings": 400,
    "tie_word_embeddings": False,
}  # fmt: skip
WINDOW: Keys = {"sliding_window": 24}
FOUR: Keys = {"num_hidden_layers": 4}
PART: Keys = rope(partial_rotary_factor=0.5)
YARN = rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)
LLAMA3 = rope(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)  # fmt: skip
# Six pairs of a head of 12; 200 tokens pass the original length.
LONG = rope(rope_type="longrope", short_factor=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
            long_factor=[1.0, 1.5, 2.0, 3.0, 4.0, 6.0])  # fmt: skip
DYNAMIC: Keys = {"max_position_embeddings": 64, **rope(rope_type="dynamic", factor=2.0)}
BY_TYPE: Keys = {"rope_parameters": {
    "full_attention": {"rope_type": "linear", "rope_theta": 123456.0, "factor": 4.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0},
}}  # fmt: skip
SIGHT: Keys = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
               "image_size": 28, "patch_size": 14}  # fmt: skip

DECODERS: dict[str, Case] = {
    "llama": Case("llama", {**WIDE}),
    "llama llama3": Case("llama", {**WIDE, **LLAMA3}, of="llama"),
    "gpt2": Case("gpt2", {**GPT}),
    "bloom": Case("bloom", {"hidden_size": 60, "n_layer": 3, "n_head": 5, "tie_word_embeddings": False}),
    "xglm": Case("xglm", {"d_model": 60, "num_layers": 3, "attention_heads": 5, "ffn_dim": 85, "pad_token_id": 1,
                          "max_position_embeddings": 256, "tie_word_embeddings": False}),
    "mistral": Case("mistral", {**WIDE, "sliding_window": None}),
    "mistral window": Case("mistral", {**WIDE, **WINDOW}, of="mistral"),
    "mistral one kv head": Case("mistral", {**EVEN, **WINDOW, "num_key_value_heads": 1}),
    "mistral yarn": Case("mistral", {**WIDE, "sliding_window": None, **YARN}, of="mistral"),
    "mistral dynamic": Case("mistral", {**WIDE, "sliding_window": None, **DYNAMIC}, of="mistral"),
    "qwen2": Case("qwen2", {**EVEN}),
    "qwen2 tied": Case("qwen2", {**EVEN, "tie_word_embeddings": True}),
    "qwen2 window": Case("qwen2", {**EVEN, **WINDOW, "use_sliding_window": True, "max_window_layers": 1}, of="qwen2"),
    "qwen3": Case("qwen3", {**WIDE}),
    "qwen3 biased": Case("qwen3", {**WIDE, "attention_bias": True}),
    "qwen3 yarn": Case("qwen3", {**WIDE, **YARN}, of="qwen3"),
    "gemma": Case("gemma", {**WIDE, "tie_word_embeddings": True}),
    "gemma2": Case("gemma2", {**WIDE, **WINDOW, "tie_word_embeddings": True, "query_pre_attn_scalar": 40,
                              "attn_logit_softcapping": 5.0, "final_logit_softcapping": 4.0}),
    "gemma2 uncapped": Case("gemma2", {**WIDE, **WINDOW, "tie_word_embeddings": True, "query_pre_attn_scalar": 40,
                                       "attn_logit_softcapping": None, "final_logit_softcapping": None}, of="gemma2"),
    "gemma3": Case("gemma3_text", {**WIDE, **WINDOW, **BY_TYPE, "num_hidden_layers": 7, "tie_word_embeddings": True,
                                   "query_pre_attn_scalar": 40}),
    "gemma3 types": Case("gemma3_text", {**WIDE, **WINDOW, **BY_TYPE, "tie_word_embeddings": True,
                                         "layer_types": ["full_attention", "sliding_attention", "full_attention"]}),
    "gemma3 inside": inside("gemma3", {**WIDE, **WINDOW, **BY_TYPE, "num_hidden_layers": 7,
                                       "tie_word_embeddings": True}, **SIGHT),
    "phi": Case("phi", {**SINGLE, **PART, "partial_rotary_factor": 0.5}),
    "phi grouped": Case("phi", {**EVEN, **PART, "partial_rotary_factor": 0.5}),
    "phi normed": Case("phi", {**EVEN, **PART, "partial_rotary_factor": 0.5, "qk_layernorm": True}),
    "phi3": Case("phi3", {**EVEN}),
    "phi3 window": Case("phi3", {**EVEN, **WINDOW}, of="phi3"),
    "phi3 partial": Case("phi3", {**EVEN, **PART, "partial_rotary_factor": 0.5}, of="phi3"),
    "phi3 longrope": Case("phi3", {**EVEN, "original_max_position_embeddings": 64, **LONG}, of="phi3"),
    "phi3 longrope unreached": Case("phi3", {**EVEN, "original_max_position_embeddings": 256, **LONG},
                                    of="phi3 longrope"),
    "gptj": Case("gptj", {**GPT, "rotary_dim": 8}),
    "gptj narrow": Case("gptj", {**GPT, "rotary_dim": 4}, of="gptj"),
    "gpt_neox": Case("gpt_neox", {**SINGLE, **PART}),
    "gpt_neox serial": Case("gpt_neox", {**SINGLE, **PART, "use_parallel_residual": False}, of="gpt_neox"),
    "gpt_neox unbiased": Case("gpt_neox", {**SINGLE, **PART, "attention_bias": False}),
    "opt": Case("opt", {**OPT}),
    "opt after": Case("opt", {**OPT, "do_layer_norm_before": False}),
    "opt 350m": Case("opt", {**OPT, "do_layer_norm_before": False, "word_embed_proj_dim": 36}),
    "opt projected": Case("opt", {**OPT, "word_embed_proj_dim": 36, "tie_word_embeddings": True}),
    "opt unbiased": Case("opt", {**OPT, "enable_bias": False, "layer_norm_elementwise_affine": False}),
    "opt no last norm": Case("opt", {**OPT, "_remove_final_layer_norm": True}),
    "mpt": Case("mpt", {**MPT}),
    "mpt clipped": Case("mpt", {**MPT, "attn_config": {"clip_qkv": 0.5, "softmax_scale": 0.4}}, of="mpt"),
    "falcon 7b": Case("falcon", {**FALCON}),
    "falcon 40b": Case("falcon", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon 11b": Case("falcon", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2,
                                  "num_ln_in_parallel_attn": 1}),
    "falcon rw": Case("falcon", {**FALCON, "alibi": True, "bias": True, "multi_query": False, "parallel_attn": False}),
    "falcon alibi parallel": Case("falcon", {**FALCON, "alibi": True}, of="falcon 7b"),
    "falcon heads": Case("falcon", {**FALCON, "multi_query": False}),
    "stablelm": Case("stablelm", {**EVEN, **PART}),
    "stablelm parallel": Case("stablelm", {**EVEN, **PART, "use_parallel_residual": True}),
    "stablelm normed": Case("stablelm", {**EVEN, **PART, "qk_layernorm": True, "use_qkv_bias": True}),
    "starcoder2": Case("starcoder2", {**EVEN, **WINDOW, "tie_word_embeddings": True}),
    "starcoder2 unbiased": Case("starcoder2", {**EVEN, "use_bias": False}),
    "cohere": Case("cohere", {**EVEN, "tie_word_embeddings": True}),
    "cohere normed": Case("cohere", {**EVEN, "use_qk_norm": True, "logit_scale": 0.3}),
    "cohere2": Case("cohere2", {**WIDE, **WINDOW, "num_hidden_layers": 5, "tie_word_embeddings": True}),
    "cohere2 types": Case("cohere2", {**WIDE, **WINDOW, "attention_bias": True,
                                      "layer_types": ["full_attention", "sliding_attention", "full_attention"]}),
    "olmo2": Case("olmo2", {**EVEN}),
    "granite": Case("granite", {**EVEN, "embedding_multiplier": 3.0, "residual_multiplier": 0.22,
                                "attention_multiplier": 0.3, "logits_scaling": 4.0}),
    "granite biased": Case("granite", {**EVEN, "attention_bias": True, "mlp_bias": True, "residual_multiplier": 0.5}),
    "glm": Case("glm", {**WIDE, "head_dim": 12, **PART}),
    "glm unbiased": Case("glm", {**WIDE, "head_dim": 12, **PART, "attention_bias": False}),
    "glm4": Case("glm4", {**WIDE, "head_dim": 12, **PART}),
    "smollm3": Case("smollm3", {**EVEN, "num_hidden_layers": 5, "no_rope_layer_interval": 2}),
    "smollm3 window": Case("smollm3", {**EVEN, **WINDOW, "num_hidden_layers": 5, "no_rope_layer_interval": 2,
                                       "use_sliding_window": True}, of="smollm3"),
    "smollm3 list": Case("smollm3", {**EVEN, "no_rope_layers": [1, 0, 1]}),
    "ctrl": Case("ctrl", {"n_embd": 60, "n_layer": 3, "n_head": 5, "dff": 85, "n_positions": 400,
                          "tie_word_embeddings": False}),
    "gpt_neo": Case("gpt_neo", {**NEO}),
    "gpt_neo global": Case("gpt_neo", {**NEO, "attention_types": [[["global"], 3]]}, of="gpt_neo"),
    "codegen": Case("codegen", {**GPT, "n_embd": 96, "n_head": 8, "rotary_dim": 8}),
    "olmo": Case("olmo", {**EVEN}),
    "olmo clipped": Case("olmo", {**EVEN, "clip_qkv": 0.5}, of="olmo"),
    "olmo3": Case("olmo3", {**EVEN, **WINDOW, "num_hidden_layers": 5}),
    "exaone4": Case("exaone4", {**EVEN, **WINDOW, "num_hidden_layers": 5, "sliding_window_pattern": 4}),
    "exaone4 full": Case("exaone4", {**EVEN, "sliding_window": None, "layer_types": ["full_attention"] * 3}),
    "ernie4_5": Case("ernie4_5", {**WIDE}),
    "ernie4_5 biased": Case("ernie4_5", {**WIDE, "use_bias": True}),
    "hunyuan_v1_dense": Case("hunyuan_v1_dense", {**WIDE}),
    "hunyuan_v1_dense alpha": Case("hunyuan_v1_dense", {**WIDE, **rope(rope_type="dynamic", alpha=50.0, factor=1.0)},
                                   of="hunyuan_v1_dense"),
    "ministral": Case("ministral", {**WIDE, **WINDOW, "layer_types": ["sliding_attention", "full_attention",
                                                                      "sliding_attention"]}),
    "ministral3": Case("ministral3", {**WIDE, **rope(rope_type="yarn", factor=4.0, mscale=1.0, mscale_all_dim=1.0,
                                                     original_max_position_embeddings=64, beta_fast=32.0,
                                                     beta_slow=1.0, llama_4_scaling_beta=0.1)}),
    "gpt_bigcode": Case("gpt_bigcode", {**GPT}),
    "gpt_bigcode heads": Case("gpt_bigcode", {**GPT, "multi_query": False}),
    "seed_oss": Case("seed_oss", {**WIDE}),
    "seed_oss biased": Case("seed_oss", {**WIDE, "attention_out_bias": True, "mlp_bias": True}),
    "arcee": Case("arcee", {**WIDE, "mlp_bias": True}),
    "helium": Case("helium", {**EVEN, "head_dim": 12}),
    "nemotron": Case("nemotron", {**WIDE, **PART, "head_dim": 12}),
    "persimmon": Case("persimmon", {**SINGLE, **PART}),
    "persimmon plain": Case("persimmon", {**SINGLE, **PART, "qk_layernorm": False}),
    "mistral3 inside": inside("mistral3", {**WIDE, "model_type": "mistral", "sliding_window": None},
                              model_type="pixtral", **SIGHT),
}  # fmt: skip
