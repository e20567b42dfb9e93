// SPDX-License-Identifier: Apache-2.0
// What a bias of slopes adds to the scores [heads, Q, K], and the sinusoid rows [T, width] of a bias whose
// relative table is one.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/narrow.h"
#include "locant/positions.h"

namespace locant {
namespace {

/// Distance that a slope is multiplied by.
struct Counted {
  CountsFrom from = CountsFrom::query;
  bool both_ways = false;
  std::int64_t last = 0;

  [[nodiscard]] double operator()(std::int64_t query, std::int64_t key) const {
    const auto q = static_cast<double>(query);
    const auto k = static_cast<double>(key);
    if (both_ways) return -std::abs(q - k);
    if (from == CountsFrom::sequence_start) return k;
    return from == CountsFrom::sequence_end ? k - static_cast<double>(last) : k - q;
  }
};

}  // namespace

void slope_scores(const Bias& bias, const Numerics& numerics, View<const std::int64_t, 1> queries,
                  View<const std::int64_t, 1> keys, View<float, 3> out) {
  if (bias.form != BiasForm::slopes || static_cast<std::int64_t>(bias.slopes.size()) != bias.heads) {
    throw SpecError(fmt::format("slope_scores: a bias has a slope for each of its heads, got {} of {}",
                                name_of(bias.form), bias.heads));
  }
  if (out.shape() != std::array{bias.heads, queries.extent(0), keys.extent(0)}) {
    throw SpecError(fmt::format("slope_scores: out is [heads={}, queries={}, keys={}], got [{},{},{}]",
                                bias.heads, queries.extent(0), keys.extent(0), out.extent(0), out.extent(1),
                                out.extent(2)));
  }
  Counted counted{.from = bias.counts_from, .both_ways = bias.bidirectional};
  for (std::int64_t k = 0; k < keys.extent(0); ++k) counted.last = std::max(counted.last, keys(k));
  const bool f64 = numerics.frequency == DType::f64;
  DType kept = DType::f32;
  DType counted_in = DType::f32;
  if (bias.counts_from == CountsFrom::sequence_start && bias.scale_order == ScaleOrder::after_scale) {
    kept = numerics.bias;
  } else if (bias.counts_from == CountsFrom::sequence_start) {
    kept = counted_in = numerics.bias_before_scale;  // Falcon's positions are of the dtype of its slopes
  }
  for (std::int64_t h = 0; h < bias.heads; ++h) {
    const double slope = bias.slopes[static_cast<std::size_t>(h)];
    for (std::int64_t q = 0; q < queries.extent(0); ++q) {
      for (std::int64_t k = 0; k < keys.extent(0); ++k) {
        const double distance = counted(queries(q), keys(k));
        const float product =
            f64 ? static_cast<float>(slope * distance)
                : static_cast<float>(slope) * narrowed(static_cast<float>(distance), counted_in);
        out(h, q, k) = narrowed(product, kept);
      }
    }
  }
}

void relative_rows(const Bias& bias, const Numerics& numerics, View<const std::int64_t, 1> distances,
                   View<float, 2> rows) {
  if (bias.form != BiasForm::content || bias.inv_freq.empty()) {
    throw SpecError(fmt::format("relative_rows: the relative table of a bias is a sinusoid, got {} without",
                                name_of(bias.form)));
  }
  PositionEmbedding sinusoid;
  sinusoid.form = EmbeddingForm::sinusoid;
  sinusoid.width = 2 * static_cast<std::int64_t>(bias.inv_freq.size());
  sinusoid.inv_freq = bias.inv_freq;
  sinusoid.columns = Columns::halves;
  std::vector<std::int64_t> held;
  for (std::int64_t t = 0; t < distances.extent(0); ++t) {
    const std::int64_t d = distances(t);
    held.push_back(bias.max_distance > 0 ? std::clamp(d, -bias.max_distance, bias.max_distance) : d);
  }
  sinusoid_rows(sinusoid, numerics, View<std::int64_t, 1>(held.data(), distances.shape()), rows);
}

}  // namespace locant
