// SPDX-License-Identifier: Apache-2.0
// RMS and layer norm on every instruction set against the double reference, in place and not.
#include "kernels/normalize.h"

#include "budgets.h"
#include "kernels/targets_and_memory.h"
#include "reference/reference.h"

namespace locant {
namespace {

using testing::Exact;
using testing::Guarded;
using testing::Spread;

void run(std::int64_t n, Spread spread, bool layer, bool bias, double eps) {
  SCOPED_TRACE(::testing::Message() << n << " columns, spread " << static_cast<int>(spread) << " layer "
                                    << layer);
  const auto size = static_cast<std::size_t>(n);
  testing::Random random(size);
  Exact<float> x(size);
  Exact<float> gain(size);
  Exact<float> shift(size);
  random.fill(x, size, spread);
  random.fill(gain, size);
  random.fill(shift, size);
  const std::vector<double> wx = testing::widened(x, size);
  const std::vector<double> wgain = testing::widened(gain, size);
  const std::vector<double> wshift = testing::widened(shift, size);
  std::vector<double> expected(size);
  const View<const double, 1> none;
  const View<const double, 1> vx(wx.data(), {n});
  const View<const double, 1> vgain(wgain.data(), {n});
  double mean = 0;
  for (const double v : wx) mean += v / static_cast<double>(n);
  double square = 0;
  for (const double v : wx) square += std::pow(v - (layer ? mean : 0), 2) / static_cast<double>(n);
  if (layer) {
    reference::layer_norm(vx, {vgain, bias ? View<const double, 1>(wshift.data(), {n}) : none, eps},
                          {expected.data(), {n}});
  } else {
    reference::rms_norm(vx, vgain, eps, {expected.data(), {n}});
    for (std::size_t i = 0; bias && i < size; ++i) expected[i] += wshift[i];
  }
  double largest = 0;
  for (const double v : wx) largest = std::max(largest, std::abs(v) / std::sqrt(square + eps));
  testing::on_every_target([&] {
    for (const bool in_place : {false, true}) {
      Guarded<float> out(size);
      for (std::size_t i = 0; i < size; ++i) out.set(i, x.get(i));
      const kernels::NormRow row{.x = in_place ? out.data() : x.data(),
                                 .gain = gain.data(),
                                 .bias = bias ? shift.data() : nullptr,
                                 .out = out.data(),
                                 .count = n,
                                 .eps = eps};
      layer ? kernels::layer_norm(row) : kernels::rms_norm(row);
      out.check();
      for (std::size_t i = 0; i < size; ++i) {
        const double scale = largest * std::abs(wgain[i]) + (bias ? std::abs(wshift[i]) : 0);
        ASSERT_LE(std::abs(testing::wide(out.get(i)) - expected[i]), budgets::kNorm * scale) << i;
      }
    }
  });
}

TEST(NormalizeKernel, EverySize) {
  for (std::int64_t n = 1; n <= 2 * testing::kMaxLanes + 1; ++n) {
    for (const Spread spread : testing::kSpreads) {
      run(n, spread, false, false, 1e-5);
      run(n, spread, true, n % 2 == 0, 1e-5);
    }
  }
}

TEST(NormalizeKernel, WideRows) {
  for (const std::int64_t n : {576, 1000, 4096, 8193}) {
    for (const Spread spread : testing::kSpreads) {
      run(n, spread, false, true, 1e-6);
      run(n, spread, true, true, 1e-12);
    }
  }
}

TEST(NormalizeKernel, SquaresBeyondF32DoNotOverflow) {
  const std::vector<float> gain(20, 1.0f);
  std::vector<float> x(20, 1e30f);
  testing::on_every_target([&] {
    std::vector<float> out(20);
    kernels::rms_norm({.x = x.data(), .gain = gain.data(), .out = out.data(), .count = 20, .eps = 1e-5});
    for (const float y : out) ASSERT_NEAR(testing::wide(y), 1.0, budgets::kNorm);
  });
}

}  // namespace
}  // namespace locant
