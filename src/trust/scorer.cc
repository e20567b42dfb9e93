// SPDX-License-Identifier: Apache-2.0
#include "trust/scorer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace locant::trust_room {
namespace {

constexpr std::int64_t kMostFloats = std::int64_t{1} << 24;  // logits of one call, 64 MiB
constexpr std::int64_t kMostTokens = 2048;                   // of all rows of a batch
constexpr std::int64_t kMostRows = 8;

}  // namespace

double log_sum(std::span<const float> logits) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) {
    if (!std::isfinite(logit)) return std::numeric_limits<double>::quiet_NaN();
    largest = std::max(largest, logit);
  }
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(largest));
  return static_cast<double>(largest) + std::log(sum);
}

double loss_of(std::span<const float> logits, std::int64_t target) {
  const double all = log_sum(logits);
  if (!std::isfinite(all)) return std::numeric_limits<double>::infinity();
  return all - static_cast<double>(logits[static_cast<std::size_t>(target)]);
}

std::int64_t Scorer::rows_at(std::int64_t tokens) const {
  const std::int64_t by_tokens = kMostTokens / std::max<std::int64_t>(tokens, 1);
  const std::int64_t by_floats = kMostFloats / std::max<std::int64_t>(vocab_ * kTargets, 1);
  return std::clamp<std::int64_t>(std::min(by_tokens, by_floats), 1, kMostRows);
}

void Scorer::run(const std::vector<Ids>& rows, std::int64_t last, const LastReader& reader,
                 std::span<const std::int64_t> positions) {
  const auto begun = std::chrono::steady_clock::now();
  const auto count = static_cast<std::int64_t>(rows.size());
  const auto tokens = static_cast<std::int64_t>(rows.front().size());
  const std::int64_t piece = feeding_ == Feeding::in_one_piece
                                 ? tokens
                                 : std::clamp<std::int64_t>(kMostFloats / (count * vocab_), 1, tokens);
  const auto session = runtime_.open(tokens);
  for (std::int64_t first = 0; first < tokens; first += piece) {
    const std::int64_t width = std::min(piece, tokens - first);
    Ids ids;
    Ids at;
    for (const Ids& row : rows) {
      ids.insert(ids.end(), row.begin() + first, row.begin() + first + width);
      if (!positions.empty())
        at.insert(at.end(), positions.begin() + first, positions.begin() + first + width);
    }
    ForwardCall call{.ids = {ids.data(), {count, width}}, .mask = {}, .positions = {}};
    if (!at.empty()) call.positions.emplace(at.data(), View<const std::int64_t, 3>::Shape{1, count, width});
    logits_.assign(static_cast<std::size_t>(count * width * vocab_), std::numeric_limits<float>::quiet_NaN());
    session->forward(call, {logits_.data(), {count, width, vocab_}});
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t t = std::max<std::int64_t>(tokens - last - first, 0); t < width; ++t) {
        const auto offset = static_cast<std::size_t>((row * width + t) * vocab_);
        reader(row, first + t - (tokens - last), {logits_.data() + offset, static_cast<std::size_t>(vocab_)});
      }
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  costs_.record(tokens, seconds / static_cast<double>(count));
}

}  // namespace locant::trust_room
