// SPDX-License-Identifier: Apache-2.0
#include "check/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace locant::check_room {

FactorFit likeness_from(double xx, double xy, double yy) {
  FactorFit like;
  if (xx == 0 || yy == 0) return like;
  like.factor = xy / xx;
  like.residual = std::sqrt(std::max(0.0, yy - xy * xy / xx) / yy);
  return like;
}

std::optional<Values> state_of(const Pass& pass, std::string_view name) {
  const TensorRef tensor = pass.find(name);
  if (tensor.data == nullptr) return std::nullopt;
  if (tensor.rank != 3 || tensor.shape[0] != pass.rows || tensor.shape[1] != pass.tokens) {
    throw FileError(pass.path, fmt::format("{}{} is [{},{},width], got {}", pass.prefix, name, pass.rows,
                                           pass.tokens, tensor.shape_text()));
  }
  return values_of(tensor, pass.path + ": " + pass.prefix + std::string(name));
}

Place place_of(const Trace& trace, const Pass& pass, std::string_view name) {
  Place where;
  where.file = trace.path;
  where.tensor = pass.prefix + std::string(name);
  where.step = pass.step;
  return where;
}

void EmbeddingBook::add(std::string_view rule, Finding finding, std::string cause) {
  if (!said_.insert(std::string(rule)).second) return;
  finding.severity = find_rule(rule).severity;
  book_.add(rule, Depth::embedding, std::move(finding), std::move(cause));
}

}  // namespace locant::check_room
