// SPDX-License-Identifier: Apache-2.0
// E113: the first tensor of a pass, in the order of the data's flow, whose content holds a number that is not
// finite.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "check/scores.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;
using names::Layer;

/// Tensors of [B, T, ...] in the order in which a pass makes them.
std::vector<std::string> flow(const Pass& pass) {
  std::vector<std::string> all{std::string(names::kEmbedTokens), std::string(names::kEmbedPositions),
                               std::string(names::kEmbedOut)};
  const std::size_t layers = pass.plan ? pass.plan->layers.size() : 0;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    for (const Layer tensor : {Layer::q_pre, Layer::k_pre, Layer::q, Layer::k, Layer::q_in, Layer::k_in,
                               Layer::v, Layer::scores, Layer::attn_out, Layer::out})
      all.push_back(names::layer(static_cast<std::int64_t>(layer), tensor));
  }
  all.emplace_back(names::kFinalNormOut);
  all.emplace_back(names::kLogits);
  return all;
}

/// The first token of content with such a number; masks are minus infinity by design.
std::optional<std::size_t> first_bad(const Pass& pass, const Values& values) {
  const std::size_t cell = values.data.size() / pass.content.size();
  for (std::size_t i = 0; cell > 0 && i < pass.content.size() * cell; ++i) {
    if (pass.content[i / cell] && !std::isfinite(values.data[i])) return i / cell;
  }
  return std::nullopt;
}

std::optional<std::size_t> first_bad_score(const Pass& pass, const Values& scores) {
  return first_score(pass, scores, keys_of(pass, scores.extent(3)),
                     [](float score) { return !std::isfinite(score) && !(score < 0); });
}

bool report(const Trace& trace, const Pass& pass, Book& book) {
  for (const std::string& name : flow(pass)) {
    const TensorRef tensor = pass.find(name);
    if (tensor.data == nullptr || tensor.rank < 3 || !is_float(tensor.dtype) || tensor.shape[0] != pass.rows)
      continue;
    const bool scores = name.ends_with("scores");
    if (tensor.shape[scores ? 2 : 1] != pass.tokens || (scores && tensor.rank != 4)) continue;
    book.asked("E113");
    const Values values = values_of(tensor, pass.path + ": " + pass.prefix + name);
    const std::optional<std::size_t> bad = scores ? first_bad_score(pass, values) : first_bad(pass, values);
    if (!bad) continue;
    Finding finding;
    finding.where.file = trace.path;
    finding.where.tensor = pass.prefix + name;
    finding.where.step = pass.step;
    finding.where.row = static_cast<std::int64_t>(*bad) / pass.tokens;
    finding.where.token = static_cast<std::int64_t>(*bad) % pass.tokens;
    finding.message =
        fmt::format("{} is the first tensor with numbers that are not finite, at row {}, token {}", name,
                    *finding.where.row, *finding.where.token);
    finding.expected = std::string("finite");
    finding.observed = std::string("not finite");
    book.add("E113", Depth::behaviour, std::move(finding), "not finite");
    return true;
  }
  return false;
}

}  // namespace

void check_finite(const Evidence& evidence, Book& book) {
  for (const auto& trace : evidence.traces) {
    for (const Pass& pass : trace->passes) {
      if (report(*trace, pass, book)) break;
    }
  }
}

}  // namespace locant::check_room
