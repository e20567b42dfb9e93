// SPDX-License-Identifier: Apache-2.0
// The language-model head straight from the row-major embedding table: D = 2048, V = 16384, and fused with
// what follows it over V = 128k. Weights and x begin at a cache line, as the peers' do.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "budgets.h"
#include "frame.h"
#include "locant/head.h"
#include "locant/ops.h"

namespace locant::bench {
namespace {

constexpr std::int64_t kWidth = 2048, kVocab = 16384, kLargeVocab = 131072, kCandidates = 40;
constexpr const char* kOperation = "head";
constexpr const char* kFusedOperation = "head, top-40, lse, draw";

struct Kind {
  std::int64_t tokens;
  DType dtype;
  Activations activations = Activations::f32;
  int number = 0;
  Goal avx2{}, avx512{};
};

// Elements that begin at a cache line, on pages of the usual size.
class Aligned {
 public:
  explicit Aligned(std::size_t bytes) : bytes_(bytes + kLine) {}
  template <class T>
  [[nodiscard]] T* as() {
    const std::size_t past = reinterpret_cast<std::uintptr_t>(bytes_.data()) % kLine;
    return reinterpret_cast<T*>(bytes_.data() + (past == 0 ? 0 : kLine - past));
  }

 private:
  static constexpr std::size_t kLine = 64;
  std::vector<std::byte> bytes_;
};

struct Table {
  DType dtype;
  std::int64_t vocab;
  Aligned data;

  Table(DType dtype_, std::int64_t vocab_)
      : dtype(dtype_), vocab(vocab_), data(static_cast<std::size_t>(vocab * kWidth) * size_of(dtype)) {
    for (std::int64_t n = 0; n < vocab; ++n) {
      const std::vector<float> row = values(kWidth, static_cast<std::uint64_t>(8 + n));
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::size_t at = static_cast<std::size_t>(n * kWidth) + i;
        if (dtype == DType::f32) data.as<float>()[at] = row[i];
        if (dtype == DType::f16) data.as<Half>()[at] = half_from_f32(row[i]);
        if (dtype == DType::bf16) data.as<BFloat16>()[at] = bfloat16_from_f32(row[i]);
      }
    }
  }
  [[nodiscard]] double at(std::size_t i) {
    if (dtype == DType::f16) return static_cast<double>(f32_from(data.as<Half>()[i]));
    if (dtype == DType::bf16) return static_cast<double>(f32_from(data.as<BFloat16>()[i]));
    return static_cast<double>(data.as<float>()[i]);
  }
};

struct Data {
  Kind kind;
  std::shared_ptr<Table> table;
  std::int64_t vocab;
  Aligned x;
  std::vector<float> out;

  Data(const Kind& kind_, std::shared_ptr<Table> table_)
      : kind(kind_),
        table(std::move(table_)),
        vocab(table->vocab),
        x(static_cast<std::size_t>(kind.tokens * kWidth) * sizeof(float)),
        out(static_cast<std::size_t>(kind.tokens * vocab)) {
    const std::vector<float> xs = values(static_cast<std::size_t>(kind.tokens * kWidth), 6);
    std::memcpy(x.as<float>(), xs.data(), xs.size() * sizeof(float));
  }
  [[nodiscard]] Matrix matrix() {
    return locant::matrix(TensorRef(table->data.as<void>(), kind.dtype, {vocab, kWidth}));
  }
  [[nodiscard]] View<const float, 2> rows() { return {x.as<float>(), {kind.tokens, kWidth}}; }
  [[nodiscard]] ProjectCall call() {
    return {.x = rows(),
            .weight = matrix(),
            .bias = {},
            .scale = 1,
            .write = Write::replace,
            .activations = kind.activations,
            .out = {out.data(), {kind.tokens, vocab}}};
  }
};

double error_of(Data& data) {
  double worst = 0;
  constexpr std::int64_t kEvery = 61;  // a sample of the vocabulary
  for (std::int64_t t = 0; t < data.kind.tokens; t += 3) {
    for (std::int64_t n = 0; n < data.vocab; n += kEvery) {
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < kWidth; ++k) {
        const double term = static_cast<double>(data.x.as<float>()[t * kWidth + k]) *
                            data.table->at(static_cast<std::size_t>(n * kWidth + k));
        sum += term;
        size += std::fabs(term);
      }
      const double got = static_cast<double>(data.out[static_cast<std::size_t>(t * data.vocab + n)]);
      worst = std::max(worst, std::fabs(got - sum) / size);
    }
  }
  return worst / (data.kind.activations == Activations::bf16 ? budgets::kProjectBf16 : budgets::kProject);
}

