// SPDX-License-Identifier: Apache-2.0
// Rotary positions (Su et al. 2021, eq. 34) on q and k kept as (batch, heads, sequence, head_dim), rotated in
// place through strided views of [sequence, heads, head_dim], without a transpose or a copy. The scores that
// follow depend on the distance of query and key alone, which the numbers show.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <variant>
#include <vector>

#include "locant/core.h"
#include "locant/ops.h"
#include "locant/plan.h"
#include "locant/positions.h"
#include "locant/recipe.h"
#include "locant/threads.h"

namespace {
constexpr std::int64_t kBatch = 2, kHeads = 3, kTokens = 8, kDim = 16;

/// One sequence of (batch, heads, sequence, head_dim) as [sequence, heads, head_dim].
locant::View<float, 3> sequence(std::vector<float>& x, std::int64_t batch) {
  return {x.data() + batch * kHeads * kTokens * kDim, {kTokens, kHeads, kDim}, {kDim, kTokens * kDim, 1}};
}
}  // namespace

int main() {
  locant::PositionSpec spec{.mechanism = "rope", .parameters = {}};
  spec.set("head_dim", kDim);
  spec.set("theta", 10000.0);
  const locant::Recipe& exact = locant::find_recipe("exact");
  const auto rotation =
      std::get<locant::Rotation>(locant::find_mechanism("rope").plan(spec, exact, {.seen = kTokens}));

  // Every token holds the same q and the same k, so that positions alone make the scores.
  std::vector<float> q(kBatch * kHeads * kTokens * kDim), k(q.size());
  for (std::size_t i = 0; i < q.size(); ++i) {
    const auto channel = static_cast<double>(i % kDim);
    q[i] = static_cast<float>(std::cos(channel));
    k[i] = static_cast<float>(std::cos(channel + 0.5));
  }

  locant::ThreadPool pool(1);
  for (std::int64_t batch = 0; batch < kBatch; ++batch) {
    const std::int64_t start = batch * 5000;  // the second row stands 5000 tokens further
    const std::vector<std::int64_t> positions = locant::text_positions(kTokens, start);
    std::vector<float> cosines(kTokens * kDim / 2), sines(cosines.size());
    const locant::View<float, 2> cos(cosines.data(), {kTokens, kDim / 2}),
        sin(sines.data(), {kTokens, kDim / 2});
    locant::rotation_table(rotation, exact.numerics, {positions.data(), {1, kTokens}}, cos, sin);
    for (std::vector<float>* x : {&q, &k}) {
      const locant::View<float, 3> heads = sequence(*x, batch);
      locant::rotate({.x = heads, .cos = cos, .sin = sin, .shape = {.read = rotation.read}, .out = heads},
                     pool);
    }
  }

  for (std::int64_t batch = 0; batch < kBatch; ++batch) {
    for (const std::int64_t query : {std::int64_t{3}, std::int64_t{7}}) {
      const float* row = &sequence(q, batch)(query, 1, 0);
      const double score = std::inner_product(row, row + kDim, &sequence(k, batch)(query - 3, 1, 0), 0.0);
      std::printf("query at position %4lld, key 3 tokens before it: q.k = %.4f\n",
                  static_cast<long long>(batch) * 5000 + query, score);
    }
  }
}
