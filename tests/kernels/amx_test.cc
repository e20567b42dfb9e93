// SPDX-License-Identifier: Apache-2.0
// Products in tiles on every instruction set, with tiles of plain C++, against the double reference; on a CPU
// with AMX the unit gives the same bits.
#include "kernels/amx.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/amx_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/amx-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {
void EmulatedExact(const ProjectBlock& b) {
  EmulatedTiles tiles;
  project_in_tiles<3>(b, tiles);
}
void EmulatedRounded(const ProjectBlock& b) {
  EmulatedTiles tiles;
  project_in_tiles<1>(b, tiles);
}
}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <limits>

#include "budgets.h"
#include "kernels/targets_and_memory.h"

namespace locant::kernels {
HWY_EXPORT(EmulatedExact);
HWY_EXPORT(EmulatedRounded);
}  // namespace locant::kernels

namespace locant {
namespace {

using testing::Exact;
using testing::Guarded;
using testing::Spread;

void emulated_exact(const kernels::ProjectBlock& b) {
  using namespace kernels;
  HWY_DYNAMIC_DISPATCH(EmulatedExact)(b);
}
void emulated_rounded(const kernels::ProjectBlock& b) {
  using namespace kernels;
  HWY_DYNAMIC_DISPATCH(EmulatedRounded)(b);
}

struct Case {
  std::int64_t tokens, rows, columns;
  Spread spread = Spread::normal;
  bool added = false;
};

// A case and its answers.
struct Problem {
  explicit Problem(const Case& of)
      : c(of),
        x(static_cast<std::size_t>((c.tokens - 1) * x_stride() + c.columns)),
        w(static_cast<std::size_t>((c.rows - 1) * w_stride() + c.columns), 1),
        bias(static_cast<std::size_t>(c.rows)) {
    testing::Random random(static_cast<std::uint64_t>(c.columns * 7 + c.rows));
    random.fill(x, static_cast<std::size_t>((c.tokens - 1) * x_stride() + c.columns), c.spread);
    random.fill(w, static_cast<std::size_t>((c.rows - 1) * w_stride() + c.columns));
    random.fill(bias, static_cast<std::size_t>(c.rows));
  }
  [[nodiscard]] std::int64_t x_stride() const { return c.columns + 3; }
  [[nodiscard]] std::int64_t w_stride() const { return c.columns + 1; }
  [[nodiscard]] std::size_t out_size() const {
    return static_cast<std::size_t>((c.tokens - 1) * (c.rows + 2) + c.rows);
  }
  [[nodiscard]] kernels::ProjectBlock block(float* out) {
    return {.x = x.data(),
            .x_stride = x_stride(),
            .weight = w.data(),
            .dtype = DType::bf16,
            .weight_stride = w_stride(),
            .tokens = c.tokens,
            .rows = c.rows,
            .columns = c.columns,
            .bias = bias.data(),
            .scale = 0.75F,
            .added = c.added ? out : nullptr,
            .out = out,
            .out_stride = c.rows + 2};
  }

