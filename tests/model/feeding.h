// SPDX-License-Identifier: Apache-2.0
// Loaded tiny models, calls in plain vectors, and the distance of two answers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "locant/model.h"
#include "model/checkpoint.h"

namespace locant::tests {

using Ids = std::vector<std::int64_t>;
/// [tokens][V]
using Logits = std::vector<std::vector<float>>;

/// A written checkpoint and the model read from it.
struct Loaded {
  explicit Loaded(Checkpoint checkpoint_, const LoadOptions& options = {}, int threads = 1)
      : checkpoint(std::move(checkpoint_)), pool(std::make_unique<ThreadPool>(threads)) {
    write_checkpoint(dir, checkpoint);
    model = Model::load(dir.path(), options, *pool);
  }
  [[nodiscard]] std::unique_ptr<Session> session(std::int64_t rows, std::int64_t capacity,
                                                 DType cache = DType::f32) const {
    return model->open_session({.rows = rows, .capacity = capacity, .cache = cache});
  }

  TempDir dir;
  Checkpoint checkpoint;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Model> model;
};

inline Ids some_ids(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  Ids ids;
  while (ids.size() < count)
    ids.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(kVocab)));
  return ids;
}

inline Ids part(const Ids& ids, std::size_t first, std::size_t count) {
  const auto at = ids.begin() + static_cast<std::ptrdiff_t>(first);
  return {at, at + static_cast<std::ptrdiff_t>(count)};
}

/// Feeds one chunk a row; logits of every token, by row. Positions by row, or empty.
inline std::vector<Logits> feed(Session& session, const std::vector<Ids>& rows,
                                const std::vector<Ids>& positions = {}) {
  Ids ids, counts, flat;
  std::vector<std::size_t> row_of;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    ids.insert(ids.end(), rows[row].begin(), rows[row].end());
    counts.push_back(static_cast<std::int64_t>(rows[row].size()));
    row_of.insert(row_of.end(), rows[row].size(), row);
  }
  for (const Ids& of_row : positions) flat.insert(flat.end(), of_row.begin(), of_row.end());
  std::vector<Logits> result(rows.size());
  std::int64_t next = 0;
  session.feed({.ids = ids, .row_tokens = counts, .positions = flat}, LogitsOf::all,
               [&](std::int64_t first, View<const float, 2> logits) {
                 if (first != next) throw std::logic_error("logits out of order");
                 for (std::int64_t i = 0; i < logits.extent(0); ++i, ++next) {
                   std::vector<float>& to = result[row_of.at(static_cast<std::size_t>(next))].emplace_back();
                   for (std::int64_t v = 0; v < logits.extent(1); ++v) to.push_back(logits(i, v));
                 }
               });
  if (next != static_cast<std::int64_t>(ids.size())) throw std::logic_error("logits are missing");
  return result;
}

/// As feed(), but of the last token of each row that got one, in order.
inline Logits feed_last(Session& session, const std::vector<Ids>& rows) {
  Ids ids, counts;
  for (const Ids& row : rows) {
    ids.insert(ids.end(), row.begin(), row.end());
    counts.push_back(static_cast<std::int64_t>(row.size()));
  }
  Logits result;
  session.feed({.ids = ids, .row_tokens = counts, .positions = {}}, LogitsOf::last_of_row,
               [&](std::int64_t first, View<const float, 2> logits) {
                 if (first != static_cast<std::int64_t>(result.size()))
                   throw std::logic_error("rows out of order");
                 for (std::int64_t i = 0; i < logits.extent(0); ++i) {
                   std::vector<float>& to = result.emplace_back();
                   for (std::int64_t v = 0; v < logits.extent(1); ++v) to.push_back(logits(i, v));
                 }
               });
  return result;
}

/// A row alone in a fresh session, fed at once.
inline Logits alone(const Loaded& loaded, const Ids& ids, const Ids& positions = {}) {
  const auto session = loaded.session(1, static_cast<std::int64_t>(ids.size()));
  return feed(*session, {ids}, positions.empty() ? std::vector<Ids>{} : std::vector<Ids>{positions})[0];
}

/// Largest difference over the largest value of `want`; infinite when the shapes differ or a value is NaN.
template <class Got, class Want>
double distance(const std::vector<std::vector<Got>>& got, const std::vector<std::vector<Want>>& want) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  double difference = 0;
  double largest = 0;
  if (got.size() != want.size() || got.empty()) return kFar;
  for (std::size_t t = 0; t < got.size(); ++t) {
    if (got[t].size() != want[t].size()) return kFar;
    for (std::size_t i = 0; i < got[t].size(); ++i) {
      const auto a = static_cast<double>(got[t][i]);
      const auto b = static_cast<double>(want[t][i]);
      if (std::isnan(a) || std::isnan(b)) return kFar;
      difference = std::max(difference, std::abs(a - b));
      largest = std::max(largest, std::abs(b));
    }
  }
  return largest > 0 ? difference / largest : kFar;
}

inline const std::vector<std::string>& four_families() {
  static const std::vector<std::string> kNames = {"bloom", "gpt2", "llama", "xglm"};
  return kNames;
}

}  // namespace locant::tests
