# SPDX-License-Identifier: Apache-2.0
"""The decoders beside encoders: each family with what its keys switch. Both sides differ where a class lets them."""

from __future__ import annotations

import torch
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel

from family_zoo import Case, Keys, Zoo

# heads of 14, where hidden / heads is 12; distances past the last bucket
T5: Keys = {
    "d_model": 60, "d_kv": 14, "d_ff": 84, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 5,
    "relative_attention_num_buckets": 16, "relative_attention_max_distance": 40, "pad_token_id": 0,
    "decoder_start_token_id": 0,
}  # fmt: skip
BART: Keys = {
    "d_model": 60, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 5,
    "decoder_attention_heads": 5, "encoder_ffn_dim": 70, "decoder_ffn_dim": 84, "max_position_embeddings": 256,
    "pad_token_id": 1, "decoder_start_token_id": 2,
}  # fmt: skip


def pair(kind: str, keys: Keys, of: str = "") -> Case:
    return Case(kind, keys, of=of, opener=AutoModelForSeq2SeqLM)


ENCODER_DECODERS: dict[str, Case] = {
    "t5": pair("t5", T5),
    "t5 gated": pair("t5", {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "t5 gated silu": pair("t5", {**T5, "feed_forward_proj": "gated-silu"}),
    "t5 scaled": pair("t5", {**T5, "feed_forward_proj": "gated-gelu"}),
    "t5 near": pair("t5", {**T5, "relative_attention_max_distance": 9}, of="t5"),
    "mt5": pair("mt5", {**T5, "feed_forward_proj": "gated-gelu"}),
    "bart": pair("bart", BART),
    "bart scaled": pair("bart", {**BART, "scale_embedding": True}, of="bart"),
    "bart relu": pair("bart", {**BART, "activation_function": "relu"}, of="bart"),
    "mbart": pair("mbart", {**BART, "scale_embedding": True}),
    "marian": pair("marian", {**BART, "scale_embedding": True, "activation_function": "swish"}),
    "m2m_100": pair("m2m_100", {**BART, "scale_embedding": True}),
    "m2m_100 pad 7": pair("m2m_100", {**BART, "pad_token_id": 7}, of="m2m_100"),
}  # fmt: skip


class PairZoo(Zoo):
    """T5 does not scale its scores: queries are drawn smaller, as its class draws them."""

    def build(self, name: str) -> PreTrainedModel:
        model = super().build(name)
        with torch.no_grad():
            for place, weight in model.named_parameters():
                if place.endswith(("SelfAttention.q.weight", "EncDecAttention.q.weight")):
                    weight.mul_(model.config.d_kv**-0.5)
        return model
