// SPDX-License-Identifier: Apache-2.0
// ALiBi (Press et al. 2022): slopes per head for a head count that is no power of two, and the attention
// scores they give. q and k are zero here, so that the scores are the bias alone: slope * (key - query).
#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "locant/core.h"
#include "locant/ops.h"
#include "locant/positions.h"
#include "locant/threads.h"

int main() {
  constexpr std::int64_t kHeads = 6, kTokens = 5, kDim = 4;
  const std::vector<double> exact = locant::alibi_slopes(kHeads);
  std::printf("slopes [1/token]:");
  for (const double slope : exact) std::printf(" %.6f", slope);
  std::printf("\n");

  const std::vector<float> slopes(exact.begin(), exact.end());
  const std::vector<std::int64_t> positions = locant::text_positions(kTokens);
  std::array<float, kTokens * kHeads * kDim> q{}, out{}, keys{}, values{};
  std::array<float, kHeads * kTokens * kTokens> scores{};
  const locant::View<float, 3> table(scores.data(), {kHeads, kTokens, kTokens});

  const auto cache = [](float* data) {
    return locant::CacheTensor{
        .data = data, .dtype = locant::DType::f32, .heads = kHeads, .capacity = kTokens, .width = kDim};
  };
  const locant::AttendCall call{.q = {q.data(), {kTokens, kHeads, kDim}},
                                .keys = cache(keys.data()),
                                .values = cache(values.data()),
                                .scale = 0.5F,
                                .slopes = {slopes.data(), {kHeads}},
                                .query_positions = {positions.data(), {kTokens}},
                                .key_positions = {positions.data(), {kTokens}},
                                .out = {out.data(), {kTokens, kHeads, kDim}},
                                .scores = table};
  locant::ThreadPool pool(1);
  locant::attend({&call, 1}, pool);

  for (const std::int64_t head : {std::int64_t{0}, std::int64_t{4}}) {
    std::printf("head %lld, scores of each query (rows) for each key (columns):\n",
                static_cast<long long>(head));
    for (std::int64_t query = 0; query < kTokens; ++query) {
      for (std::int64_t key = 0; key < kTokens; ++key)
        std::printf(" %8.4f", static_cast<double>(table(head, query, key)));
      std::printf("\n");
    }
  }
}
