// SPDX-License-Identifier: Apache-2.0
// Token embedding: rows of a table by id, scaled by sqrt(width) as Gemma does, with every id checked
// before anything is written. ids [T], table [V, D], out [T, D].
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>

#include "locant/core.h"
#include "locant/ops.h"
#include "locant/threads.h"

int main() {
  constexpr std::int64_t kVocab = 6, kWidth = 4, kTokens = 3;
  std::array<float, kVocab * kWidth> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i) / 8;

  const std::array<std::int64_t, kTokens> ids{5, 0, 2};
  std::array<float, kTokens * kWidth> states{};
  const locant::View<float, 2> out(states.data(), {kTokens, kWidth});
  const locant::View<const float, 2> rows(table.data(), {kVocab, kWidth});

  locant::ThreadPool pool(1);
  locant::embed({.ids = {ids.data(), {kTokens}},
                 .table = locant::matrix(rows),
                 .scale = std::sqrt(static_cast<float>(kWidth)),
                 .out = out},
                pool);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    std::printf("token %lld:", static_cast<long long>(ids[static_cast<std::size_t>(t)]));
    for (std::int64_t d = 0; d < kWidth; ++d) std::printf(" %.3f", static_cast<double>(out(t, d)));
    std::printf("\n");
  }

  const std::array<std::int64_t, kTokens> wrong{1, 6, 2};
  try {
    locant::embed({.ids = {wrong.data(), {kTokens}}, .table = locant::matrix(rows), .out = out}, pool);
  } catch (const std::out_of_range& error) {
    std::printf("refused: %s\n", error.what());
    std::printf("nothing was written: out[0][0] is still %.3f\n", static_cast<double>(out(0, 0)));
    return 0;
  }
  return 1;
}