// One row streams the table, many are bound by arithmetic.
Row described(const Data& data, std::string operation) {
  const Kind& kind = data.kind;
  const bool streams = kind.tokens == 1;
  const std::int64_t bytes = data.vocab * kWidth * static_cast<std::int64_t>(size_of(kind.dtype));
  const bool rounds = kind.activations != Activations::f32;
  return {.number = kind.number,
          .avx2 = kind.avx2,
          .avx512 = kind.avx512,
          .operation = std::move(operation),
          .shape = fmt::format("{} rows, {} of {}", kind.tokens, data.vocab, kWidth),
          .dtype = fmt::format("{}{}{}", name_of(kind.dtype), rounds ? " x " : "",
                               rounds ? name_of(kind.activations) : ""),
          .limit = streams                                 ? Limit::read
                   : kind.activations == Activations::bf16 ? Limit::amx_bf16
                                                           : Limit::fma,
          .amount = streams
                        ? static_cast<double>(bytes)
                        : 2.0 * static_cast<double>(kind.tokens) * static_cast<double>(data.vocab * kWidth),
          .working_set = bytes,
          .run = {},
          .error = {},
          .peer = {}};
}

// The product alone.
Row bare_row(ThreadPool& pool, const Kind& kind, std::shared_ptr<Table> table) {
  auto data = std::make_shared<Data>(kind, std::move(table));
  Row row = described(*data, kOperation);
  row.run = [data, call = data->call(), &pool] { project(call, pool); };
  row.error = [data] { return error_of(*data); };
  return row;
}

Row row_of(ThreadPool& pool, const Kind& kind, std::shared_ptr<Table> table) {
  Row row = bare_row(pool, kind, std::move(table));
  row.peer = fmt::format(R"({{"op": "head", "tokens": {}, "vocab": {}, "width": {}, "dtype": "{}"}})",
                         kind.tokens, kVocab, kWidth, name_of(kind.dtype));
  return row;
}

struct Fused {
  Data data;
  HeadSpace space;
  std::vector<Candidate> candidates;
  std::vector<double> sums;
  std::vector<double> draws;
  std::vector<std::int64_t> drawn;

  Fused(const Kind& kind, std::shared_ptr<Table> table)
      : data(kind, std::move(table)),
        space(kind.tokens, kLargeVocab, kCandidates),
        candidates(static_cast<std::size_t>(kind.tokens * kCandidates)),
        sums(static_cast<std::size_t>(kind.tokens)),
        draws(sums.size(), 0.5),
        drawn(sums.size()) {}
  void run(ThreadPool& pool) {
    head({.x = data.rows(),
          .weight = data.matrix(),
          .log_sum_exp = {sums.data(), {data.kind.tokens}},
          .candidates = {candidates.data(), {data.kind.tokens, kCandidates}},
          .draws = {draws.data(), {data.kind.tokens}},
          .drawn = {drawn.data(), {data.kind.tokens}}},
         space, pool);
  }
  // Candidates are those of logits in memory, the sum is within its bound of theirs, and so is the draw.
  [[nodiscard]] double error(ThreadPool& pool) {
    project(data.call(), pool);
    double worst = 0;
    for (std::int64_t t = 0; t < data.kind.tokens; ++t) {
      const View<const float, 1> logits(data.out.data() + t * kLargeVocab, {kLargeVocab});
      std::vector<Candidate> best(kCandidates);
      top_candidates(logits, best);
      for (std::size_t i = 0; i < best.size(); ++i) {
        if (best[i].id != candidates[static_cast<std::size_t>(t * kCandidates) + i].id) return 2;
      }
      const double expected = log_sum_exp(logits);
      worst = std::max(worst, std::fabs(sums[static_cast<std::size_t>(t)] - expected) / std::fabs(expected));
      double share = -draws[static_cast<std::size_t>(t)];  // of what comes before the id drawn
      for (std::int64_t id = 0; id < drawn[static_cast<std::size_t>(t)]; ++id)
        share += std::exp(static_cast<double>(logits(id)) - expected);
      const double own = std::exp(static_cast<double>(logits(drawn[static_cast<std::size_t>(t)])) - expected);
      if (share > budgets::kDrawnShare || share + own < -budgets::kDrawnShare) return 2;
    }
    return worst / budgets::kLogSumExp;
  }
};

