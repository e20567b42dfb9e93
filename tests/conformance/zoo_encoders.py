# SPDX-License-Identifier: Apache-2.0
"""The encoders: each family with what its keys switch, as masked language models."""

from __future__ import annotations

from transformers import AutoModelForMaskedLM

from family_zoo import Case, Keys

BERT: Keys = {
    "hidden_size": 60, "num_hidden_layers": 3, "num_attention_heads": 5, "intermediate_size": 84,
    "max_position_embeddings": 256, "type_vocab_size": 3, "pad_token_id": 1, "layer_norm_eps": 1e-5,
}  # fmt: skip
DISTILBERT: Keys = {"dim": 60, "n_layers": 3, "n_heads": 5, "hidden_dim": 84, "max_position_embeddings": 256,
                    "pad_token_id": 1}  # fmt: skip
# windows of 12 tokens on either side in every layer but the first and the last
MODERNBERT: Keys = {
    "hidden_size": 60, "num_hidden_layers": 4, "num_attention_heads": 5, "intermediate_size": 84,
    "max_position_embeddings": 256, "local_attention": 24, "pad_token_id": 1,
}  # fmt: skip


def masked(kind: str, keys: Keys, of: str = "") -> Case:
    return Case(kind, keys, of=of, opener=AutoModelForMaskedLM)


ENCODERS: dict[str, Case] = {
    "bert": masked("bert", BERT),
    "bert relu": masked("bert", {**BERT, "hidden_act": "relu"}, of="bert"),
    "bert one type": masked("bert", {**BERT, "type_vocab_size": 1}),
    "bert eps": masked("bert", {**BERT, "layer_norm_eps": 0.03}, of="bert"),
    "roberta": masked("roberta", BERT),
    "roberta pad 5": masked("roberta", {**BERT, "pad_token_id": 5}, of="roberta"),
    "roberta gelu_new": masked("roberta", {**BERT, "hidden_act": "gelu_new"}, of="roberta"),
    "xlm-roberta": masked("xlm-roberta", {**BERT, "type_vocab_size": 1}),
    "camembert": masked("camembert", {**BERT, "type_vocab_size": 1}),
    "albert": masked("albert", {**BERT, "embedding_size": 28}),
    "albert two groups": masked("albert", {**BERT, "embedding_size": 28, "num_hidden_layers": 4,
                                           "num_hidden_groups": 2}),
    "albert wide tables": masked("albert", {**BERT, "embedding_size": 100}),
    "distilbert": masked("distilbert", DISTILBERT),
    "distilbert relu": masked("distilbert", {**DISTILBERT, "activation": "relu"}, of="distilbert"),
    "electra": masked("electra", {**BERT, "embedding_size": 28}),
    "electra wide tables": masked("electra", {**BERT, "embedding_size": 100}),
    "electra as wide": masked("electra", {**BERT, "embedding_size": 60, "hidden_act": "relu"}),
    "modernbert": masked("modernbert", MODERNBERT),
    "modernbert full": masked("modernbert", {**MODERNBERT, "layer_types": ["full_attention"] * 4}, of="modernbert"),
    "modernbert biases": masked("modernbert", {**MODERNBERT, "norm_bias": True, "attention_bias": True,
                                               "mlp_bias": True}),
    "modernbert no decoder bias": masked("modernbert", {**MODERNBERT, "decoder_bias": False}),
}  # fmt: skip
