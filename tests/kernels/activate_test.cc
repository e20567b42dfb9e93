// SPDX-License-Identifier: Apache-2.0
// Activations on every instruction set against libm in double: dense and wide inputs, tails, gates, NaN.
#include "kernels/activate.h"

#include <limits>

#include "budgets.h"
#include "kernels/targets_and_memory.h"
#include "reference/reference.h"

namespace locant {
namespace {

using kernels::Curve;
using testing::Exact;
using testing::Guarded;

constexpr Curve kCurves[] = {Curve::silu,         Curve::gelu_erf,   Curve::gelu_tanh, Curve::relu,
                             Curve::relu_squared, Curve::quick_gelu, Curve::tanh};

constexpr double kLargest = std::numeric_limits<float>::max();

double truth(Curve curve, double x) {
  switch (curve) {
    case Curve::silu:
      return reference::silu(x);
    case Curve::gelu_erf:
      return reference::gelu_erf(x);
    case Curve::gelu_tanh:
      return reference::gelu_tanh(x);
    case Curve::relu:
      return reference::relu(x);
    case Curve::relu_squared:
      return reference::relu_squared(x);
    case Curve::quick_gelu:
      return reference::quick_gelu(x);
    case Curve::tanh:
      return std::tanh(x);
  }
  return 0;
}

void expect_near(Curve curve, const std::vector<float>& x, const std::vector<float>& out) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double wx = testing::wide(x[i]);
    const double expected = truth(curve, wx);
    if (expected > kLargest) continue;  // beyond f32
    ASSERT_LE(std::abs(testing::wide(out[i]) - expected),
              budgets::kActivation * std::max({1.0, std::abs(wx), expected}))
        << "curve " << static_cast<int>(curve) << " at " << wx;
  }
}

TEST(ActivateKernel, DenseAndWideInputs) {
  std::vector<float> x;
  for (int i = -60000; i <= 60000; ++i) x.push_back(static_cast<float>(i) / 4096.0f);
  testing::Random random(1);
  for (int i = 0; i < 20000; ++i) x.push_back(random.next(testing::Spread::uneven));
  for (const float v : {0.0f, -0.0f, 87.2f, 88.5f, 100.0f, 3e38f, 1e-40f}) {
    x.push_back(v);
    x.push_back(-v);
  }
  testing::on_every_target([&] {
    for (const Curve curve : kCurves) {
      std::vector<float> out(x.size());
      kernels::activate(curve, x.data(), nullptr, static_cast<std::int64_t>(x.size()), out.data());
      expect_near(curve, x, out);
    }
  });
}

TEST(ActivateKernel, EverySizeWithAndWithoutGateInPlace) {
  testing::Random random(2);
  for (std::int64_t n = 1; n <= 2 * testing::kMaxLanes + 1; ++n) {
    const auto size = static_cast<std::size_t>(n);
    Exact<float> x(size);
    Exact<float> up(size);
    random.fill(x, size);
    random.fill(up, size);
    testing::on_every_target([&] {
      for (const Curve curve : kCurves) {
        for (const int where : {0, 1, 2, 3}) {  // apart, in x, in up, without gate
          Guarded<float> out(size);
          for (std::size_t i = 0; i < size; ++i) out.set(i, where == 2 ? up.get(i) : x.get(i));
          kernels::activate(curve, where == 1 ? out.data() : x.data(),
                            where == 3   ? nullptr
                            : where == 2 ? out.data()
                                         : up.data(),
                            n, out.data());
          out.check();
          for (std::size_t i = 0; i < size; ++i) {
            const double wx = testing::wide(x.get(i));
            const double gate = where == 3 ? 1.0 : testing::wide(up.get(i));
            ASSERT_LE(std::abs(testing::wide(out.get(i)) - truth(curve, wx) * gate),
                      budgets::kActivation * std::max({1.0, std::abs(wx), truth(curve, wx)}) *
                          std::max(1.0, std::abs(gate)));
          }
        }
      }
    });
  }
}

TEST(ActivateKernel, ClampedSwigluAtEverySizeAndPlace) {
  testing::Random random(3);
  for (std::int64_t n = 1; n <= 2 * testing::kMaxLanes + 1; ++n) {
    const auto size = static_cast<std::size_t>(n);
    Exact<float> x(size);
    Exact<float> up(size);
    random.fill(x, size, testing::Spread::uneven);
    random.fill(up, size, testing::Spread::uneven);
    testing::on_every_target([&] {
      for (const float limit : {0.5f, 7.0f, 1e9f}) {
        for (const int where : {0, 1, 2}) {  // apart, in x, in up
          Guarded<float> out(size);
          for (std::size_t i = 0; i < size; ++i) out.set(i, where == 2 ? up.get(i) : x.get(i));
          kernels::clamped_swiglu(where == 1 ? out.data() : x.data(), where == 2 ? out.data() : up.data(),
                                  limit, n, out.data());
          out.check();
          for (std::size_t i = 0; i < size; ++i) {
            const double gate = testing::wide(x.get(i));
            const double u = testing::wide(up.get(i));
            const double expected = reference::clamped_swiglu(gate, u, testing::wide(limit));
            ASSERT_LE(std::abs(testing::wide(out.get(i)) - expected),
                      budgets::kClampedSwiglu * std::max(1.0, std::abs(gate)) * (std::abs(u) + 1))
                << gate << " " << u;
          }
        }
      }
    });
  }
}

TEST(ActivateKernel, NanStaysNan) {
  const std::vector<float> x(19, std::numeric_limits<float>::quiet_NaN());
  testing::on_every_target([&] {
    for (const Curve curve : kCurves) {
      std::vector<float> out(x.size());
      kernels::activate(curve, x.data(), nullptr, 19, out.data());
      for (const float y : out) ASSERT_TRUE(std::isnan(y)) << static_cast<int>(curve);
    }
    const std::vector<float> ones(19, 1.0f);
    std::vector<float> out(19);
    kernels::clamped_swiglu(x.data(), ones.data(), 7, 19, out.data());
    for (const float y : out) ASSERT_TRUE(std::isnan(y));
    kernels::clamped_swiglu(ones.data(), x.data(), 7, 19, out.data());
    for (const float y : out) ASSERT_TRUE(std::isnan(y));
  });
}

}  // namespace
}  // namespace locant
