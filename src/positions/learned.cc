// SPDX-License-Identifier: Apache-2.0
// Learned absolute positions: row (position + offset) of a trained table [rows, width] is added to the token
// state (Gehring et al. 2017, section 3.1). The table ends; a position past it has no row, or the last one.
#include <array>

#include <fmt/format.h>

#include "core/checked.h"
#include "positions/parameters.h"

namespace locant {
namespace {

constexpr std::string_view kName = "learned";
constexpr std::array<std::string_view, 2> kAliases = {"absolute", "learned_absolute"};

constexpr std::array<std::string_view, 2> kPastEnds = {"refuse", "last_row"};

constexpr std::array<ParameterDescription, 6> kParameters = {{
    {"rows", "tokens", "", "max_position_embeddings n_positions n_ctx context_length",
     "rows of the table, those below the offset included"},
    {"width", "elements", "", "hidden_size n_embd word_embed_proj_dim embedding_length",
     "columns of the table"},
    {"offset", "tokens", "0", "", "row of position 0 (OPT and BART 2, RoBERTa pad_token_id + 1)"},
    {"first_position", "tokens", "0", "",
     "position of the first token; ids that already start at pad_token_id + 1 have offset 0 and this"},
    {"past_end", "1", "refuse", "",
     "what a position past the last row gets: nothing (refuse) or the last row (last_row)"},
    {"role", "1", "positions", "", "which weight of the model is the table"},
}};

SitePlan plan_learned(const PositionSpec& spec, const Recipe&, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  PositionEmbedding embedding;
  embedding.form = EmbeddingForm::table;
  embedding.rows = read.integer("rows", {.min = 1, .max = kMaxRows});
  embedding.width = read.integer("width", {.min = 1, .max = kMaxWidth});
  if (!checked_mul(embedding.rows, embedding.width)) {
    read.fail("rows", fmt::format("times width {} must fit in 64 bits", embedding.width),
              std::to_string(embedding.rows));
  }
  embedding.offset = read.integer("offset", {.min = 0, .max = embedding.rows - 1}, 0);
  embedding.first_position =
      read.integer("first_position", {.min = 0, .max = embedding.rows - 1 - embedding.offset}, 0);
  embedding.past_end = read.choice("past_end", kPastEnds) == 0 ? PastEnd::refuse : PastEnd::last_row;
  embedding.role = read.text("role", "positions");
  return embedding;
}

}  // namespace

Mechanism learned() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::embedding,
          .summary = "adds a row of a trained table to the token state",
          .formula =
              "state[t] += table[position + offset]\n"
              "0 <= position + offset < rows, otherwise there is no row\n"
              "past_end last_row: a position past the last row has the last row",
          .paper =
              "Gehring et al. 2017, Convolutional Sequence to Sequence Learning, arXiv:1705.03122, "
              "section 3.1; Devlin et al. 2018, BERT, arXiv:1810.04805",
          .parameters = kParameters,
          .plan = plan_learned};
}

}  // namespace locant
