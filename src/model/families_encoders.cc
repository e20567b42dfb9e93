// SPDX-License-Identifier: Apache-2.0
// Rows of encoders, with their masked-LM heads. A checkpoint of the bare encoder has no head; what only
// classifiers and poolers read is passed over.
#include <array>

#include "model/family.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

constexpr std::array kNotRead = {"pooler.dense.weight"sv,
                                 "pooler.dense.bias"sv,
                                 "albert.pooler.weight"sv,
                                 "albert.pooler.bias"sv,
                                 "cls.seq_relationship.weight"sv,
                                 "cls.seq_relationship.bias"sv,
                                 "sop_classifier.classifier.weight"sv,
                                 "sop_classifier.classifier.bias"sv,
                                 "discriminator_predictions.dense.weight"sv,
                                 "discriminator_predictions.dense.bias"sv,
                                 "discriminator_predictions.dense_prediction.weight"sv,
                                 "discriminator_predictions.dense_prediction.bias"sv,
                                 "embeddings.position_ids"sv,
                                 "embeddings.token_type_ids"sv};

// BERT's own names; the head differs from family to family.
constexpr FamilyWeights bert(std::string_view family, std::string_view prefix) {
  return {.family = family,
          .prefixes = {prefix, ""},
          .embedding = "embeddings.word_embeddings",
          .positions = "embeddings.position_embeddings",
          .token_types = "embeddings.token_type_embeddings",
          .embedding_norm = "embeddings.LayerNorm",
          .head = "cls.predictions.decoder",
          .head_dense = "cls.predictions.transform.dense",
          .head_norm = "cls.predictions.transform.LayerNorm",
          .head_bias = "cls.predictions.bias",
          .layers = "encoder.layer.",
          .attention_sum = "attention.output.LayerNorm",
          .qkv = {"attention.self.query", "attention.self.key", "attention.self.value"},
          .attention_out = "attention.output.dense",
          .mlp_sum = "output.LayerNorm",
          .up = "intermediate.dense",
          .down = "output.dense",
          .not_weights = kNotRead};
}

constexpr FamilyWeights roberta(std::string_view family) {
  FamilyWeights row = bert(family, "roberta.");
  row.head = "lm_head.decoder";
  row.head_dense = "lm_head.dense";
  row.head_norm = "lm_head.layer_norm";
  row.head_bias = "lm_head.bias";
  return row;
}

// Groups of layers take the place of layers.
constexpr FamilyWeights albert() {
  FamilyWeights row = bert("albert", "albert.");
  row.embedding_in = "encoder.embedding_hidden_mapping_in";
  row.head = "predictions.decoder";
  row.head_dense = "predictions.dense";
  row.head_norm = "predictions.LayerNorm";
  row.head_bias = "predictions.bias";
  row.layers = "encoder.albert_layer_groups.";
  row.attention_sum = "albert_layers.0.attention.LayerNorm";
  row.qkv = {"albert_layers.0.attention.query", "albert_layers.0.attention.key",
             "albert_layers.0.attention.value"};
  row.attention_out = "albert_layers.0.attention.dense";
  row.mlp_sum = "albert_layers.0.full_layer_layer_norm";
  row.up = "albert_layers.0.ffn";
  row.down = "albert_layers.0.ffn_output";
  return row;
}

constexpr FamilyWeights electra() {
  FamilyWeights row = bert("electra", "electra.");
  row.embedding_in = "embeddings_project";
  row.head = "generator_lm_head";
  row.head_dense = "generator_predictions.dense";
  row.head_norm = "generator_predictions.LayerNorm";
  row.head_bias = "";
  return row;
}

constexpr FamilyWeights distilbert() {
  FamilyWeights row = bert("distilbert", "distilbert.");
  row.head = "vocab_projector";
  row.head_dense = "vocab_transform";
  row.head_norm = "vocab_layer_norm";
  row.head_bias = "";
  row.layers = "transformer.layer.";
  row.attention_sum = "sa_layer_norm";
  row.qkv = {"attention.q_lin", "attention.k_lin", "attention.v_lin"};
  row.attention_out = "attention.out_lin";
  row.mlp_sum = "output_layer_norm";
  row.up = "ffn.lin1";
  row.down = "ffn.lin2";
  return row;
}

constexpr FamilyWeights modernbert() {
  return {.family = "modernbert",
          .prefixes = {"model.", ""},
          .embedding = "embeddings.tok_embeddings",
          .embedding_norm = "embeddings.norm",
          .final_norm = "final_norm",
          .head = "decoder",
          .head_dense = "head.dense",
          .head_norm = "head.norm",
          .layers = "layers.",
          .attention_norm = "attn_norm",
          .qkv_layout = QkvLayout::thirds,
          .qkv = {"attn.Wqkv", "", ""},
          .attention_out = "attn.Wo",
          .mlp_norm = "mlp_norm",
          .up = "mlp.Wi",
          .down = "mlp.Wo",
          .gates = GateLayout::gate_first};
}

constexpr std::array kRows = {albert(),  bert("bert", "bert."), roberta("camembert"), distilbert(),
                              electra(), modernbert(),          roberta("roberta"),   roberta("xlm-roberta")};

}  // namespace

std::span<const FamilyWeights> encoder_weights() noexcept {
  return kRows;
}

}  // namespace locant
