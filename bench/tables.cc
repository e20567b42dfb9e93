// SPDX-License-Identifier: Apache-2.0
// Tables of cos and sin, and rows of sinusoids, for runs of positions.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "budgets.h"
#include "frame.h"
#include "locant/positions.h"

namespace locant::bench {
namespace {

constexpr std::int64_t kPairs = 64, kTokens = 4096, kFirst = 100000;
constexpr int kNumber = 3;
constexpr const char* kRotations = "table of cos and sin";
constexpr const char* kSinusoids = "table of sinusoids";

struct Tables {
  std::vector<std::int64_t> positions;
  std::vector<double> inv_freq;
  Buffer out;

  Tables() : out(2 * kTokens * kPairs * sizeof(float)) {
    for (std::int64_t t = 0; t < kTokens; ++t) positions.push_back(kFirst + t);
    for (std::int64_t i = 0; i < kPairs; ++i)
      inv_freq.push_back(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(kPairs)));
  }
};

Row row_of(const std::shared_ptr<Tables>& data, std::string operation, std::function<void()> run,
           std::function<double()> error) {
  return {.number = kNumber,
          .avx2 = {20, 0},
          .avx512 = {20, 0},
          .operation = std::move(operation),
          .shape = fmt::format("T={}, {} pairs, from position {}", kTokens, kPairs, kFirst),
          .dtype = "f32",
          .limit = Limit::copy,
          .amount = static_cast<double>(data->out.bytes()),
          .working_set = static_cast<std::int64_t>(data->out.bytes()),
          .run = std::move(run),
          .error = std::move(error),
          .peer = fmt::format(R"({{"op": "table", "tokens": {}, "pairs": {}}})", kTokens, kPairs)};
}

// The largest deviation of cos(t, i) and sin(t, i) as they were read.
template <class Cos, class Sin>
double error_of(const Tables& data, Cos cos_at, Sin sin_at) {
  double most = 0;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t i = 0; i < kPairs; ++i) {
      const double angle = static_cast<double>(kFirst + t) * data.inv_freq[static_cast<std::size_t>(i)];
      most = std::max({most, std::fabs(static_cast<double>(cos_at(t, i)) - std::cos(angle)),
                       std::fabs(static_cast<double>(sin_at(t, i)) - std::sin(angle))});
    }
  }
  return most / budgets::kTableExact;
}

Row rotation_row() {
  auto data = std::make_shared<Tables>();
  auto rotation = std::make_shared<Rotation>();
  rotation->inv_freq = data->inv_freq;
  const View<float, 2> cos(data->out.as<float>(), {kTokens, kPairs});
  const View<float, 2> sin(data->out.as<float>() + kTokens * kPairs, {kTokens, kPairs});
  return row_of(
      data, kRotations,
      [=] {
        rotation_table(*rotation, {}, {data->positions.data(), {1, kTokens}}, cos, sin);
      },
      [=] { return error_of(*data, cos, sin); });
}

Row sinusoid_row() {
  auto data = std::make_shared<Tables>();
  auto embedding = std::make_shared<PositionEmbedding>();
  embedding->form = EmbeddingForm::sinusoid;
  embedding->width = 2 * kPairs;
  embedding->columns = Columns::interleaved;
  embedding->inv_freq = data->inv_freq;
  const View<float, 2> rows(data->out.as<float>(), {kTokens, 2 * kPairs});
  return row_of(
      data, kSinusoids,
      [=] {
        sinusoid_rows(*embedding, {}, {data->positions.data(), {kTokens}}, rows);
      },
      [=] {
        return error_of(
            *data, [&](std::int64_t t, std::int64_t i) { return rows(t, 2 * i + 1); },
            [&](std::int64_t t, std::int64_t i) { return rows(t, 2 * i); });
      });
}

}  // namespace

void table_rows(ThreadPool& /*pool*/, RowPlans& plans) {
  plans.push_back({kNumber, kRotations, rotation_row});
  plans.push_back({kNumber, kSinusoids, sinusoid_row});
}

}  // namespace locant::bench
