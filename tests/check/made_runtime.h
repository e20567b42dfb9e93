// SPDX-License-Identifier: Apache-2.0
// A small Transformer in double and plain loops that is a live runtime, with faults put in on purpose and
// rounding of three kinds. Nothing here is the checker's code, nor the kernels'.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "locant/core.h"
#include "locant/runtime.h"

namespace locant::tests {

/// A token of a call, as the runtime could know it.
struct LiveToken {
  std::int64_t layer = 0, row = 0, rows = 1;
  std::int64_t token = 0, tokens = 1;         ///< in its call
  std::int64_t call = 0;                      ///< of its session
  std::int64_t due = 0;                       ///< content before it in its row (and document)
  std::int64_t pads = 0, first_row_pads = 0;  ///< padding before it in its row; all so far in row 0
  std::int64_t column = 0;                    ///< everything before it in its row
  std::int64_t prompt = 0;                    ///< columns of the first call
  std::int64_t capacity = 0;
  std::int64_t runs = 0;      ///< sessions opened on the runtime
  std::int64_t longest = 0;   ///< tokens of the longest row that the runtime ever saw
  bool masked = false;        ///< the call has a mask
  std::int64_t together = 0;  ///< tokens fed in all sessions since the last first call
};

/// A key beside a query: columns of one row.
struct LivePair {
  std::int64_t query = 0, key = 0;  ///< columns
  std::int64_t distance = 0;        ///< content from the key to the query
  std::int64_t call_start = 0, tokens = 1, call = 0;
  bool content = true;  ///< the key is no padding
  bool same_document = true;
};

enum class Mechanism : std::uint8_t { rope, alibi, learned, none };
enum class Rounded : std::uint8_t { f64, f32, bf16, bf16_but_logits };

/// What the runtime is, and what it does wrong; every function has the right answer as its default.
struct MadeBehaviour {
  Mechanism mechanism = Mechanism::rope;
  std::int64_t layers = 2;
  std::int64_t window = 0;
  std::int64_t rows = 160;  ///< of the learned table
  std::uint32_t seed = 1;
  Rounded rounded = Rounded::f64;
  bool cache_bf16 = false;  ///< keys and values of earlier calls are kept in 16 bits
  bool with_positions = true;
  bool with_fork = true;
  bool with_documents = true;
  std::function<std::int64_t(const LiveToken&)> position = [](const LiveToken& at) { return at.due; };
  bool reads_given = true;
  std::function<double(const LiveToken&)> stretch = [](const LiveToken&) {
    return 1.0;
  };  ///< of angles, slopes
  std::function<double(double)> narrow = [](double place) { return place; };
  std::function<bool(bool, const LivePair&)> sees = [](bool due, const LivePair&) { return due; };
  std::function<bool(const LiveToken&)> writes = [](const LiveToken&) { return true; };
  bool fork_shares = false;
  double residue = 0;  ///< of the position itself, added to the token state
};

class MadeRuntime final : public Runtime {
 public:
  static constexpr std::int64_t kVocab = 61, kHidden = 24, kHeads = 3, kWidth = 8, kInner = 32;

  explicit MadeRuntime(MadeBehaviour behaviour) : made_(std::move(behaviour)), random_(made_.seed) {
    embedding_ = draw(kVocab * kHidden, 1);
    table_ = draw(made_.rows * kHidden, 0.7);
    head_ = draw(kVocab * kHidden, 1.2 / std::sqrt(kHidden));
    for (std::int64_t l = 0; l < made_.layers; ++l) {
      Layer layer;
      for (auto* const matrix : {&layer.q, &layer.k, &layer.v, &layer.o})
        *matrix = draw(kHidden * kHidden, 1.6 / std::sqrt(kHidden));
      layer.up = draw(kInner * kHidden, 1.2 / std::sqrt(kHidden));
      layer.down = draw(kHidden * kInner, 1.2 / std::sqrt(kInner));
      layers_.push_back(std::move(layer));
    }
  }

  [[nodiscard]] std::string name() const override { return "made"; }
  [[nodiscard]] std::int64_t vocab() const override { return kVocab; }
  [[nodiscard]] bool takes_documents() const override { return made_.with_documents; }
  [[nodiscard]] std::unique_ptr<RuntimeSession> open(std::int64_t capacity) override {
    ++runs_;
    return std::make_unique<Session>(*this, std::make_shared<State>(State{.capacity = capacity, .rows = {}}));
  }