Row fused_row(ThreadPool& pool, const Kind& kind, std::shared_ptr<Table> table) {
  auto data = std::make_shared<Fused>(kind, std::move(table));
  Row row = described(data->data, kFusedOperation);
  row.run = [data, &pool] { data->run(pool); };
  row.error = [data, &pool] { return data->error(pool); };
  return row;
}

// Weights that rows share, made for the first of them.
class Tables {
 public:
  std::shared_ptr<Table> get(DType dtype, std::int64_t vocab) {
    std::shared_ptr<Table>& found = made_[{dtype, vocab}];
    if (found == nullptr) found = std::make_shared<Table>(dtype, vocab);
    return found;
  }

 private:
  std::map<std::pair<DType, std::int64_t>, std::shared_ptr<Table>> made_;
};

}  // namespace

void head_rows(ThreadPool& pool, RowPlans& plans) {
  constexpr auto kPairs = Activations::bf16;
  constexpr auto kPlain = Activations::f32;
  const auto tables = std::make_shared<Tables>();
  for (const Kind& kind : {
           Kind{1, DType::f32, kPlain, 14, {1.0, 97}, {1.0, 95}},
           Kind{1, DType::f16, kPlain, 14, {1.2, 0}, {1.0, 0}},
           Kind{1, DType::bf16, kPlain, 14, {1.3, 0}, {1.2, 0}},
           Kind{1, DType::bf16, kPairs, 14, {1.3, 0}, {1.2, 0}},
           Kind{8, DType::f32, kPlain, 16, {1.9, 0}, {1.45, 0}},
           Kind{8, DType::f16, kPlain, 16, {1.4, 0}, {2.7, 0}},
           Kind{8, DType::bf16, kPlain, 16},
           Kind{8, DType::bf16, kPairs, 16},
           Kind{64, DType::f32, kPlain, 17, {1.35, 0}, {1.3, 0}},
           Kind{64, DType::f16, kPlain, 17, {1.1, 0}, {1.3, 0}},
           Kind{64, DType::bf16, kPlain, 17, {1.7, 0}, {1.8, 0}},
           Kind{64, DType::bf16, kPairs, 17, {1.7, 0}, {1.8, 0}},
           Kind{256, DType::f32, kPlain, 18, {1.2, 0}, {1.08, 0}},
           Kind{256, DType::bf16, kPlain, 18, {1.3, 0}, {1.5, 0}},
           Kind{256, DType::bf16, kPairs, 18, {1.3, 0}, {1.5, 0}},
       }) {
    plans.push_back({kind.number, kOperation,
                     [&pool, kind, tables] { return row_of(pool, kind, tables->get(kind.dtype, kVocab)); }});
  }
  for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{8}}) {
    const Kind kind{.tokens = tokens, .dtype = DType::bf16, .number = 19};
    for (const auto& [operation, make] : {std::pair{kOperation, &bare_row}, {kFusedOperation, &fused_row}}) {
      plans.push_back({kind.number, operation, [&pool, kind, tables, make = make] {
                         return make(pool, kind, tables->get(kind.dtype, kLargeVocab));
                       }});
    }
  }
}

}  // namespace locant::bench
