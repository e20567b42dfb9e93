// SPDX-License-Identifier: Apache-2.0
// The oracle against values worked out by hand.
#include "reference/reference.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "budgets.h"

namespace locant {
namespace {

using reference::Layout;

TEST(Reference, QuarterTurnMovesAPair) {
  const std::vector<double> x{9, 1, 2, 3, 4, 8};  // channels 1..4 rotate
  const std::vector<double> cos{0, 1};
  const std::vector<double> sin{1, 0};
  const auto rotated = [&](Layout read, Layout write, double sign) {
    std::vector<double> out(6);
    reference::rotate({x.data(), {1, 1, 6}}, {cos.data(), {1, 2}}, {sin.data(), {1, 2}},
                      {read, write, 1, sign}, {out.data(), {1, 1, 6}});
    return out;
  };
  // half pairs (1, 3) and (2, 4): the first turns to (-3, 1), the second stays.
  EXPECT_EQ(rotated(Layout::half, Layout::half, 1), (std::vector<double>{9, -3, 2, 1, 4, 8}));
  // interleaved pairs (1, 2) and (3, 4).
  EXPECT_EQ(rotated(Layout::interleaved, Layout::interleaved, 1), (std::vector<double>{9, -2, 1, 3, 4, 8}));
  EXPECT_EQ(rotated(Layout::interleaved, Layout::half, 1), (std::vector<double>{9, -2, 3, 1, 4, 8}));
  EXPECT_EQ(rotated(Layout::half, Layout::interleaved, 1), (std::vector<double>{9, -3, 1, 2, 4, 8}));
  EXPECT_EQ(rotated(Layout::half, Layout::half, -1), (std::vector<double>{9, 3, 2, -1, 4, 8}));
}

TEST(Reference, ComplexFormTurnsAdjacentChannels) {
  const std::vector<double> x{1, 0, 3, 4};
  const double right = std::acos(0.0);
  const std::vector<double> angle{right, 2 * right};
  std::vector<double> out(4);
  reference::rotate_complex({x.data(), {1, 1, 4}}, {angle.data(), {1, 2}}, {out.data(), {1, 1, 4}});
  const std::vector<double> expected{0, 1, -3, -4};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(out[i], expected[i], budgets::kReference);
}

TEST(Reference, Norms) {
  const std::vector<double> x{3, 4, 0, 0};  // mean square 25/4
  const std::vector<double> gain{1, 2, 3, 4};
  const std::vector<double> bias{0, 1, 2, 3};
  std::vector<double> out(4);
  reference::rms_norm({x.data(), {4}}, {gain.data(), {4}}, 0, {out.data(), {4}});
  const std::vector<double> rms{1.2, 3.2, 0, 0};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(out[i], rms[i], budgets::kReference);
  const std::vector<double> y{1, 3, 1, 3};  // mean 2, variance 1
  reference::layer_norm({y.data(), {4}}, {{gain.data(), {4}}, {bias.data(), {4}}, 3}, {out.data(), {4}});
  const std::vector<double> layer{-0.5, 2, 0.5, 5};  // deviation sqrt(1 + 3)
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(out[i], layer[i], budgets::kReference);
}

TEST(Reference, ActivationsAtOne) {
  EXPECT_NEAR(reference::silu(1), 0.7310585786300049, budgets::kReference);
  EXPECT_NEAR(reference::gelu_erf(1), 0.8413447460685429, budgets::kReference);
  EXPECT_NEAR(reference::gelu_tanh(1), 0.8411919906082768, budgets::kReference);
  EXPECT_EQ(reference::relu(1), 1);
  EXPECT_EQ(reference::relu(-1), 0);
  EXPECT_EQ(reference::silu(0), 0);
}

TEST(Reference, Project) {
  const std::vector<double> x{1, 2, 3, 4};
  const std::vector<double> w{1, 0, 0, 1, 5, 6};
  std::vector<double> out(6);
  reference::project({x.data(), {2, 2}}, {w.data(), {3, 2}}, {out.data(), {2, 3}});
  EXPECT_EQ(out, (std::vector<double>{1, 2, 17, 3, 4, 39}));
}

// Two queries, two heads on one kv head, one channel; scores are chosen so that e^score is 1, 2 or 3.
TEST(Reference, AttendByHand) {
  const double ln2 = std::log(2.0);
  const double ln3 = std::log(3.0);
  const std::vector<double> q{1, 2, 1, 0};  // [T=2, heads=2]
  const std::vector<double> k{ln2, ln3};
  const std::vector<double> v{10, 20};
  std::vector<double> out(4);
  reference::Attention a{
      .q = {q.data(), {2, 2, 1}}, .keys = {k.data(), {1, 2, 1}}, .values = {v.data(), {1, 2, 1}}};
  reference::attend(a, {out.data(), {2, 2, 1}});
  EXPECT_NEAR(out[0], 10, budgets::kReference);  // sees one slot
  EXPECT_NEAR(out[1], 10, budgets::kReference);
  EXPECT_NEAR(out[2], (2 * 10 + 3 * 20) / 5.0, 10 * budgets::kReference);
  EXPECT_NEAR(out[3], 15, 10 * budgets::kReference);
  // ALiBi: slope ln 2 per token halves the weight of the slot one behind.
  const std::vector<double> slopes{ln2, 0};
  const std::vector<std::int64_t> positions{1000000, 1000001};
  a.slopes = {slopes.data(), {2}};
  a.query_positions = {positions.data(), {2}};
  a.key_positions = {positions.data(), {2}};
  EXPECT_NEAR(reference::score(a, 1, 0, 0), 0, budgets::kReference);
  reference::attend(a, {out.data(), {2, 2, 1}});
  EXPECT_NEAR(out[2], (1 * 10 + 3 * 20) / 4.0, 10 * budgets::kReference);
}

TEST(Reference, LogSumExp) {
  const std::vector<double> x{std::log(1.0), std::log(2.0), std::log(5.0)};
  EXPECT_NEAR(reference::log_sum_exp(x), std::log(8.0), budgets::kReference);
  EXPECT_EQ(reference::log_sum_exp({}), -std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace locant
