// SPDX-License-Identifier: Apache-2.0
// Every instruction set x dtype x pairing x width against the double reference, strided, unaligned, in place.
#include "kernels/rotate.h"

#include "budgets.h"
#include "kernels/targets_and_memory.h"
#include "reference/reference.h"

namespace locant {
namespace {

using kernels::Layout;
using testing::Exact;
using testing::Guarded;
using testing::Spread;

template <class T>
double budget() {
  if constexpr (std::is_same_v<T, float>) return budgets::kRotateF32;
  return std::is_same_v<T, Half> ? budgets::kRotateF16 : budgets::kRotateBf16;
}

struct Case {
  std::int64_t tokens, heads, pairs, offset, behind;
  Layout read, write;
  bool in_place;
  Spread spread;
};

std::int64_t first_of(Layout layout, std::int64_t i) {
  return layout == Layout::half ? i : 2 * i;
}
std::int64_t second_of(Layout layout, std::int64_t i, std::int64_t pairs) {
  return layout == Layout::half ? i + pairs : 2 * i + 1;
}
reference::Layout other(Layout layout) {
  return layout == Layout::half ? reference::Layout::half : reference::Layout::interleaved;
}

template <class T>
void run(const Case& c) {
  const std::int64_t dim = c.offset + 2 * c.pairs + c.behind;
  const std::int64_t head = dim + 3;
  const std::int64_t token = c.heads * head + 5;
  const auto size = static_cast<std::size_t>((c.tokens - 1) * token + (c.heads - 1) * head + dim);
  testing::Random random(static_cast<std::uint64_t>(c.pairs * 131 + c.offset));
  Guarded<T> x(size, sizeof(T));
  random.fill(x, size, c.spread);
  const auto table = static_cast<std::size_t>(c.tokens * c.pairs);
  Exact<float> cos(table);
  Exact<float> sin(table);
  for (std::size_t i = 0; i < table; ++i) {
    const double angle = 7000 * testing::wide(random.next());
    cos.set(i, static_cast<float>(1.25 * std::cos(angle)));
    sin.set(i, static_cast<float>(1.25 * std::sin(angle)));
  }
  const double sign = c.pairs % 2 == 0 ? 1 : -1;

  const std::vector<double> wx = testing::widened(x, size);
  const std::vector<double> wcos = testing::widened(cos, table);
  const std::vector<double> wsin = testing::widened(sin, table);
  std::vector<double> expected(wx);
  const View<const double, 3>::Shape shape{c.tokens, c.heads, dim};
  const View<const double, 3>::Shape strides{token, head, 1};
  reference::rotate({wx.data(), shape, strides}, {wcos.data(), {c.tokens, c.pairs}},
                    {wsin.data(), {c.tokens, c.pairs}}, {other(c.read), other(c.write), c.offset, sign},
                    {expected.data(), shape, strides});

  testing::on_every_target([&] {
    Guarded<T> out(size, sizeof(T));
    for (std::size_t i = 0; i < size; ++i) out.set(i, x.get(i));
    kernels::rotate(kernels::RotateBlock<T>{.x = c.in_place ? out.data() : x.data(),
                                            .x_token = token,
                                            .x_head = head,
                                            .out = out.data(),
                                            .out_token = token,
                                            .out_head = head,
                                            .cos = cos.data(),
                                            .cos_token = c.pairs,
                                            .sin = sin.data(),
                                            .sin_token = c.pairs,
                                            .tokens = c.tokens,
                                            .heads = c.heads,
                                            .head_dim = dim,
                                            .offset = c.offset,
                                            .pairs = c.pairs,
                                            .read = c.read,
                                            .write = c.write,
                                            .sign = static_cast<float>(sign)});
    out.check();
    std::vector<double> bound(size, 0.0);  // channels that pass are exact
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        const std::int64_t at = t * token + h * head + c.offset;
        for (std::int64_t i = 0; i < c.pairs; ++i) {
          const double a = wx[static_cast<std::size_t>(at + first_of(c.read, i))];
          const double b = wx[static_cast<std::size_t>(at + second_of(c.read, i, c.pairs))];
          const double allowed = budget<T>() * 1.25 * std::hypot(a, b);
          bound[static_cast<std::size_t>(at + first_of(c.write, i))] = allowed;
          bound[static_cast<std::size_t>(at + second_of(c.write, i, c.pairs))] = allowed;
        }
      }
    }
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_LE(std::abs(testing::wide(out.get(i)) - expected[i]), bound[i]) << "element " << i;
    }
  });
}

