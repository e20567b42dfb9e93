// SPDX-License-Identifier: Apache-2.0
// Weights of blocks through the public calls: values of dequantize(), the same bits on any number of threads,
// and every rule as its sentence.
#include <array>
#include <functional>
#include <string>

#include "budgets.h"
#include "kernels/block_rows.h"
#include "locant/ops.h"

namespace locant {
namespace {

// A weight of random blocks and its values.
struct Table {
  Matrix matrix;
  std::vector<std::uint8_t> bytes;
  std::vector<float> values;

  Table(GgmlType type, std::int64_t rows, std::int64_t columns)
      : bytes(static_cast<std::size_t>(testing::bytes_of(type, rows * columns))),
        values(static_cast<std::size_t>(rows * columns)) {
    testing::Random random(static_cast<std::uint64_t>(rows + columns));
    testing::fill_blocks(random, type, rows * columns, bytes.data());
    dequantize(type, bytes.data(), rows * columns, values.data());
    matrix = {.data = bytes.data(), .rows = rows, .columns = columns, .row_stride = columns, .blocks = type};
  }
  [[nodiscard]] Matrix plain() const {
    return locant::matrix(View<const float, 2>(values.data(), {matrix.rows, matrix.columns}));
  }
};

std::vector<float> numbers(std::int64_t n) {
  testing::Random random(5);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = random.next();
  return values;
}

TEST(BlockWeights, AreThoseThatDequantizeKnows) {
  int types = 0;
  for (std::uint32_t number = 0; number < 64; ++number) {
    const auto type = ggml_type_of(number);
    if (!type) continue;
    EXPECT_EQ(can_multiply(*type), can_dequantize(*type) && !dtype_of(*type)) << name_of(*type);
    types += can_multiply(*type) ? 1 : 0;
  }
  EXPECT_EQ(types, 13);
  EXPECT_EQ(name_of(Activations::f32), "f32");
  EXPECT_EQ(name_of(Activations::bf16), "bf16");
  EXPECT_EQ(name_of(Activations::int8), "int8");
}

TEST(BlockWeights, RowsAreLookedUpAndAdded) {
  ThreadPool pool{2};
  const std::vector<std::int64_t> ids{6, 0, 3, 6};
  for (const GgmlType type : testing::block_types()) {
    SCOPED_TRACE(std::string(name_of(type)));
    constexpr std::int64_t kWidth = 1280;
    const Table table(type, 7, kWidth);
    std::vector<float> out(4 * kWidth);
    const View<float, 2> rows(out.data(), {4, kWidth});
    const View<const std::int64_t, 1> tokens(ids.data(), {4});
    embed({.ids = tokens, .table = table.matrix, .scale = 3, .out = rows}, pool);
    add_rows({.rows = tokens, .table = table.matrix, .out = rows}, pool);
    for (std::int64_t t = 0; t < 4; ++t) {
      for (std::int64_t c = 0; c < kWidth; ++c) {
        const float value = table.values[static_cast<std::size_t>(tokens(t) * kWidth + c)];
        const float tripled = 3 * value;
        ASSERT_EQ(rows(t, c), tripled + value) << t << "," << c;
      }
    }
  }
}

// Weights of different shapes and kinds in one fork.
TEST(BlockWeights, SeveralProductsAtOnceHaveTheBitsOfEachAlone) {
  constexpr std::int64_t kColumns = 1280;
  const Table nibbles(GgmlType::q4_1, 150, kColumns);
  const Table bytes(GgmlType::q8_0, 70, kColumns);
  for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{67}, std::int64_t{0}}) {
    const std::vector<float> x = numbers(tokens * kColumns);
    for (const Activations activations : {Activations::f32, Activations::int8}) {
      for (const int threads : {1, 3}) {
        ThreadPool pool{threads};
        std::array<std::vector<float>, 3> apart;
        std::array<std::vector<float>, 3> together;
        std::array<ProjectCall, 3> calls;
        const std::array<Matrix, 3> weights{nibbles.matrix, bytes.matrix, nibbles.plain()};
        for (std::size_t i = 0; i < calls.size(); ++i) {
          apart[i].resize(static_cast<std::size_t>(tokens * weights[i].rows));
          together[i].resize(apart[i].size());
          calls[i] = {.x = {x.data(), {tokens, kColumns}},
                      .weight = weights[i],
                      .activations = activations,
                      .out = {apart[i].data(), {tokens, weights[i].rows}}};
          project(calls[i], pool);
          calls[i].out = {together[i].data(), {tokens, weights[i].rows}};
        }
        project(calls, pool);
        for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(together[i], apart[i]) << i;
      }
    }
  }
}

