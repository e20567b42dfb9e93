# SPDX-License-Identifier: Apache-2.0
"""Families as GGUF files: each architecture with the case of the zoo that it holds and the keys that it adds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from family_zoo import Case
from gguf_convert import Keys
from zoo_decoders import DECODERS, EVEN, GPT, MPT, WIDE
from zoo_encoder_decoders import T5, pair
from zoo_encoders import BERT, masked
from zoo_mixtures import MIXTURES

BLOOM: dict[str, Any] = {"hidden_size": 60, "n_layer": 3, "n_head": 5}


@dataclass(frozen=True)
class File:
    """A case of the zoo as a file of this architecture, with the keys that the family adds."""

    architecture: str
    case: Case
    keys: Keys = field(default_factory=dict)
    changes: str = ""


def of(name: str, **changed: Any) -> Case:
    case = DECODERS.get(name) or MIXTURES[name]
    return Case(case.kind, {**case.keys, **changed}, opener=case.opener)


def experts(count: int, chosen: int, **more: Any) -> Keys:
    return {
        "expert_count": count,
        "expert_used_count": chosen,
        **{key.replace("__", "."): value for key, value in more.items()},
    }


LATENT_KEYS: Keys = {
    "attention.kv_lora_rank": 18, "attention.q_lora_rank": 26, "attention.key_length": 16,
    "attention.value_length": 14, "rope.dimension_count": 6,
    **experts(12, 3, expert_feed_forward_length=20, expert_shared_count=2, leading_dense_block_count=1),
}  # fmt: skip
IN_PARTS: Keys = {
    **LATENT_KEYS, "attention.key_length": 24, "attention.value_length": 18, "attention.key_length_mla": 16,
    "attention.value_length_mla": 14, "attention.head_count_kv": 1,
}  # fmt: skip
V3: Keys = {"expert_group_count": 4, "expert_group_used_count": 2, "expert_gating_func": 2,
            "expert_weights_norm": True, "expert_weights_scale": 2.5}  # fmt: skip

# llama.cpp knows no other reach of T5's buckets
NEAR: Keys = {**T5, "relative_attention_max_distance": 128}
UNTIED: Keys = {**NEAR, "tie_word_embeddings": False}
T5_KEYS: Keys = {"attention.relative_buckets_count": 16, "decoder_block_count": 3, "decoder_start_token_id": 0}

FILES: dict[str, File] = {
    "llama": File("llama", Case("llama", {**WIDE})),
    "llama tied biased": File("llama", Case("llama", {**WIDE, "tie_word_embeddings": True, "attention_bias": True,
                                                      "mlp_bias": True})),
    "mistral": File("llama", of("mistral")),
    "mixtral": File("llama", of("mixtral"), experts(5, 2)),
    "qwen2": File("qwen2", of("qwen2")),
    "qwen2moe": File("qwen2moe", of("qwen2_moe", mlp_only_layers=[]),
                     experts(7, 3, expert_feed_forward_length=20, expert_shared_feed_forward_length=28)),
    "qwen3": File("qwen3", of("qwen3")),
    "qwen3moe": File("qwen3moe", of("qwen3_moe normalised"), experts(7, 3, expert_feed_forward_length=20)),
    "olmoe": File("olmoe", of("olmoe"), experts(7, 3)),
    "gemma": File("gemma", of("gemma")),
    "gemma2": File("gemma2", of("gemma2", query_pre_attn_scalar=14),
                   {"attention.sliding_window": 24, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 4.0}),
    "gemma3": File("gemma3", of("gemma3", query_pre_attn_scalar=14), {"attention.sliding_window": 24}),
    "phi2": File("phi2", of("phi")),
    "phi3": File("phi3", of("phi3")),
    "phi3 partial": File("phi3", of("phi3 partial")),
    "gpt2": File("gpt2", Case("gpt2", {**GPT})),
    "gptj": File("gptj", of("gptj"), {"rope.dimension_count": 8, "rope.freq_base": 10000.0}),
    "gptneox": File("gptneox", of("gpt_neox"), {"use_parallel_residual": True}),
    "gptneox serial": File("gptneox", of("gpt_neox serial"), {"use_parallel_residual": False}),
    "bloom": File("bloom", Case("bloom", BLOOM)),
    "mpt": File("mpt", of("mpt"), {"attention.max_alibi_bias": 8.0}),
    "mpt clipped": File("mpt", Case("mpt", {**MPT, "attn_config": {"clip_qkv": 0.5}}),
                        {"attention.max_alibi_bias": 8.0, "attention.clamp_kqv": 0.5}),
    "falcon 7b": File("falcon", of("falcon 7b"), {"attention.head_count_kv": 1}),
    "falcon 40b": File("falcon", of("falcon 40b"), {"attention.head_count_kv": 2}),
    "stablelm": File("stablelm", of("stablelm")),
    "stablelm parallel": File("stablelm", of("stablelm parallel")),
    "stablelm normed": File("stablelm", of("stablelm normed")),
    "starcoder2": File("starcoder2", of("starcoder2", sliding_window=None)),
    "command-r": File("command-r", of("cohere"), {"logit_scale": 0.0625}),
    "command-r normed": File("command-r", of("cohere normed", tie_word_embeddings=True), {"logit_scale": 0.3}),
    "cohere2": File("cohere2", of("cohere2"), {"attention.sliding_window": 24, "logit_scale": 0.0625}),
    "olmo": File("olmo", of("olmo")),
    "olmo clipped": File("olmo", of("olmo clipped"), {"attention.clamp_kqv": 0.5}),
    "olmo2": File("olmo2", of("olmo2")),
    "granite": File("granite", of("granite"), {"embedding_scale": 3.0, "residual_scale": 0.22, "attention.scale": 0.3,
                                               "logit_scale": 4.0}),
    "chatglm": File("chatglm", of("glm")),
    "glm4": File("glm4", of("glm4")),
    "smollm3": File("smollm3", Case("smollm3", {**EVEN, "num_hidden_layers": 5, "no_rope_layer_interval": 4})),
    "gpt-oss": File("gpt-oss", of("gpt_oss truncated", sliding_window=24),
                    {"attention.sliding_window": 24, **experts(5, 2, expert_feed_forward_length=84)}),
    "deepseek3": File("deepseek2", of("deepseek_v3"), {**LATENT_KEYS, **V3}),
    "deepseek3 in parts": File("deepseek2", of("deepseek_v3"), {**IN_PARTS, **V3}, "deepseek2 in parts"),
    "deepseek2": File("deepseek2", of("deepseek_v2 greedy"), {**LATENT_KEYS, "expert_weights_scale": 1.0}),
    "deepseek2 groups": File("deepseek2", of("deepseek_v2"),
                             {**LATENT_KEYS, "expert_weights_scale": 1.0, "expert_group_count": 4,
                              "expert_group_used_count": 2}),
    "llama4": File(
        "llama4", of("llama4_text", attention_chunk_size=8192, floor_scale=8192, attn_scale=0.1),
        {"feed_forward_length": 68,
         **experts(5, 1, expert_feed_forward_length=84, interleave_moe_layer_step=2)},
    ),
    "ernie4_5-moe": File(
        "ernie4_5-moe", of("ernie4_5_moe"),
        experts(7, 3, expert_feed_forward_length=20, expert_shared_count=2, leading_dense_block_count=1,
                interleave_moe_layer_step=1),
    ),
    "exaone4": File("exaone4", of("exaone4 full")),
    "ernie4_5": File("ernie4_5", of("ernie4_5")),
    "hunyuan-dense": File("hunyuan-dense", of("hunyuan_v1_dense")),
    "arcee": File("arcee", of("arcee")),
    "nemotron": File("nemotron", of("nemotron")),
    "t5": File("t5", pair("t5", UNTIED), T5_KEYS),
    "t5 tied": File("t5", pair("t5", NEAR), T5_KEYS),
    "t5 gated": File("t5", pair("t5", {**UNTIED, "feed_forward_proj": "gated-gelu"}), T5_KEYS),
    "bert": File("bert", masked("bert", BERT), {"attention.causal": False}),
}  # fmt: skip