 private:
  using Numbers = std::vector<double>;
  struct Layer {
    Numbers q, k, v, o, up, down;
  };
  struct Column {
    bool content = true;
    std::int64_t document = 0;
    std::int64_t order = 0;  ///< content before it
  };
  struct Row {
    std::vector<Column> columns;
    std::vector<std::vector<Numbers>> keys, values;  ///< [layer][column]
    std::vector<std::vector<double>> places;         ///< [layer][column]
    std::int64_t content = 0;
  };
  struct State {
    std::int64_t capacity = 0, calls = 0, prompt = 0;
    std::vector<Row> rows;
  };

  class Session final : public RuntimeSession {
   public:
    Session(MadeRuntime& runtime, std::shared_ptr<State> state)
        : runtime_(runtime), state_(std::move(state)) {}
    void forward(const ForwardCall& call, View<float, 3> logits) override {
      runtime_.run(*state_, call, logits);
    }
    [[nodiscard]] std::unique_ptr<RuntimeSession> fork() const override {
      if (!runtime_.made_.with_fork) return nullptr;
      return std::make_unique<Session>(
          runtime_, runtime_.made_.fork_shares ? state_ : std::make_shared<State>(*state_));
    }

   private:
    MadeRuntime& runtime_;
    std::shared_ptr<State> state_;
  };

  Numbers draw(std::int64_t count, double deviation) {
    std::normal_distribution<double> normal(0, deviation);
    Numbers numbers(static_cast<std::size_t>(count));
    for (double& number : numbers) number = normal(random_);
    return numbers;
  }

  /// Rounding that falls elsewhere for calls of another shape, as the sums of other kernels do.
  [[nodiscard]] double round(double x, std::int64_t shape, std::size_t place) const {
    if (made_.rounded == Rounded::f64) return x;
    std::uint64_t hash = (static_cast<std::uint64_t>(shape) * 1000003U + place) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29U;
    hash *= 0xBF58476D1CE4E5B9ULL;
    const double noise = static_cast<double>(hash >> 11U) * 0x1p-52 - 1;
    const bool single = made_.rounded == Rounded::f32;
    const auto moved = static_cast<float>(x * (1 + noise * 0x1p-23));
    return single ? static_cast<double>(moved) : static_cast<double>(f32_from(bfloat16_from_f32(moved)));
  }

  Numbers times(const Numbers& matrix, const Numbers& x, std::int64_t shape) const {
    const std::size_t columns = x.size();
    Numbers y(matrix.size() / columns);
    for (std::size_t i = 0; i < y.size(); ++i) {
      for (std::size_t j = 0; j < columns; ++j) y[i] += matrix[i * columns + j] * x[j];
      y[i] = round(y[i], shape, i);
    }
    return y;
  }

  Numbers normed(const Numbers& x, std::int64_t shape) const {
    double squares = 1e-6;
    for (const double value : x) squares += value * value / static_cast<double>(x.size());
    Numbers y(x);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = round(y[i] / std::sqrt(squares), shape, i);
    return y;
  }

  static void turn(Numbers& x, double position, double stretch) {
    constexpr std::size_t kPairs = kWidth / 2;
    for (std::size_t head = 0; head < kHeads; ++head) {
      for (std::size_t i = 0; i < kPairs; ++i) {
        const double angle =
            position * stretch * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(kPairs));
        double& a = x[head * kWidth + i];
        double& b = x[head * kWidth + kPairs + i];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = turned;
      }
    }
  }