TEST(BlockWeights, ProductsHaveTheSameBitsOnAnyNumberOfThreads) {
  constexpr std::int64_t kTokens = 70;
  constexpr std::int64_t kRows = 150;
  constexpr std::int64_t kColumns = 1280;
  const std::vector<float> x = numbers(kTokens * kColumns);
  for (const GgmlType type : testing::block_types()) {
    SCOPED_TRACE(std::string(name_of(type)));
    const Table table(type, kRows, kColumns);
    const auto product = [&](const Matrix& weight, Activations activations, int threads) {
      ThreadPool pool{threads};
      std::vector<float> out(kTokens * kRows);
      project({.x = {x.data(), {kTokens, kColumns}},
               .weight = weight,
               .activations = activations,
               .out = {out.data(), {kTokens, kRows}}},
              pool);
      return out;
    };
    const std::vector<float> exact = product(table.plain(), Activations::f32, 1);
    EXPECT_EQ(product(table.matrix, Activations::f32, 1), exact);
    EXPECT_EQ(product(table.matrix, Activations::f32, 3), exact);
    EXPECT_EQ(product(table.plain(), Activations::int8, 1), exact);  // f32 weights keep f32 arithmetic
    const std::vector<float> rounded = product(table.matrix, Activations::int8, 1);
    EXPECT_NE(rounded, exact);
    EXPECT_EQ(product(table.matrix, Activations::int8, 3), rounded);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t n = 0; n < kRows; ++n) {
        double bound = 0;
        for (std::int64_t g = 0; g < kColumns; g += 32) {
          double most = 0;
          double weights = 0;
          for (std::int64_t k = g; k < g + 32; ++k) {
            most = std::max(most, std::abs(testing::wide(x[static_cast<std::size_t>(t * kColumns + k)])));
            weights += std::abs(testing::wide(table.values[static_cast<std::size_t>(n * kColumns + k)]));
          }
          bound += most * weights;
        }
        const auto at = static_cast<std::size_t>(t * kRows + n);
        ASSERT_LE(std::abs(testing::wide(rounded[at]) - testing::wide(exact[at])),
                  budgets::kProjectInt8 * bound);
      }
    }
  }
}

class BlockRules : public ::testing::Test {
 protected:
  ThreadPool pool{1};
  Table table{GgmlType::q4_1, 3, 64};
  std::vector<float> x = std::vector<float>(256, 1.0F);
  std::vector<float> out = std::vector<float>(256, 3.0F);
  std::vector<std::int64_t> ids{0, 1};

  [[nodiscard]] std::string project_sentence(const Matrix& weight) {
    return sentence([&] {
      project({.x = {x.data(), {2, weight.columns}}, .weight = weight, .out = {out.data(), {2, weight.rows}}},
              pool);
    });
  }
  [[nodiscard]] std::string embed_sentence(const Matrix& weight) {
    return sentence([&] {
      embed({.ids = {ids.data(), {2}}, .table = weight, .out = {out.data(), {2, weight.columns}}}, pool);
    });
  }
  [[nodiscard]] static std::string sentence(const std::function<void()>& call) {
    try {
      call();
    } catch (const SpecError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }
  void TearDown() override {
    for (const float value : out)
      ASSERT_EQ(value, 3.0F) << "something was written before the rule was checked";
  }
};

TEST_F(BlockRules, WholeBlocksOfAKnownType) {
  Matrix bad = table.matrix;
  bad.columns = 48;
  EXPECT_EQ(project_sentence(bad), "project: weight has rows of 48 elements, Q4_1 stands in blocks of 32");
  EXPECT_EQ(embed_sentence(bad), "embed: table has rows of 48 elements, Q4_1 stands in blocks of 32");
  bad = table.matrix;
  bad.row_stride = 80;
  EXPECT_EQ(project_sentence(bad), "project: weight has rows 80 elements apart, Q4_1 stands in blocks of 32");
  bad = table.matrix;
  bad.blocks = GgmlType::q6_k;
  EXPECT_EQ(project_sentence(bad), "project: weight has rows of 64 elements, Q6_K stands in blocks of 256");
  const std::string known = ", expected blocks of Q4_0 to Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS or MXFP4";
  bad.blocks = GgmlType::iq2_xs;
  EXPECT_EQ(project_sentence(bad), "project: weight is IQ2_XS" + known);
  bad.blocks = GgmlType::f16;
  EXPECT_EQ(embed_sentence(bad), "embed: table is F16" + known);
  bad = table.matrix;
  bad.row_stride = 32;
  EXPECT_EQ(project_sentence(bad), "project: weight has rows of 64 elements, stride 32 is too small");
  bad = table.matrix;
  bad.data = nullptr;
  EXPECT_EQ(project_sentence(bad), "project: weight is [3,64] without data");
}

// The extent of a weight is that of its blocks: 3 rows of 2 blocks of 20 bytes.
TEST_F(BlockRules, OutBesideTheBlocksIsNoOverlap) {
  std::vector<float> memory(64);
  Matrix inside = table.matrix;
  std::memcpy(memory.data(), table.bytes.data(), table.bytes.size());
  inside.data = memory.data();
  const auto call = [&](std::size_t at) {
    return sentence([&] {
      project({.x = {x.data(), {1, 64}}, .weight = inside, .out = {memory.data() + at, {1, 3}}}, pool);
    });
  };
  ASSERT_EQ(table.bytes.size(), 120U);
  EXPECT_EQ(call(29), "project: out overlaps the weight");
  EXPECT_EQ(call(30), "nothing was thrown");
}

}  // namespace
}  // namespace locant
