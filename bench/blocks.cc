// SPDX-License-Identifier: Apache-2.0
// The language-model head over blocks as stored: D = 2048, V = 16384, f32 and int8 activations.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

#include "budgets.h"
#include "frame.h"
#include "locant/formats.h"
#include "locant/ops.h"

namespace locant::bench {
namespace {

constexpr std::int64_t kWidth = 2048, kVocab = 16384;
constexpr const char* kOperation = "head of blocks";

using Blocks = std::shared_ptr<const std::vector<std::uint8_t>>;

struct BlockHead {
  std::int64_t tokens;
  GgmlType type;
  Activations activations;
  std::vector<float> x, out;
  Blocks weight;
};

/// Random bytes with scales near 2^-6.
Blocks blocks_of(GgmlType type) {
  const std::int64_t count = kVocab * kWidth / block_elements(type);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count * block_bytes(type)));
  std::uint32_t state = 1;
  for (std::uint8_t& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  const Half scale = half_from_f32(0x1p-6F);
  const bool two = type == GgmlType::q4_1 || type == GgmlType::q4_k;
  for (std::int64_t block = 0; block < count; ++block) {
    std::uint8_t* at = bytes.data() + block * block_bytes(type) + (type == GgmlType::q6_k ? 208 : 0);
    std::memcpy(at, &scale.bits, sizeof(scale.bits));
    if (two) std::memcpy(at + 2, &scale.bits, sizeof(scale.bits));
  }
  return std::make_shared<const std::vector<std::uint8_t>>(std::move(bytes));
}

double error_of(const BlockHead& data) {
  double worst = 0;
  constexpr std::int64_t kEvery = 61;  // a sample of the vocabulary
  const std::int64_t row_bytes = kWidth / block_elements(data.type) * block_bytes(data.type);
  std::vector<float> row(static_cast<std::size_t>(kWidth));
  for (std::int64_t n = 0; n < kVocab; n += kEvery) {
    dequantize(data.type, data.weight->data() + n * row_bytes, kWidth, row.data());
    for (std::int64_t t = 0; t < data.tokens; t += 3) {
      const float* x = data.x.data() + t * kWidth;
      double sum = 0, size = 0, rounded = 0;
      for (std::int64_t g = 0; g < kWidth; g += 32) {
        double most = 0, weights = 0;
        for (std::int64_t k = g; k < g + 32; ++k) {
          const double term =
              static_cast<double>(x[k]) * static_cast<double>(row[static_cast<std::size_t>(k)]);
          sum += term;
          size += std::fabs(term);
          most = std::max(most, std::fabs(static_cast<double>(x[k])));
          weights += std::fabs(static_cast<double>(row[static_cast<std::size_t>(k)]));
        }
        rounded += most * weights;
      }
      const double got = static_cast<double>(data.out[static_cast<std::size_t>(t * kVocab + n)]);
      const bool whole = data.activations == Activations::int8;
      worst = std::max(
          worst, std::fabs(got - sum) / (whole ? budgets::kProjectInt8 * rounded : budgets::kProject * size));
    }
  }
  return worst;
}

// Rows 15 to 18 of docs/speed.md: bytes (Q8_0) and nibbles apart, judged with x in whole numbers as ggml has
// it.
void set_goal(Row& row, GgmlType type, std::int64_t tokens) {
  const bool bytes = type == GgmlType::q8_0;
  if (tokens == 1) {
    row.avx2 = bytes ? Goal{1.35, 92} : Goal{1.6, 88};
    row.avx512 = {1.0, 92};
  } else if (tokens == 8) {
    row.avx2 = {bytes ? 2.3 : 2.0, 0};
    row.avx512 = {bytes ? 1.0 : 2.5, 0};
  } else if (tokens == 64) {
    row.avx2 = {1.7, 0};
    row.avx512 = {bytes ? 1.5 : 3.2, 0};
  } else if (bytes) {
    row.avx2 = {1.5, 0};
    row.avx512 = {1.7, 0};
  }
}

int number_of(std::int64_t tokens) {
  return tokens == 1 ? 15 : tokens == 8 ? 16 : tokens == 64 ? 17 : 18;
}

std::string ggml_name(GgmlType type) {
  std::string name(name_of(type));
  for (char& c : name) c = c == 'Q' ? 'q' : c;
  return name;
}

Row row_of(ThreadPool& pool, const BlockHead& head) {
  auto data = std::make_shared<BlockHead>(head);
  const auto [tokens, type, activations] = std::tuple(head.tokens, head.type, head.activations);
  data->x = values(static_cast<std::size_t>(tokens * kWidth), 6);
  data->out.resize(static_cast<std::size_t>(tokens * kVocab));
  const ProjectCall call{.x = View<const float, 2>(data->x.data(), {tokens, kWidth}),
                         .weight = {.data = data->weight->data(),
                                    .rows = kVocab,
                                    .columns = kWidth,
                                    .row_stride = kWidth,
                                    .blocks = type},
                         .activations = activations,
                         .out = {data->out.data(), {tokens, kVocab}}};
  const auto bytes = static_cast<std::int64_t>(data->weight->size());
  const bool streams = tokens == 1;
  Row row{.number = number_of(tokens),
          .operation = kOperation,
          .shape = fmt::format("{} row{}, {} of {}", tokens, tokens == 1 ? "" : "s", kVocab, kWidth),
          .dtype = fmt::format("{} {}", name_of(type), name_of(activations)),
          .limit = streams                            ? Limit::read
                   : activations == Activations::int8 ? Limit::amx_int8
                                                      : Limit::fma,
          .amount = streams ? static_cast<double>(bytes)
                            : 2.0 * static_cast<double>(tokens) * static_cast<double>(kVocab * kWidth),
          .working_set = bytes,
          .run = [data, call, &pool] { project(call, pool); },
          .error = [data] { return error_of(*data); },
          .peer = fmt::format(R"({{"op": "head", "tokens": {}, "vocab": {}, "width": {}, "dtype": "{}"}})",
                              tokens, kVocab, kWidth, ggml_name(type))};
  if (activations == Activations::int8) set_goal(row, type, tokens);
  return row;
}

}  // namespace

void block_rows(ThreadPool& pool, RowPlans& plans) {
  for (const GgmlType type :
       {GgmlType::q4_0, GgmlType::q4_1, GgmlType::q8_0, GgmlType::q4_k, GgmlType::q6_k}) {
    const auto weight = std::make_shared<Blocks>();  // made for the first row
    for (const std::int64_t tokens : {1, 8, 64, 256}) {
      for (const Activations activations : {Activations::f32, Activations::int8}) {
        plans.push_back({number_of(tokens), kOperation, [=, &pool] {
                           if (*weight == nullptr) *weight = blocks_of(type);
                           return row_of(pool, {tokens, type, activations, {}, {}, *weight});
                         }});
      }
    }
  }
}

}  // namespace locant::bench
