// SPDX-License-Identifier: Apache-2.0
// Curves of evidence: thinned with their ends, angles without whole turns, shares of frequencies.
#include "check/curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "budgets.h"

namespace locant::check_room {
namespace {

/// Tokens 0 .. count - 1 of one row, each pair turned by `times` its frequency.
Turns turned(const Ladder& ladder, std::size_t count, double times) {
  Turns turns;
  turns.pairs = static_cast<std::int64_t>(ladder.inv_freq.size());
  for (std::size_t n = 0; n < count; ++n) {
    turns.row.push_back(0);
    turns.token.push_back(static_cast<std::int64_t>(n));
    for (const double frequency : ladder.inv_freq) {
      turns.factor.push_back(std::polar(1.5, times * frequency * static_cast<double>(n)));
      turns.weight.push_back(1);
    }
  }
  return turns;
}

TokenPositions counted(std::size_t count) {
  TokenPositions positions;
  for (std::size_t n = 0; n < count; ++n) positions.values.push_back(static_cast<std::int64_t>(n));
  return positions;
}

TEST(Curves, AreThinnedEvenlyWithTheirEnds) {
  Curve curve;
  for (int i = 0; i < 10'000; ++i) add_point(curve, i, 2 * i, 3 * i);
  thin(curve);
  ASSERT_EQ(curve.x.size(), Curve::kMostPoints);
  ASSERT_EQ(curve.expected.size(), Curve::kMostPoints);
  EXPECT_EQ(curve.x.front(), 0);
  EXPECT_EQ(curve.x.back(), 9999);
  EXPECT_EQ(curve.observed.back(), 3 * 9999);
  for (std::size_t i = 1; i < curve.x.size(); ++i) EXPECT_LE(curve.x[i] - curve.x[i - 1], 20);
  const Curve before = curve;
  thin(curve);
  EXPECT_EQ(curve.x, before.x);
}

TEST(Curves, ShowTheAnglesAndTheShareOfEachFrequency) {
  const Ladder planned{.inv_freq = {1, 0.1, 0.01}};
  const std::vector<Curve> curves = turn_curves("q of layer 3", turned(planned, 64, 2), planned, counted(64));
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_THAT(curves[0].name, testing::HasSubstr("q of layer 3"));
  ASSERT_EQ(curves[0].x.size(), 64U);
  for (const auto* values : {&curves[0].expected, &curves[0].observed}) {
    for (const double angle : *values) EXPECT_LE(std::abs(angle), std::acos(-1.0) + budgets::kCurveAngle);
  }
  ASSERT_EQ(curves[1].x.size(), 3U);
  for (const double share : curves[1].observed) EXPECT_NEAR(share, 2, budgets::kCurveAngle);
}

TEST(Curves, OfFewTokensGoOverThePairs) {
  const Ladder planned{.inv_freq = {1, 0.1, 0.01, 0.001}};
  const std::vector<Curve> curves = turn_curves("k", turned(planned, 1, 1), planned, counted(1));
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(curves[0].x.size(), 4U);
  EXPECT_TRUE(turn_curves("k", Turns{}, planned, {}).empty());
}

TEST(Curves, ShowTheLengthOfEachPair) {
  const Ladder planned{.inv_freq = {1, 0.1}};
  const Curve curve = amplitude_curve("q", turned(planned, 8, 1), 1);
  ASSERT_EQ(curve.observed.size(), 2U);
  EXPECT_EQ(curve.expected[0], 1);
  EXPECT_NEAR(curve.observed[0], 1.5, budgets::kCurveAngle);
}

}  // namespace
}  // namespace locant::check_room