template <class T>
void run_all() {
  for (const Layout read : {Layout::half, Layout::interleaved}) {
    for (const Layout write : {Layout::half, Layout::interleaved}) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "read " << static_cast<int>(read) << " write "
                                          << static_cast<int>(write) << " in place " << in_place);
        for (std::int64_t pairs = 0; pairs <= 2 * testing::kMaxLanes + 1; ++pairs) {
          SCOPED_TRACE(::testing::Message() << pairs << " pairs");
          const Spread spread = std::is_same_v<T, Half> ? Spread::normal : testing::kSpreads[pairs % 3];
          run<T>({2, 3, pairs, pairs % 4, pairs % 3, read, write, in_place, spread});
        }
        run<T>({3, 9, 64, 0, 0, read, write, in_place, Spread::normal});
        run<T>({1, 5, 40, 48, 7, read, write, in_place, Spread::normal});
      }
    }
  }
}

TEST(RotateKernel, F32) {
  run_all<float>();
}
TEST(RotateKernel, F16) {
  run_all<Half>();
}
TEST(RotateKernel, Bf16) {
  run_all<BFloat16>();
}

TEST(RotateKernel, WidestInPlaceChangeOfPairing) {
  run<float>({1, 2, kernels::kRotateInPlaceWidth / 2, 1, 1, Layout::interleaved, Layout::half, true,
              Spread::normal});
}

// Stores around the caches write the same bits, at aligned and other addresses.
template <class T>
void around_is_cached(Layout layout) {
  constexpr std::int64_t kTokens = 3;
  constexpr std::int64_t kHeads = 2;
  constexpr std::int64_t kPairs = 80;
  constexpr std::int64_t kDim = 2 * kPairs;
  constexpr std::size_t kSize = kTokens * kHeads * kDim;
  testing::Random random(8);
  std::vector<T> x(kSize);
  for (T& v : x) testing::assign(random.next(), v);
  std::vector<float> tables(2 * kTokens * kPairs);
  for (float& v : tables) v = random.next();
  alignas(64) T memory[2][kSize + 64];
  testing::on_every_target([&] {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
      for (const kernels::Stores stores : {kernels::Stores::cached, kernels::Stores::around}) {
        kernels::rotate(
            kernels::RotateBlock<T>{.x = x.data(),
                                    .x_token = kHeads * kDim,
                                    .x_head = kDim,
                                    .out = memory[stores == kernels::Stores::around ? 1 : 0] + shift,
                                    .out_token = kHeads * kDim,
                                    .out_head = kDim,
                                    .cos = tables.data(),
                                    .cos_token = kPairs,
                                    .sin = tables.data() + kTokens * kPairs,
                                    .sin_token = kPairs,
                                    .tokens = kTokens,
                                    .heads = kHeads,
                                    .head_dim = kDim,
                                    .pairs = kPairs,
                                    .read = layout,
                                    .write = layout,
                                    .stores = stores});
      }
      ASSERT_EQ(std::memcmp(memory[0] + shift, memory[1] + shift, kSize * sizeof(T)), 0);
    }
  });
}

TEST(RotateKernel, StoresAroundTheCachesWriteTheSameBits) {
  for (const Layout layout : {Layout::half, Layout::interleaved}) {
    around_is_cached<float>(layout);
    around_is_cached<Half>(layout);
    around_is_cached<BFloat16>(layout);
  }
}

