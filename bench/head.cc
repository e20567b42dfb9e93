// SPDX-License-Identifier: Apache-2.0
// The language-model head straight from the row-major embedding table: D = 2048, V = 16384.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "budgets.h"
#include "frame.h"
#include "locant/ops.h"

namespace locant::bench {
namespace {

constexpr std::int64_t kWidth = 2048, kVocab = 16384;

struct Head {
  std::int64_t tokens;
  DType dtype;
  std::vector<float> x, weight, out;
  std::vector<std::uint16_t> narrow;
};

double error_of(const Head& data) {
  double worst = 0;
  constexpr std::int64_t kEvery = 61;  // a sample of the vocabulary
  for (std::int64_t t = 0; t < data.tokens; t += 3) {
    for (std::int64_t n = 0; n < kVocab; n += kEvery) {
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < kWidth; ++k) {
        const auto at = static_cast<std::size_t>(n * kWidth + k);
        float w = data.weight[at];
        if (data.dtype == DType::f16) w = f32_from(Half{data.narrow[at]});
        if (data.dtype == DType::bf16) w = f32_from(BFloat16{data.narrow[at]});
        const double term =
            static_cast<double>(data.x[static_cast<std::size_t>(t * kWidth + k)]) * static_cast<double>(w);
        sum += term;
        size += std::fabs(term);
      }
      const double got = static_cast<double>(data.out[static_cast<std::size_t>(t * kVocab + n)]);
      worst = std::max(worst, std::fabs(got - sum) / size);
    }
  }
  return worst / budgets::kProject;
}

Row row_of(ThreadPool& pool, std::int64_t tokens, DType dtype) {
  auto data = std::make_shared<Head>();
  data->tokens = tokens;
  data->dtype = dtype;
  data->x = values(static_cast<std::size_t>(tokens * kWidth), 6);
  data->weight = values(static_cast<std::size_t>(kVocab * kWidth), 8);
  data->out.resize(static_cast<std::size_t>(tokens * kVocab));
  const void* stored = data->weight.data();
  if (dtype != DType::f32) {
    for (const float w : data->weight) {
      data->narrow.push_back(dtype == DType::f16 ? half_from_f32(w).bits : bfloat16_from_f32(w).bits);
    }
    stored = data->narrow.data();
  }
  const ProjectCall call{.x = View<const float, 2>(data->x.data(), {tokens, kWidth}),
                         .weight = matrix(TensorRef(stored, dtype, {kVocab, kWidth})),
                         .bias = {},
                         .scale = 1,
                         .write = Write::replace,
                         .out = {data->out.data(), {tokens, kVocab}}};
  const auto bytes = kVocab * kWidth * static_cast<std::int64_t>(size_of(dtype));
  // One row streams the table; many rows are bound by arithmetic.
  const bool streams = tokens == 1;
  return {.operation = "head",
          .shape = fmt::format("{} rows, {} of {}", tokens, kVocab, kWidth),
          .dtype = std::string(name_of(dtype)),
          .limit = streams ? Limit::read : Limit::fma,
          .amount = streams ? static_cast<double>(bytes)
                            : 2.0 * static_cast<double>(tokens) * static_cast<double>(kVocab * kWidth),
          .working_set = bytes,
          .run = [data, call, &pool] { project(call, pool); },
          .error = [data] { return error_of(*data); },
          .peer = fmt::format(R"({{"op": "head", "tokens": {}, "vocab": {}, "width": {}, "dtype": "{}"}})",
                              tokens, kVocab, kWidth, name_of(dtype))};
}

}  // namespace

void head_rows(ThreadPool& pool, Rows& rows) {
  for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{8}, std::int64_t{64}}) {
    rows.push_back(row_of(pool, tokens, DType::f32));
    rows.push_back(row_of(pool, tokens, DType::f16));
    rows.push_back(row_of(pool, tokens, DType::bf16));
  }
}

}  // namespace locant::bench
