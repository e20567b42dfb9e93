// SPDX-License-Identifier: Apache-2.0
// The sinusoidal embedding of Vaswani et al. 2017, section 3.5, at any position: a generator without end.
// What the mechanism asks for is a spec; what follows from it is a plan; rows are made from the plan.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <variant>

#include "locant/core.h"
#include "locant/plan.h"
#include "locant/positions.h"
#include "locant/recipe.h"

int main() {
  constexpr std::int64_t kWidth = 8, kRows = 4;
  locant::PositionSpec spec{.mechanism = "sinusoidal", .parameters = {}};
  spec.set("width", kWidth);

  const locant::Mechanism& mechanism = locant::find_mechanism(spec.mechanism);
  const locant::Recipe& exact = locant::find_recipe("exact");
  const locant::SitePlan planned = mechanism.plan(spec, exact, {.seen = kRows});
  const auto& embedding = std::get<locant::PositionEmbedding>(planned);

  const std::array<std::int64_t, kRows> positions{0, 1, 2048, 1'000'000};
  std::array<float, kRows * kWidth> values{};
  const locant::View<float, 2> rows(values.data(), {kRows, kWidth});
  locant::sinusoid_rows(embedding, exact.numerics, {positions.data(), {kRows}}, rows);

  std::printf("wavelengths [tokens]:");
  for (const double w : embedding.inv_freq) std::printf(" %.2f", 2 * 3.14159265358979323846 / w);
  std::printf("\n");
  for (std::int64_t t = 0; t < kRows; ++t) {
    std::printf("position %7lld:", static_cast<long long>(positions[static_cast<std::size_t>(t)]));
    for (std::int64_t d = 0; d < kWidth; ++d) std::printf(" %8.5f", static_cast<double>(rows(t, d)));
    std::printf("\n");
  }
  const double expected = std::sin(1'000'000.0);
  std::printf("sin(1000000 rad) = %.5f, first column of the last row = %.5f\n", expected,
              static_cast<double>(rows(3, 0)));
}