// Infinities, NaN, subnormals and ties: bf16 words round like bfloat16_from_f32 everywhere.
TEST(RotateKernel, Bf16RoundsEveryNumberAlike) {
  constexpr std::int64_t kPairs = 64;
  std::vector<BFloat16> x(2 * kPairs);
  std::vector<float> cos(kPairs);
  const std::vector<float> sin(kPairs, 0.0F);
  testing::Random random(4);
  for (int round = 0; round < 2000; ++round) {
    for (BFloat16& v : x) v.bits = static_cast<std::uint16_t>(random.below(65536));
    // Few rows hold what is no number, else the careful way is the only one taken.
    for (BFloat16& v : x) {
      if (round % 8 != 0 && (v.bits & 0x7F80u) == 0x7F80u) v.bits = 0x3F80;
    }
    for (float& v : cos) v = round % 3 == 0 ? 1.00390625F : random.next(Spread::uneven);  // 1 + 2^-8: ties
    for (const Layout layout : {Layout::half, Layout::interleaved}) {
      testing::on_every_target([&] {
        std::vector<BFloat16> out(x.size());
        kernels::rotate(kernels::RotateBlock<BFloat16>{.x = x.data(),
                                                       .out = out.data(),
                                                       .cos = cos.data(),
                                                       .sin = sin.data(),
                                                       .tokens = 1,
                                                       .heads = 1,
                                                       .head_dim = 2 * kPairs,
                                                       .pairs = kPairs,
                                                       .read = layout,
                                                       .write = layout});
        for (std::int64_t i = 0; i < kPairs; ++i) {
          for (const bool second : {false, true}) {
            const auto at =
                static_cast<std::size_t>(second ? second_of(layout, i, kPairs) : first_of(layout, i));
            const auto other_at =
                static_cast<std::size_t>(second ? first_of(layout, i) : second_of(layout, i, kPairs));
            const float a = f32_from(x[at]);
            const float b = f32_from(x[other_at]);
            const float turned = a * cos[static_cast<std::size_t>(i)] + (second ? b : -b) * 0.0F;
            if (std::isnan(turned)) {
              ASSERT_TRUE(std::isnan(f32_from(out[at])));
            } else {
              ASSERT_EQ(f32_from(out[at]), f32_from(bfloat16_from_f32(turned))) << a << " " << b;
            }
          }
        }
      });
    }
  }
}

// Meta's form multiplies complex numbers made of adjacent channels: equal to the real form on its values.
TEST(RotateKernel, ComplexFormIsTheInterleavedForm) {
  constexpr std::int64_t kTokens = 4;
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kPairs = 12;
  constexpr std::size_t kSize = kTokens * kHeads * 2 * kPairs;
  testing::Random random(5);
  std::vector<float> x(kSize);
  for (float& v : x) v = random.next();
  std::vector<double> angle(kTokens * kPairs);
  std::vector<float> cos(angle.size());
  std::vector<float> sin(angle.size());
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t i = 0; i < kPairs; ++i) {
      const auto at = static_cast<std::size_t>(t * kPairs + i);
      angle[at] = static_cast<double>(t + 2500) * std::pow(500000.0, -static_cast<double>(i) / kPairs);
      cos[at] = static_cast<float>(std::cos(angle[at]));
      sin[at] = static_cast<float>(std::sin(angle[at]));
    }
  }
  const std::vector<double> wx(x.begin(), x.end());
  std::vector<double> expected(kSize);
  const View<const double, 3>::Shape shape{kTokens, kHeads, 2 * kPairs};
  reference::rotate_complex({wx.data(), shape}, {angle.data(), {kTokens, kPairs}}, {expected.data(), shape});

  // The half form on channels ordered evens first gives the same numbers in that order.
  std::vector<float> halves(kSize);
  const auto place = [](std::size_t i) {
    const std::size_t channel = i % (2 * kPairs);
    return i - channel + channel / 2 + (channel % 2) * kPairs;
  };
  for (std::size_t i = 0; i < kSize; ++i) halves[place(i)] = x[i];
  testing::on_every_target([&] {
    for (const Layout layout : {Layout::interleaved, Layout::half}) {
      std::vector<float> out = layout == Layout::interleaved ? x : halves;
      kernels::rotate(kernels::RotateBlock<float>{.x = out.data(),
                                                  .x_token = kHeads * 2 * kPairs,
                                                  .x_head = 2 * kPairs,
                                                  .out = out.data(),
                                                  .out_token = kHeads * 2 * kPairs,
                                                  .out_head = 2 * kPairs,
                                                  .cos = cos.data(),
                                                  .cos_token = kPairs,
                                                  .sin = sin.data(),
                                                  .sin_token = kPairs,
                                                  .tokens = kTokens,
                                                  .heads = kHeads,
                                                  .head_dim = 2 * kPairs,
                                                  .pairs = kPairs,
                                                  .read = layout,
                                                  .write = layout});
      for (std::size_t i = 0; i < kSize; ++i) {
        const std::size_t pair = i / 2 * 2;
        const double norm = std::hypot(wx[pair], wx[pair + 1]);
        const double got = testing::wide(out[layout == Layout::interleaved ? i : place(i)]);
        // The tables are rounded to f32 here, the complex form is not.
        ASSERT_NEAR(got, expected[i], (budgets::kRotateF32 + 2 * budgets::kTableExact) * norm) << i;
      }
    }
  });
}

}  // namespace
}  // namespace locant
