# SPDX-License-Identifier: Apache-2.0
"""Every other causal model type of transformers: a tiny config of each that runs, and why the rest does not.

No fault is put into these; they must be silent. `tests/faults/zoo.py` has those that faults go into.
"""

from __future__ import annotations

from dataclasses import dataclass

from zoo import CONFIGS, EXPERTS, LATENT, SINGLE, SQUARE, THETA, Config

MOE: Config = {**SQUARE, **EXPERTS, "moe_intermediate_size": 24, "num_experts": 4, "n_routed_experts": 4, "n_group": 1,
               "topk_group": 1}  # fmt: skip
INDEXED: Config = {**LATENT, "index_topk": 512, "index_n_heads": 2, "index_head_dim": 16}
# one layer of attention among layers without
MIXED: Config = {
    **MOE, "num_hidden_layers": 8, "head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "shared_expert_intermediate_size": 24,
}  # fmt: skip
PART: Config = {"rope_type": "default", "rope_theta": THETA, "partial_rotary_factor": 0.5}
STATE: Config = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_expand": 2}
BERT: Config = {**SINGLE, "is_decoder": True, "pad_token_id": 1, "type_vocab_size": 2}
BART: Config = {
    "vocab_size": 97, "d_model": 64, "encoder_layers": 3, "decoder_layers": 3, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 512,
    "is_decoder": True, "is_encoder_decoder": False, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
}  # fmt: skip
BY_TYPE: Config = {"rope_parameters": {
    kind: {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": 0.5}
    for kind, theta in (("full_attention", 5e6), ("sliding_attention", 1e4))
}}  # fmt: skip


@dataclass(frozen=True)
class Other:
    """How a type is run, and what it does wrong itself."""

    keys: Config
    padded: bool = True  # its positions stay right in a left-padded batch
    ids: bool = True  # takes positions that count from 0
    steps: bool = True  # has a cache that this version of transformers gives back
    rules: tuple[str, ...] = ()
    f32_only: bool = False


OTHERS: dict[str, Other] = {
    **{kind: Other(LATENT) for kind in ("axk1", "axk2", "glm4_moe_lite", "minicpm3", "sarvam_mla", "youtu")},
    **{kind: Other(INDEXED) for kind in ("deepseek_v32", "glm_moe_dsa")},
    **{kind: Other(MOE) for kind in ("beam", "cohere2_moe", "hrm_text", "inkling_text", "nanochat")},
    "qwen3_next": Other({**MIXED, "rope_parameters": PART}),
    **{kind: Other({**MIXED, "rope_parameters": {**PART, "mrope_section": [3, 3, 2]}})
       for kind in ("qwen3_5_text", "qwen3_5_moe_text")},
    **{kind: Other(BERT) for kind in ("bert", "bert-generation", "ernie", "megatron-bert")},
    # without position_ids they count padding in decoding; with them they expect the table's own rows
    **{kind: Other(BERT, padded=False, ids=False)
       for kind in ("camembert", "data2vec-text", "roberta", "xlm-roberta", "xlm-roberta-xl")},
    # positions count from the left edge, which is padding in a left-padded batch
    **{kind: Other(BART, padded=False, ids=False)
       for kind in ("bart", "blenderbot", "blenderbot-small", "marian", "mbart", "mvp", "pegasus", "plbart")},
    "bailing_hybrid": Other({**LATENT, "num_hidden_layers": 8, "layer_group_size": 4, "head_dim": 16, "num_experts": 4,
                             "pad_token_id": 0}),
    "bamba": Other({**MOE, **STATE, "num_hidden_layers": 4, "attn_layer_indices": [1, 3]}),
    "big_bird": Other({**BERT, "attention_type": "original_full"}),
    # its head is not tied although its class says so
    "bigbird_pegasus": Other(BART, padded=False, ids=False, rules=("W103",)),
    "ctrl": Other({"vocab_size": 97, "n_positions": 512, "n_embd": 64, "dff": 48, "n_layer": 3, "n_head": 4}),
    # the base in attn_config is not read
    "dbrx": Other({"vocab_size": 97, "d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 512,
                   "attn_config": {"kv_n_heads": 2, "rope_theta": THETA, "clip_qkv": 8.0},
                   "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 2, "moe_top_k": 1}}, rules=("T101",)),
    "dots1": Other({**MOE, "n_shared_experts": 1, "first_k_dense_replace": 1}),
    "electra": Other({**BERT, "embedding_size": 64}),
    "gemma3n_text": Other({**SQUARE, "num_hidden_layers": 5, "num_kv_shared_layers": 0, "laurel_rank": 4,
                           "vocab_size_per_layer_input": 97, "hidden_size_per_layer_input": 8,
                           "intermediate_size": 48, "activation_sparsity_pattern": [0.0] * 5}),
    "gemma4_unified_text": Other({**SQUARE, "num_hidden_layers": 6, "global_head_dim": 32}),
    "granite_swa": Other({**MOE, "num_hidden_layers": 5, "sliding_window": 8, "attention_multiplier": 0.3,
                          "embedding_multiplier": 3.0, "logits_scaling": 4.0}),
    "granitemoe_swa": Other({**MOE, "sliding_window": 8, "attention_multiplier": 0.3,
                             "layer_rope_theta": [10000.0, 0, THETA]}),
    "granitemoehybrid": Other({**MOE, **STATE, "num_hidden_layers": 4, "shared_intermediate_size": 24,
                               "layer_types": ["mamba", "attention", "mamba", "attention"]}),
    "granitemoeshared": Other({**MOE, "attention_multiplier": 0.3, "shared_intermediate_size": 24}),
    "hy_v4": Other({**LATENT, "pad_token_id": 0}),
    "jamba": Other({**MOE, "num_hidden_layers": 8, "num_experts": 2}),
    "kimi_linear": Other({**LATENT, "num_hidden_layers": 4, "pad_token_id": 0,
                          "layer_types": ["linear_attention", "full_attention"] * 2}),
    "lfm2_moe": Other({**MOE, "layer_types": ["conv", "full_attention", "full_attention"], "num_dense_layers": 1}),
    "mimo_v2_flash": Other({**MOE, **BY_TYPE, "v_head_dim": 16, "swa_head_dim": 16, "swa_v_head_dim": 16,
                            "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2}),
    "openai-gpt": Other({"vocab_size": 97, "n_positions": 512, "n_embd": 64, "n_layer": 3, "n_head": 4}, steps=False),
    "recurrent_gemma": Other({**SQUARE, "num_hidden_layers": 6, "attention_window_size": 64, "lru_width": 64},
                             steps=False),
    "reformer": Other({"vocab_size": 97, "is_decoder": True, "hidden_size": 64, "num_attention_heads": 4,
                       "attention_head_size": 16, "attn_layers": ["local", "local"], "feed_forward_size": 48,
                       "axial_pos_embds": False, "max_position_embeddings": 512, "local_attn_chunk_length": 64},
                      steps=False),
    "rembert": Other({**BERT, "input_embedding_size": 64, "output_embedding_size": 64}),
    "roc_bert": Other({**BERT, "enable_pronunciation": False, "enable_shape": False}),
    # its rotation takes no positions: it counts from the left edge
    "roformer": Other(BERT, padded=False, ids=False),
    "trocr": Other({"vocab_size": 97, "d_model": 64, "decoder_layers": 3, "decoder_attention_heads": 4,
                    "decoder_ffn_dim": 48, "max_position_embeddings": 512}),
    "vaultgemma": Other({**SQUARE, "sliding_window": 8}),
    "whisper": Other({**BART, "max_target_positions": 512, "pad_token_id": 0}),
    # a causal XLM drops the padding mask
    "xlm": Other({"vocab_size": 97, "emb_dim": 64, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 512,
                  "causal": True, "n_langs": 1}, steps=False, rules=("B103",)),
    # in bf16 its own matrix product refuses the relative positions, which are f32
    "xlnet": Other({"vocab_size": 97, "d_model": 64, "n_layer": 3, "n_head": 4, "d_inner": 48}, steps=False,
                   f32_only=True),
    "xmod": Other({**BERT, "languages": ["en_XX"], "default_language": "en_XX"}, padded=False, ids=False),
    "zamba": Other({**SINGLE, "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1}),
}  # fmt: skip
for _kind, _other in OTHERS.items():
    CONFIGS[_kind] = (_kind, _other.keys)

WITHOUT_ATTENTION = "no layer of it attends"
WRAPS = "a wrapper whose text model is there by its own name"
NEEDS_INPUTS = "its forward pass needs more than token ids"
PAIRED = "it reads the cache of another model"
NOT_BUILT = "no tiny config of it was found that builds and runs"
NOT_TRACED: dict[str, str] = {
    **dict.fromkeys(("falcon_mamba", "mamba", "mamba2", "rwkv", "xlstm"), WITHOUT_ATTENTION),
    **dict.fromkeys(("emu3", "gemma3", "gemma3n", "gemma4", "gemma4_unified", "llama4", "mllama", "phi4_multimodal",
                     "qwen3_5", "qwen3_5_moe", "qwen4_exp", "dots3_note", "moss_transcribe_diarize", "got_ocr2"),
                    WRAPS),
    **dict.fromkeys(("blt", "git", "moshi", "musicgen", "musicgen_melody", "cpmant"), NEEDS_INPUTS),
    **dict.fromkeys(("gemma4_assistant", "gemma4_unified_assistant"), PAIRED),
    **dict.fromkeys(("cohere_compass_text", "dory", "dots3_note_text", "inkling2_loop_text", "inkling2_text",
                     "prophetnet", "qwen4_exp_text", "roberta-prelayernorm", "zamba2"), NOT_BUILT),
    "longcat_flash": "two attentions a block, which a trace has no names for",
}  # fmt: skip
