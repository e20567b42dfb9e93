// SPDX-License-Identifier: Apache-2.0
// What storage rounds: llama.cpp's own quantiser stays within the budget of every type, and the budget is of
// the size of what it does.
#include "check/weight.h"

#include <gtest/gtest.h>

#include <cmath>

#include "budgets.h"
#include "formats/gguf_files.h"
#include "formats/json.h"

namespace locant::check_room {
namespace {

struct Quantised {
  std::vector<std::string> names;
  std::vector<std::string> blocks;
  std::vector<float> rows;
  std::int64_t width = 0;

  Quantised() {
    const Json file = read_json(std::string(LOCANT_SOURCE_DIR) + "/tests/check/quantised.json");
    for (const auto& [name, hex] : file.at("blocks").items()) {
      names.push_back(name);
      blocks.push_back(tests::from_hex(hex));
    }
    width = file.at("width").get<std::int64_t>();
    const std::string halves = tests::from_hex(file.at("rows"));
    rows.resize(halves.size() / sizeof(Half));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Half half{};
      std::memcpy(&half, halves.data() + i * sizeof(half), sizeof(half));
      rows[i] = f32_from(half);
    }
  }
  [[nodiscard]] GgufTensor tensor(std::size_t i) const {
    GgufTensor stored;
    stored.name = names[i];
    for (std::uint32_t number = 0; number < 64; ++number) {
      const auto type = ggml_type_of(number);
      if (type && name_of(*type) == names[i]) stored.type = *type;
    }
    stored.shape = {static_cast<std::int64_t>(rows.size()) / width, width};
    stored.bytes = {reinterpret_cast<const std::byte*>(blocks[i].data()), blocks[i].size()};
    return stored;
  }
};

TEST(Weight, EveryTypeOfBlocksStaysWithinItsBudget) {
  const Quantised made;
  ASSERT_EQ(made.names.size(), 13U);
  for (std::size_t i = 0; i < made.names.size(); ++i) {
    SCOPED_TRACE(made.names[i]);
    const GgufTensor stored = made.tensor(i);
    const Weight weight(stored);
    ASSERT_TRUE(weight.readable());
    const auto count = static_cast<std::int64_t>(made.rows.size());
    std::vector<float> values(made.rows.size());
    weight.read(0, count, values.data());
    double made_error = 0;
    double normal_error = 0;
    double single = 0;
    for (std::int64_t e = 0; e < count; ++e) {
      const auto at = static_cast<std::size_t>(e);
      const double error = static_cast<double>(values[at]) - static_cast<double>(made.rows[at]);
      const double budget = weight.rounding(e, 1, &values[at]);
      ASSERT_LE(error * error, budget) << e << ": " << values[at] << " for " << made.rows[at];
      made_error += error * error;
      if (e < made.width) normal_error += error * error;
      single += budget;
    }
    const double whole = weight.rounding(0, count, values.data());
    EXPECT_FLOAT_EQ(static_cast<float>(whole), static_cast<float>(single));
    EXPECT_GT(made_error, 0);
    const double normal = weight.rounding(0, made.width, values.data());
    RecordProperty(made.names[i], std::to_string(std::sqrt(normal / normal_error)));
    EXPECT_LT(std::sqrt(normal), budgets::kStorageSlack * std::sqrt(normal_error));
  }
}

}  // namespace
}  // namespace locant::check_room
