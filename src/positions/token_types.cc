// SPDX-License-Identifier: Apache-2.0
// Token types (segments): row type[t] of a trained table [rows, width] is added to the token state (Devlin et
// al. 2018, section 3.2). The row is chosen by a type id that comes with the tokens, not by the position.
#include <array>

#include <fmt/format.h>

#include "core/checked.h"
#include "positions/parameters.h"

namespace locant {
namespace {

constexpr std::string_view kName = "token_types";
constexpr std::array<std::string_view, 2> kAliases = {"token_type", "segments"};

constexpr std::array<ParameterDescription, 3> kParameters = {{
    {"rows", "1", "", "type_vocab_size tokenizer.ggml.token_type_count", "types there are"},
    {"width", "elements", "", "hidden_size embedding_size embedding_length", "columns of the table"},
    {"role", "1", "token_types", "", "which weight of the model is the table"},
}};

SitePlan plan_token_types(const PositionSpec& spec, const Recipe&, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  PositionEmbedding embedding;
  embedding.form = EmbeddingForm::token_types;
  embedding.rows = read.integer("rows", {.min = 1, .max = kMaxRows});
  embedding.width = read.integer("width", {.min = 1, .max = kMaxWidth});
  if (!checked_mul(embedding.rows, embedding.width)) {
    read.fail("rows", fmt::format("times width {} must fit in 64 bits", embedding.width),
              std::to_string(embedding.rows));
  }
  embedding.role = read.text("role", "token_types");
  return embedding;
}

}  // namespace

Mechanism token_types() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::embedding,
          .summary = "adds a row of a trained table, chosen by the type of the token, to the token state",
          .formula =
              "state[t] += table[type[t]]\n"
              "0 <= type < rows, otherwise there is no row; without types every token has type 0",
          .paper =
              "Devlin et al. 2018, BERT: Pre-training of Deep Bidirectional Transformers for Language "
              "Understanding, arXiv:1810.04805, section 3.2",
          .parameters = kParameters,
          .plan = plan_token_types};
}

}  // namespace locant
