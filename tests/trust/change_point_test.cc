// SPDX-License-Identifier: Apache-2.0
// Tables whose rows learned up to a known row, made on purpose, and real ones.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "trust/parts.h"

namespace locant::trust_room {
namespace {

constexpr std::int64_t kWidth = 48;

/// Rows that wander slowly, as learned ones do.
std::vector<float> learned(std::int64_t rows, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> row(static_cast<std::size_t>(kWidth));
  for (float& value : row) value = normal(random);
  std::vector<float> table;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (float& value : row) value = 0.95F * value + 0.3F * normal(random);
    for (const float value : row) table.push_back(0.1F * value);
  }
  return table;
}

void add_initial(std::vector<float>& table, std::int64_t rows, float size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  for (std::int64_t i = 0; i < rows * kWidth; ++i) table.push_back(normal(random));
}

TEST(ChangePoint, FindsRowsThatNeverLearned) {
  for (const auto& [rows, all] :
       {std::pair<std::int64_t, std::int64_t>{512, 2048}, {100, 130}, {1000, 1024}}) {
    for (const float size : {0.02F, 0.1F}) {
      std::vector<float> table = learned(rows, 3);
      add_initial(table, all - rows, size, 4);
      const ChangePoint point = change_point(table, all, kWidth);
      EXPECT_NEAR(static_cast<double>(point.learned), static_cast<double>(rows), 1) << all << " " << size;
      EXPECT_FALSE(point.evidence.empty());
    }
  }
}

TEST(ChangePoint, FindsTheOneLastRow) {
  std::vector<float> table = learned(255, 5);
  add_initial(table, 1, 0.02F, 6);
  const ChangePoint point = change_point(table, 256, kWidth);
  EXPECT_EQ(point.learned, 255);
}

TEST(ChangePoint, FindsPadding) {
  std::vector<float> table = learned(100, 7);
  table.resize(128 * kWidth, 0);
  EXPECT_EQ(change_point(table, 128, kWidth).learned, 100);
  std::vector<float> repeated = learned(100, 8);
  for (int i = 0; i < 28; ++i)
    repeated.insert(repeated.end(), repeated.begin() + 3 * kWidth, repeated.begin() + 4 * kWidth);
  EXPECT_EQ(change_point(repeated, 128, kWidth).learned, 100);
}

TEST(ChangePoint, LeavesWholeTablesAlone) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const ChangePoint point = change_point(learned(256, seed), 256, kWidth);
    EXPECT_EQ(point.learned, 256) << seed << ": " << point.evidence;
    EXPECT_TRUE(point.evidence.empty());
    std::vector<float> random;
    add_initial(random, 256, 0.02F, seed);  // a model without training says nothing either
    EXPECT_EQ(change_point(random, 256, kWidth).learned, 256) << seed;
  }
}

TEST(ChangePoint, TakesShortTablesAndZeroRows) {
  EXPECT_EQ(change_point(std::vector<float>(3 * kWidth, 0), 3, kWidth).learned, 3);
  EXPECT_EQ(change_point(std::vector<float>(8 * kWidth, 0), 8, kWidth).learned, 0);
}

}  // namespace
}  // namespace locant::trust_room