  Case c;
  Exact<float> x;
  Exact<BFloat16> w;
  Exact<float> bias;
};

enum class Input : std::uint8_t { exact, rounded };

void check(Problem& p, Input input, Guarded<float>& out) {
  out.check();
  for (std::int64_t t = 0; t < p.c.tokens; ++t) {
    for (std::int64_t n = 0; n < p.c.rows; ++n) {
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < p.c.columns; ++k) {
        float x = p.x.get(static_cast<std::size_t>(t * p.x_stride() + k));
        if (input == Input::rounded) x = f32_from(bfloat16_from_f32(x));
        const double product =
            testing::wide(x) * testing::wide(p.w.get(static_cast<std::size_t>(n * p.w_stride() + k)));
        sum += product;
        size += std::abs(product);
      }
      const double bias = testing::wide(p.bias.get(static_cast<std::size_t>(n)));
      const double added = p.c.added ? 0.5 : 0;
      const double got = testing::wide(out.get(static_cast<std::size_t>(t * (p.c.rows + 2) + n)));
      ASSERT_LE(std::abs(got - (0.75 * sum + bias + added)),
                budgets::kProject * (size + std::abs(bias) + added))
          << p.c.tokens << " tokens, " << p.c.rows << " rows, " << p.c.columns << " columns: " << t << ", "
          << n;
    }
  }
}

void run(const Case& c) {
  Problem p(c);
  testing::on_every_target([&] {
    for (const Input input : {Input::exact, Input::rounded}) {
      Guarded<float> out(p.out_size());
      for (std::size_t i = 0; i < p.out_size(); ++i) out.set(i, 0.5F);
      const auto kernel = input == Input::exact ? emulated_exact : emulated_rounded;
      kernel(p.block(out.data()));
      check(p, input, out);
    }
  });
}

TEST(Amx, ProductsInTiles) {
  for (const std::int64_t tokens : {1, 8, 15, 16, 17, 33, 64}) run({tokens, 32, 64});
  for (const std::int64_t rows : {1, 5, 31, 33, 70, 256}) run({3, rows, 96, Spread::uneven});
  for (const std::int64_t columns : {1, 2, 31, 33, 63, 65, 512, 513, 576, 1100}) {
    run({18, 37, columns, Spread::normal, true});
  }
  run({2, 3, 4100, Spread::large});
}

TEST(Amx, WhatIsNotFiniteStaysSo) {
  Problem p({4, 3, 40});
  const float infinity = std::numeric_limits<float>::infinity();
  std::uint32_t low_digits = 0x7F800001U;  // a NaN whose upper half is an infinity's
  float nan = 0;
  std::memcpy(&nan, &low_digits, sizeof(nan));
  p.x.set(3, infinity);
  p.x.set(static_cast<std::size_t>(p.x_stride() + 39), nan);
  p.x.set(static_cast<std::size_t>(2 * p.x_stride()), std::numeric_limits<float>::max());
  testing::on_every_target([&] {
    Guarded<float> out(p.out_size());
    emulated_exact(p.block(out.data()));
    for (std::int64_t n = 0; n < p.c.rows; ++n) {
      const auto at = [&](std::int64_t t) {
        return out.get(static_cast<std::size_t>(t * (p.c.rows + 2) + n));
      };
      EXPECT_TRUE(std::isinf(at(0)));
      EXPECT_TRUE(std::isnan(at(1)));
      const float w = f32_from(p.w.get(static_cast<std::size_t>(n * p.w_stride())));
      if (std::fabs(w) < 1) {
        EXPECT_TRUE(std::isfinite(at(2))) << w;
      }
      EXPECT_TRUE(std::isfinite(at(3)));
    }
  });
}

TEST(Amx, TheUnitGivesTheBitsOfTheEmulation) {
  if (!kernels::amx_units().bf16) GTEST_SKIP() << "this CPU has no AMX, or the system does not lend it";
  for (const Case& c : {Case{1, 32, 64}, Case{64, 256, 1100}, Case{18, 37, 65, Spread::uneven, true}}) {
    Problem p(c);
    Guarded<float> unit(p.out_size()), emulated(p.out_size());
    for (const Input input : {Input::exact, Input::rounded}) {
      for (std::size_t i = 0; i < p.out_size(); ++i) {
        unit.set(i, 0.5F);
        emulated.set(i, 0.5F);
      }
      (input == Input::exact ? kernels::project_amx : kernels::project_amx_rounded)(p.block(unit.data()));
      (input == Input::exact ? emulated_exact : emulated_rounded)(p.block(emulated.data()));
      check(p, input, unit);
      for (std::size_t i = 0; i < p.out_size(); ++i) ASSERT_EQ(unit.get(i), emulated.get(i)) << i;
    }
  }
}

TEST(Amx, OnTheBestTargetAlone) {
  const std::vector<kernels::Target> all = kernels::targets();
  if (all.size() < 2) GTEST_SKIP() << "one instruction set";
  kernels::use_only_target(all.back());
  EXPECT_FALSE(kernels::amx_units().bf16);
  EXPECT_FALSE(kernels::amx_units().bytes);
  kernels::use_best_target();
}

}  // namespace
}  // namespace locant
#endif
