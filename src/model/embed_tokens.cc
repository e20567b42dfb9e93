// SPDX-License-Identifier: Apache-2.0
// What enters the first layer: scale * row of the token table, rows of position and type tables or sinusoids,
// a norm, a projection where the tables are narrower than the state.
#include <algorithm>
#include <numeric>

#include "model/blocks.h"

namespace locant {
namespace {

void add_embedding(const Step& step, const PositionEmbedding& embedding, const Matrix& table,
                   View<float, 2> to) {
  ThreadPool& pool = *step.model.pool;
  const View<float, 2> added = packed(step.work.added, step.tokens, embedding.width);
  const View<const std::int64_t, 1> positions(step.pass.positions.data_handle(), {step.tokens});
  const View<std::int64_t, 1> rows(step.work.table_rows.data(), {step.tokens});
  const bool is_type = embedding.form == EmbeddingForm::token_types;
  if (embedding.form == EmbeddingForm::sinusoid) {
    sinusoid_rows(embedding, step.model.numerics, positions, added);
  } else {
    for (std::int64_t t = 0; t < step.tokens; ++t) {
      const std::int64_t type = step.pass.types.empty() ? 0 : step.pass.types[static_cast<std::size_t>(t)];
      rows(t) = is_type ? type : table_row(embedding, positions(t));
    }
    embed({.ids = rows, .table = table, .scale = 1, .out = added}, pool);
  }
  step.record(is_type ? trace_names::kEmbedTypes : trace_names::kEmbedPositions, added);
  std::iota(step.work.table_rows.begin(), step.work.table_rows.begin() + step.tokens, 0);
  add_rows({.rows = rows, .table = matrix(added), .out = to}, pool);
}

}  // namespace

void embed_tokens(const Step& step) {
  const Weights& weights = step.model.weights;
  ThreadPool& pool = *step.model.pool;
  const View<const std::int64_t, 1> ids(step.pass.ids.data(), {step.tokens});
  const std::int64_t width = step.spec.embedding.width;
  const bool is_narrow = width != step.spec.hidden;
  View<float, 2> to = is_narrow ? step.work.narrow.rows(0, step.tokens) : step.state;
  if (step.trace != nullptr) {
    embed({.ids = ids, .table = weights.embedding, .scale = 1, .out = to}, pool);
    step.record(trace_names::kEmbedTokens, to);
  }
  embed({.ids = ids, .table = weights.embedding, .scale = step.model.embedding_scale, .out = to}, pool);
  // tables as wide as the state stand behind the projection (OPT), others before it (ALBERT)
  const auto& added = step.stack.plan.embedding;
  const bool projects_first = is_narrow && !added.empty() && added.front().width == step.spec.hidden;
  if (projects_first) {
    linear(step, weights.embedding_in, to, step.state);
    to = step.state;
  }
  for (std::size_t i = 0; i < added.size(); ++i)
    add_embedding(step, added[i], step.stack.weights->added[i], to);
  if (step.spec.embedding.normed)
    normalize_rows(step, step.spec.norm, step.stack.weights->embedding_norm, to, to);
  if (is_narrow && !projects_first) linear(step, weights.embedding_in, to, step.state);
  step.record(trace_names::kEmbedOut, step.state);
}

}  // namespace locant
