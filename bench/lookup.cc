// SPDX-License-Identifier: Apache-2.0
// Embedding lookup: rows of a table by random ids.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "budgets.h"
#include "frame.h"
#include "locant/ops.h"

namespace locant::bench {
namespace {

struct Lookup {
  std::int64_t vocab, width, tokens;
  std::vector<float> table, out;
  std::vector<std::int64_t> ids;
};

Row row_of(ThreadPool& pool, std::int64_t vocab, std::int64_t width, std::int64_t tokens) {
  auto data = std::make_shared<Lookup>(Lookup{vocab,
                                              width,
                                              tokens,
                                              values(static_cast<std::size_t>(vocab * width), 1),
                                              std::vector<float>(static_cast<std::size_t>(tokens * width)),
                                              {}});
  std::uint64_t state = 7;
  for (std::int64_t t = 0; t < tokens; ++t) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    data->ids.push_back(static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(vocab)));
  }
  const EmbedCall call{.ids = {data->ids.data(), {tokens}},
                       .table = matrix(TensorRef(data->table.data(), DType::f32, {vocab, width})),
                       .scale = 2.5F,
                       .out = {data->out.data(), {tokens, width}}};
  return {.operation = "lookup",
          .shape = fmt::format("{} of {} rows of {}", tokens, vocab, width),
          .dtype = "f32",
          .limit = Limit::copy,
          .amount = 2.0 * static_cast<double>(tokens * width) * sizeof(float),
          .working_set = vocab * width * static_cast<std::int64_t>(sizeof(float)),
          .run = [data, call, &pool] { embed(call, pool); },
          .error =
              [data] {
                double worst = 0;
                for (std::int64_t t = 0; t < data->tokens; ++t) {
                  const float* const from =
                      data->table.data() + data->ids[static_cast<std::size_t>(t)] * data->width;
                  for (std::int64_t i = 0; i < data->width; ++i) {
                    const double want = 2.5 * static_cast<double>(from[i]);
                    const double got =
                        static_cast<double>(data->out[static_cast<std::size_t>(t * data->width + i)]);
                    if (want != 0) worst = std::max(worst, std::fabs(got / want - 1));
                  }
                }
                return worst / budgets::kEmbedScaled;
              },
          .peer = fmt::format(R"({{"op": "lookup", "vocab": {}, "width": {}, "tokens": {}}})", vocab, width,
                              tokens)};
}

}  // namespace

void lookup_rows(ThreadPool& pool, Rows& rows) {
  rows.push_back(row_of(pool, 32000, 4096, 2048));
  rows.push_back(row_of(pool, 250000, 128, 65536));
}

}  // namespace locant::bench
