// SPDX-License-Identifier: Apache-2.0
#include "cli/scores.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "cli/prompts.h"
#include "locant/ops.h"

namespace locant::cli {
namespace {

bool all_finite(View<const float, 1> logits) {
  for (std::int64_t i = 0; i < logits.extent(0); ++i) {
    if (!std::isfinite(logits(i))) return false;
  }
  return true;
}

View<const float, 1> row_of(View<const float, 2> logits, std::int64_t row) {
  return {&logits(row, 0), {logits.extent(1)}, {logits.stride(1)}};
}

/// The k largest logits with their probabilities; NaN never among them.
std::vector<NextToken> best(View<const float, 1> logits, std::int64_t k, std::int64_t token) {
  std::vector<Candidate> found(static_cast<std::size_t>(std::min(k, logits.extent(0))));
  found.resize(top_candidates(logits, found));
  const double total = log_sum_exp(logits);
  std::vector<NextToken> tokens;
  for (const Candidate& candidate : found) {
    const double logit = static_cast<double>(candidate.logit);
    tokens.push_back({token, candidate.id, candidate.logit, std::exp(logit - total)});
  }
  return tokens;
}

LossBucket bucket_at(std::int64_t position) {
  constexpr std::int64_t kFirst = 32;
  if (position < 0) return {std::numeric_limits<std::int64_t>::min(), -1};
  if (position < kFirst) return {0, kFirst - 1};
  const auto from = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(position)));
  return {from, from + (from - 1)};
}

}  // namespace

PromptScores::PromptScores(const std::vector<std::vector<std::int64_t>>& rows, std::int64_t vocab,
                           const Options& options)
    : rows_(rows), vocab_(vocab), options_(options) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto length = static_cast<std::int64_t>(rows[row].size());
    width = std::max(width, length);
    log_probabilities.emplace_back(rows[row].size());
    for (std::int64_t token = 0; token < length; ++token)
      places_.push_back({static_cast<std::int64_t>(row), token});
  }
  next.resize(rows.size());
  choice.assign(rows.size(), -1);
  if (options.keep_logits) {
    logits.assign(rows.size() * static_cast<std::size_t>(width) * static_cast<std::size_t>(vocab),
                  std::numeric_limits<float>::quiet_NaN());
  }
}

void PromptScores::read(std::int64_t first_token, View<const float, 2> some, ThreadPool& pool) {
  const std::int64_t count = some.extent(0);
  std::vector<char> finite(static_cast<std::size_t>(count), 1);
  pool.run(count, [&](std::int64_t i) {
    const PlaceInRow place = places_[static_cast<std::size_t>(first_token + i)];
    const auto& ids = rows_[static_cast<std::size_t>(place.row)];
    const View<const float, 1> row = row_of(some, i);
    const auto about =
        static_cast<std::size_t>(place.token + (options_.predicts == Predicts::following ? 1 : 0));
    finite[static_cast<std::size_t>(i)] = all_finite(row) ? 1 : 0;
    if (about < ids.size()) {
      log_probabilities[static_cast<std::size_t>(place.row)][about] =
          static_cast<double>(row(ids[about])) - log_sum_exp(row);
    }
    if (options_.keep_logits) {
      const std::int64_t column =
          first_column(options_.padding, width, static_cast<std::int64_t>(ids.size())) + place.token;
      float* out = logits.data() + (place.row * width + column) * vocab_;
      for (std::int64_t id = 0; id < vocab_; ++id) out[id] = row(id);
    }
  });
  for (std::int64_t i = 0; i < count; ++i) {
    const PlaceInRow place = places_[static_cast<std::size_t>(first_token + i)];
    if (finite[static_cast<std::size_t>(i)] == 0 && !first_non_finite) first_non_finite = place;
    take_next(place, row_of(some, i));
  }
}

void PromptScores::take_next(PlaceInRow place, View<const float, 1> of_token) {
  const auto row = static_cast<std::size_t>(place.row);
  const auto& ids = rows_[row];
  if (options_.predicts == Predicts::itself) {
    if (options_.mask != ids[static_cast<std::size_t>(place.token)]) return;
    const std::vector<NextToken> found = best(of_token, options_.top, place.token);
    next[row].insert(next[row].end(), found.begin(), found.end());
    return;
  }
  if (place.token + 1 != static_cast<std::int64_t>(ids.size())) return;
  next[row] = best(of_token, std::max<std::int64_t>(options_.top, 1), place.token);
  if (!next[row].empty()) {
    choice[row] = options_.sampling.temperature == 0 ? next[row].front().id
                                                     : choose(of_token, options_.sampling, place.row, 0);
  }
  next[row].resize(std::min(next[row].size(), static_cast<std::size_t>(options_.top)));
}

std::optional<Loss> loss_of(std::span<const std::optional<double>> log_probabilities,
                            std::span<const std::int64_t> positions) {
  Loss loss;
  double sum = 0;
  std::map<std::int64_t, LossBucket> buckets;  // by first position; `loss` holds the sum until the end
  for (std::size_t token = 0; token < log_probabilities.size(); ++token) {
    if (!log_probabilities[token]) continue;
    const double nats = -*log_probabilities[token];
    const LossBucket at = bucket_at(positions[token]);
    LossBucket& bucket = buckets.emplace(at.from, at).first->second;
    bucket.loss += nats;
    ++bucket.tokens;
    sum += nats;
    ++loss.tokens;
  }
  if (loss.tokens == 0) return std::nullopt;
  loss.mean = sum / static_cast<double>(loss.tokens);
  for (auto& [from, bucket] : buckets) {
    bucket.loss /= static_cast<double>(bucket.tokens);
    loss.buckets.push_back(bucket);
  }
  return loss;
}

}  // namespace locant::cli
