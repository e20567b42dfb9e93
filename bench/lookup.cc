// SPDX-License-Identifier: Apache-2.0
// Embedding lookup: rows of a table, as numbers or as blocks, by random ids. Tables and outputs stand on huge
// pages.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "budgets.h"
#include "frame.h"
#include "locant/formats.h"
#include "locant/ops.h"

namespace locant::bench {
namespace {

constexpr float kScale = 2.5F;
constexpr const char* kOperation = "lookup";

struct Kind {
  int number;
  Goal avx2, avx512;
  std::int64_t vocab, width, tokens;
  GgmlType type;
};

struct Lookup {
  Kind kind;
  Buffer table, out;
  std::vector<std::int64_t> ids;

  explicit Lookup(const Kind& k)
      : kind(k),
        table(static_cast<std::size_t>(k.vocab * row_bytes())),
        out(static_cast<std::size_t>(k.tokens * k.width) * sizeof(float)),
        ids(static_cast<std::size_t>(k.tokens)) {
    fill();
    std::uint64_t state = 7;
    for (std::int64_t& id : ids) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      id = static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(k.vocab));
    }
  }
  [[nodiscard]] std::int64_t row_bytes() const {
    return kind.width / block_elements(kind.type) * block_bytes(kind.type);
  }
  [[nodiscard]] Matrix matrix() const {
    Matrix m{.data = table.data(), .rows = kind.vocab, .columns = kind.width, .row_stride = kind.width};
    if (const auto dtype = dtype_of(kind.type)) {
      m.dtype = *dtype;
    } else {
      m.blocks = kind.type;
    }
    return m;
  }

 private:
  // Values in [-1, 1), or random bytes with scales near 2^-6.
  void fill() {
    const std::size_t bytes = table.bytes();
    auto* const at = table.as<std::uint8_t>();
    if (kind.type == GgmlType::f32) {
      const std::vector<float> some = values(1 << 20, 1);
      for (std::size_t i = 0; i < bytes / sizeof(float); ++i) table.as<float>()[i] = some[i % some.size()];
      return;
    }
    const std::vector<float> some = values(1 << 20, 1);
    if (kind.type == GgmlType::f16 || kind.type == GgmlType::bf16) {
      for (std::size_t i = 0; i < bytes / sizeof(Half); ++i) {
        const float x = some[i % some.size()];
        table.as<Half>()[i].bits =
            kind.type == GgmlType::f16 ? half_from_f32(x).bits : bfloat16_from_f32(x).bits;
      }
      return;
    }
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < bytes; ++i) {
      state = state * 1664525 + 1013904223;
      at[i] = static_cast<std::uint8_t>(state >> 24);
    }
    const Half scale = half_from_f32(0x1p-6F);
    const auto block = static_cast<std::size_t>(block_bytes(kind.type));
    for (std::size_t i = 0; i < bytes; i += block) {
      std::memcpy(at + i, &scale.bits, sizeof(scale.bits));
      if (kind.type == GgmlType::q4_k) std::memcpy(at + i + 2, &scale.bits, sizeof(scale.bits));
    }
  }
};

double error_of(const Lookup& data) {
  double worst = 0;
  const auto width = static_cast<std::size_t>(data.kind.width);
  std::vector<float> row(width);
  for (std::size_t t = 0; t < data.ids.size(); ++t) {
    const std::uint8_t* const from = data.table.as<std::uint8_t>() + data.ids[t] * data.row_bytes();
    dequantize(data.kind.type, from, data.kind.width, row.data());
    for (std::size_t i = 0; i < width; ++i) {
      const double want = static_cast<double>(kScale) * static_cast<double>(row[i]);
      const double got = static_cast<double>(data.out.as<float>()[t * width + i]);
      if (want != 0 || got != 0) worst = std::max(worst, std::fabs(got - want) / std::fabs(want));
    }
  }
  return worst / budgets::kEmbedScaled;
}

std::string_view peer_dtype(GgmlType type) {
  switch (type) {
    case GgmlType::q4_0:
      return "q4_0";
    case GgmlType::q4_k:
      return "q4_k";
    case GgmlType::q8_0:
      return "q8_0";
    default:
      return name_of(*dtype_of(type));
  }
}

Row row_of(ThreadPool& pool, const Kind& kind) {
  auto data = std::make_shared<Lookup>(kind);
  const EmbedCall call{.ids = {data->ids.data(), {kind.tokens}},
                       .table = data->matrix(),
                       .scale = kScale,
                       .out = {data->out.as<float>(), {kind.tokens, kind.width}}};
  const std::int64_t moved =
      kind.tokens * (data->row_bytes() + kind.width * static_cast<std::int64_t>(sizeof(float)));
  return {.number = kind.number,
          .avx2 = kind.avx2,
          .avx512 = kind.avx512,
          .operation = kOperation,
          .shape = fmt::format("{} of {} rows of {}", kind.tokens, kind.vocab, kind.width),
          .dtype = std::string(peer_dtype(kind.type)),
          .limit = Limit::copy,
          .amount = static_cast<double>(moved),
          .written = static_cast<double>(data->out.bytes()),
          .working_set = 2 * static_cast<std::int64_t>(data->out.bytes()),
          .run = [data, call, &pool] { embed(call, pool); },
          .error = [data] { return error_of(*data); },
          .peer = fmt::format(R"({{"op": "lookup", "tokens": {}, "vocab": {}, "width": {}, "dtype": "{}"}})",
                              kind.tokens, kind.vocab, kind.width, peer_dtype(kind.type))};
}

}  // namespace

void lookup_rows(ThreadPool& pool, RowPlans& plans) {
  constexpr std::int64_t kVocab = 32000, kWide = 4096, kTokens = 2048;
  for (const Kind& kind : {
           Kind{1, {1.4, 75}, {1.1, 88}, kVocab, kWide, kTokens, GgmlType::f32},
           Kind{1, {1.4, 50}, {1.1, 90}, 1000000, 128, 65536, GgmlType::f32},
           Kind{1, {}, {}, kVocab, kWide, kTokens, GgmlType::f16},
           Kind{1, {}, {}, kVocab, kWide, kTokens, GgmlType::bf16},
           Kind{2, {2.5, 75}, {2.5, 80}, kVocab, kWide, kTokens, GgmlType::q4_0},
           Kind{2, {2.5, 75}, {2.5, 80}, kVocab, kWide, kTokens, GgmlType::q4_k},
           Kind{2, {}, {}, kVocab, kWide, kTokens, GgmlType::q8_0},
       }) {
    plans.push_back({kind.number, kOperation, [&pool, kind] { return row_of(pool, kind); }});
  }
}

}  // namespace locant::bench