  void add_positions(Numbers& x, double position) const {
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] += made_.residue * std::sin(position * (1 + static_cast<double>(i)) / 7);
    if (made_.mechanism != Mechanism::learned) return;
    const auto row = static_cast<std::int64_t>(position);
    if (row < 0 || row >= made_.rows)
      throw std::out_of_range("made: position " + std::to_string(row) + " has no row");
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += table_[static_cast<std::size_t>(row) * kHidden + i];
  }

  void check(const State& state, const ForwardCall& call) const {
    if (call.positions && (!made_.with_positions || call.positions->extent(0) != 1))
      throw SpecError("made: positions must not be given");
    if (call.documents && !made_.with_documents) throw SpecError("made: documents must not be given");
    const std::int64_t held =
        state.rows.empty() ? 0 : static_cast<std::int64_t>(state.rows[0].columns.size());
    if (held + call.ids.extent(1) > state.capacity) throw std::out_of_range("made: past the capacity");
    if (call.mask && call.mask->extent(1) != call.ids.extent(1) &&
        call.mask->extent(1) != held + call.ids.extent(1))
      throw SpecError("made: mask of another width");
  }

  void run(State& state, const ForwardCall& call, View<float, 3> logits) {
    check(state, call);
    const std::int64_t B = call.ids.extent(0);
    const std::int64_t T = call.ids.extent(1);
    if (state.rows.empty()) {
      Row row;
      row.keys.resize(layers_.size());
      row.values.resize(layers_.size());
      row.places.resize(layers_.size());
      state.rows.assign(static_cast<std::size_t>(B), row);
      state.prompt = T;
      together_ = 0;
    }
    for (std::int64_t b = 0; b < B; ++b) run_row(state, call, b, logits);
    ++state.calls;
    together_ += T;
  }

  void run_row(State& state, const ForwardCall& call, std::int64_t b, View<float, 3> logits) {
    Row& row = state.rows[static_cast<std::size_t>(b)];
    const std::int64_t B = call.ids.extent(0);
    const std::int64_t T = call.ids.extent(1);
    const auto start = static_cast<std::int64_t>(row.columns.size());
    const std::int64_t shape = B * T;
    std::vector<Numbers> x;
    std::vector<LiveToken> tokens;
    std::int64_t document_start = row.content;
    for (std::int64_t t = 0; t < T; ++t) {
      Column column;
      if (call.mask) column.content = (*call.mask)(b, call.mask->extent(1) - T + t) != 0;
      if (call.documents) column.document = (*call.documents)(b, t);
      if (t > 0 && column.document != row.columns.back().document) document_start = row.content;
      LiveToken at{.row = b,
                   .rows = B,
                   .token = t,
                   .tokens = T,
                   .call = state.calls,
                   .column = start + t,
                   .prompt = state.prompt,
                   .capacity = state.capacity,
                   .runs = runs_,
                   .longest = longest_,
                   .together = together_ + t};
      at.pads = start + t - row.content;
      at.masked = call.mask.has_value();
      const Row& first = state.rows.front();
      at.first_row_pads = b == 0 ? at.pads : static_cast<std::int64_t>(first.columns.size()) - first.content;
      at.due = call.documents ? row.content - document_start : row.content;
      tokens.push_back(at);
      column.order = row.content;
      row.columns.push_back(column);
      if (column.content) ++row.content;
      const auto id = static_cast<std::size_t>(call.ids(b, t));
      x.emplace_back(embedding_.begin() + static_cast<std::ptrdiff_t>(id * kHidden),
                     embedding_.begin() + static_cast<std::ptrdiff_t>((id + 1) * kHidden));
      add_positions(x.back(), column.content ? place(call, b, at) : 0);
    }
    longest_ = std::max(longest_, row.content);
    for (LiveToken& at : tokens) at.longest = longest_;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      std::vector<Numbers> queries;
      const std::size_t old = row.keys[l].size();
      for (std::size_t t = 0; t < x.size(); ++t) {
        tokens[t].layer = static_cast<std::int64_t>(l);
        const Numbers h = normed(x[t], shape);
        Numbers q = times(layers_[l].q, h, shape);
        Numbers k = times(layers_[l].k, h, shape);
        const double position =
            row.columns[static_cast<std::size_t>(start) + t].content ? place(call, b, tokens[t]) : 0;
        if (made_.mechanism == Mechanism::rope) {
          turn(q, position, made_.stretch(tokens[t]));
          turn(k, position, made_.stretch(tokens[t]));
        }
        queries.push_back(std::move(q));
        row.keys[l].push_back(std::move(k));
        row.values[l].push_back(times(layers_[l].v, h, shape));
        row.places[l].push_back(position);
      }
      for (std::size_t t = 0; t < x.size(); ++t) {
        Numbers mixed = attend(row, l, queries[t], start, tokens[t]);
        for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i] = round(mixed[i], shape, i);
        const Numbers out = times(layers_[l].o, mixed, shape);
        for (std::size_t i = 0; i < out.size(); ++i) x[t][i] = round(x[t][i] + out[i], shape, i);
        Numbers inner = times(layers_[l].up, normed(x[t], shape), shape);
        for (double& value : inner) value = std::tanh(value);
        const Numbers down = times(layers_[l].down, inner, shape);
        for (std::size_t i = 0; i < down.size(); ++i) x[t][i] = round(x[t][i] + down[i], shape, i);
      }
      if (made_.cache_bf16) {
        for (std::size_t c = old; c < row.keys[l].size(); ++c) {
          for (Numbers* const kept : {&row.keys[l][c], &row.values[l][c]}) {
            for (double& value : *kept) value = f32_from(bfloat16_from_f32(static_cast<float>(value)));
          }
        }
      }
    }
    for (std::int64_t t = 0; t < T; ++t) {
      const bool content = row.columns[static_cast<std::size_t>(start + t)].content;
      const Numbers h = normed(x[static_cast<std::size_t>(t)], shape);
      for (std::int64_t v = 0; v < kVocab; ++v) {
        double sum = 0;
        for (std::size_t i = 0; i < h.size(); ++i)
          sum += head_[static_cast<std::size_t>(v) * kHidden + i] * h[i];
        if (made_.rounded != Rounded::bf16_but_logits) sum = round(sum, shape, static_cast<std::size_t>(v));
        if (!content) sum = std::numeric_limits<double>::quiet_NaN();
        logits(b, t, v) = made_.writes(tokens[static_cast<std::size_t>(t)]) ? static_cast<float>(sum) : 0.0F;
      }
    }
  }

  [[nodiscard]] double place(const ForwardCall& call, std::int64_t b, const LiveToken& at) const {
    const bool given = call.positions && made_.reads_given;
    return made_.narrow(static_cast<double>(given ? (*call.positions)(0, b, at.token) : made_.position(at)));
  }

  [[nodiscard]] Numbers attend(const Row& row, std::size_t l, const Numbers& q, std::int64_t start,
                               const LiveToken& at) const {
    const auto query = static_cast<std::size_t>(at.column);
    const std::size_t columns = row.columns.size();
    Numbers out(kHidden, 0.0);
    for (std::size_t head = 0; head < kHeads; ++head) {
      Numbers weights(columns, 0.0);
      double sum = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        const Column& key = row.columns[c];
        const LivePair pair{.query = at.column,
                            .key = static_cast<std::int64_t>(c),
                            .distance = row.columns[query].order - key.order,
                            .call_start = start,
                            .tokens = at.tokens,
                            .call = at.call,
                            .content = key.content,
                            .same_document = key.document == row.columns[query].document};
        const bool due = c <= query && key.content && pair.same_document &&
                         (made_.window == 0 || pair.distance < made_.window);
        if (!made_.sees(due, pair)) continue;
        double score = 0;
        for (std::size_t i = 0; i < kWidth; ++i)
          score += q[head * kWidth + i] * row.keys[l][c][head * kWidth + i];
        score /= std::sqrt(static_cast<double>(kWidth));
        if (made_.mechanism == Mechanism::alibi)
          score -= made_.stretch(at) * std::pow(2.0, -8.0 * static_cast<double>(head + 1) / kHeads) *
                   (row.places[l][query] - row.places[l][c]);
        weights[c] = std::exp(score);
        sum += weights[c];
      }
      for (std::size_t c = 0; c < columns; ++c) {
        if (weights[c] == 0) continue;
        for (std::size_t i = 0; i < kWidth; ++i)
          out[head * kWidth + i] += weights[c] / sum * row.values[l][c][head * kWidth + i];
      }
    }
    return out;
  }

  MadeBehaviour made_;
  std::mt19937 random_;
  Numbers embedding_, table_, head_;
  std::vector<Layer> layers_;
  std::int64_t runs_ = 0, longest_ = 0, together_ = 0;
};

}  // namespace locant::tests
