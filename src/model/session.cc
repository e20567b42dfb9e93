// SPDX-License-Identifier: Apache-2.0
// Session: validates a call whole, then cuts it into passes that the workspace holds.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "model/forward.h"
#include "model/state.h"

namespace locant {
namespace {

// Sums and differences of positions stay exact in 64 bits and in double.
constexpr std::int64_t kFarthestPosition = 1LL << 52;

std::int64_t position_of(const Session::State& state, const FeedCall& call, std::int64_t row,
                         std::int64_t token, std::int64_t index) {
  if (call.positions.empty()) return state.next_position[static_cast<std::size_t>(row)] + token;
  return call.positions[static_cast<std::size_t>(index)];
}

void check_tokens(const Session::State& state, const FeedCall& call) {
  const ModelSpec& spec = state.model.spec;
  std::int64_t index = 0;
  for (std::int64_t row = 0; row < state.options.rows; ++row) {
    for (std::int64_t t = 0; t < call.row_tokens[static_cast<std::size_t>(row)]; ++t, ++index) {
      const std::int64_t id = call.ids[static_cast<std::size_t>(index)];
      const std::int64_t position = position_of(state, call, row, t, index);
      if (id < 0 || id >= spec.vocab) {
        throw std::out_of_range(fmt::format("run: token {} at row {}, position {} is outside vocab {}", id,
                                            row, position, spec.vocab));
      }
      for (const PositionEmbedding& embedding : state.model.plan.embedding)
        (void)table_row(embedding, position);
    }
  }
}

// Everything a call can get wrong, before a byte changes.
void check(const Session::State& state, const FeedCall& call) {
  const std::int64_t rows = state.options.rows;
  if (static_cast<std::int64_t>(call.row_tokens.size()) != rows) {
    throw SpecError(fmt::format("run: row_tokens must have one count for each of the {} rows, got {}", rows,
                                call.row_tokens.size()));
  }
  std::int64_t total = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t tokens = call.row_tokens[static_cast<std::size_t>(row)];
    if (tokens < 0)
      throw SpecError(fmt::format("run: row {} must have 0 tokens or more, got {}", row, tokens));
    if (tokens > state.cache.capacity() - state.cache.tokens(row)) {
      throw std::out_of_range(
          fmt::format("run: row {} must fit the cache of {} tokens, it holds {} and got {} more", row,
                      state.cache.capacity(), state.cache.tokens(row), tokens));
    }
    total += tokens;
  }
  const auto count = static_cast<std::int64_t>(call.ids.size());
  if (count != total)
    throw SpecError(fmt::format("run: ids must have the {} tokens of the rows, got {}", total, count));
  if (call.axes != 1 && call.axes != axes_of(state.model.plan)) {
    throw SpecError(fmt::format("run: positions must have 1 or {} axes for this model, got {}",
                                axes_of(state.model.plan), call.axes));
  }
  if (!call.positions.empty() && static_cast<std::int64_t>(call.positions.size()) != call.axes * count) {
    throw SpecError(fmt::format("run: positions must be [{}, {}], got {} values", call.axes, count,
                                call.positions.size()));
  }
  for (const std::int64_t position : call.positions) {
    if (position < -kFarthestPosition || position > kFarthestPosition) {
      throw std::out_of_range(fmt::format("run: position {} is outside +-{}", position, kFarthestPosition));
    }
  }
  check_tokens(state, call);
}

}  // namespace

Session::State::State(const Model::State& model_, const SessionOptions& options_)
    : model(model_),
      options(options_),
      cache(model_.spec, options_),
      work(model_, options_.rows, Workspace::pass_tokens(options_)),
      next_position(static_cast<std::size_t>(options_.rows), 0) {}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;

std::int64_t Session::rows() const noexcept {
  return state_->options.rows;
}
std::int64_t Session::capacity() const noexcept {
  return state_->options.capacity;
}
std::int64_t Session::tokens(std::int64_t row) const {
  return state_->cache.tokens(row);
}
std::int64_t Session::next_position(std::int64_t row) const {
  return state_->next_position[static_cast<std::size_t>(row)];
}

namespace {

// Walks a checked call in passes of what the workspace holds.
class Feeder {
 public:
  Feeder(Session::State& state, Workspace& work, const FeedCall& call, LogitsOf wanted,
         const LogitsReader& reader)
      : state_(state),
        work_(work),
        call_(call),
        wanted_(wanted),
        reader_(reader),
        axes_(axes_of(state.model.plan)) {}

  void run() {
    while (row_ < state_.options.rows) {
      cut_pass();
      if (count_ > 0) run_pass();
    }
    if (wanted_ == LogitsOf::last_of_row) head_of(work_.last.rows(0, ended_), 0);
  }

 private:
  // The next pass: up to work_.tokens tokens, row after row.
  void cut_pass() {
    work_.segments.clear();
    count_ = 0;
    while (row_ < state_.options.rows && count_ < work_.tokens) {
      const std::int64_t left = call_.row_tokens[static_cast<std::size_t>(row_)] - taken_;
      const std::int64_t tokens = std::min(left, work_.tokens - count_);
      if (tokens > 0) {
        work_.segments.push_back(
            {.row = row_, .first = count_, .tokens = tokens, .past = state_.cache.tokens(row_)});
        count_ += tokens;
        taken_ += tokens;
      }
      if (tokens == left) {
        ++row_;
        taken_ = 0;
      }
    }
  }

  void run_pass() {
    const View<std::int64_t, 2> positions(work_.positions.data(), {axes_, count_});
    place_positions(positions);
    const Pass pass{
        .ids = call_.ids.subspan(static_cast<std::size_t>(fed_), static_cast<std::size_t>(count_)),
        .positions = positions,
        .segments = work_.segments};
    if (state_.trace == nullptr) {
      run_blocks(state_.model, state_.cache, work_, pass, nullptr);
    } else {
      TracePass trace(*state_.trace, state_.padding, work_.segments, state_.options.rows);
      state_.trace->begin_pass();
      trace.tokens(pass.ids, positions, state_.model.spec.embedding.padding_id.value_or(0));
      run_blocks(state_.model, state_.cache, work_, pass, &trace);
      trace_logits(trace);
    }
    for (const Segment& segment : work_.segments) {
      state_.cache.set_tokens(segment.row, segment.past + segment.tokens);
    }
    deliver();
    fed_ += count_;
  }

  void place_positions(View<std::int64_t, 2> positions) {
    const auto total = static_cast<std::int64_t>(call_.ids.size());
    for (const Segment& segment : work_.segments) {
      std::int64_t& next = state_.next_position[static_cast<std::size_t>(segment.row)];
      const View<std::int64_t, 1> slots = state_.cache.positions(segment.row);
      std::int64_t largest = next - 1;
      for (std::int64_t t = 0; t < segment.tokens; ++t) {
        for (std::int64_t axis = 0; axis < axes_; ++axis) {
          // one axis given serves all: text has equal positions on every axis
          const std::int64_t from = call_.axes == 1 ? 0 : axis;
          const std::int64_t position =
              call_.positions.empty()
                  ? next + t
                  : call_.positions[static_cast<std::size_t>(from * total + fed_ + segment.first + t)];
          positions(axis, segment.first + t) = position;
          largest = std::max(largest, position);
        }
        slots(segment.past + t) = positions(0, segment.first + t);
      }
      next = largest + 1;
    }
  }

  void deliver() {
    if (wanted_ == LogitsOf::all) {
      head_of(work_.normed.rows(0, count_), fed_);
      return;
    }
    const std::int64_t hidden = state_.model.spec.hidden;
    for (const Segment& segment : work_.segments) {
      const bool ends = segment.row < row_;
      if (!ends) continue;
      const float* const from = &work_.normed(segment.first + segment.tokens - 1, 0);
      std::copy(from, from + hidden, &work_.last(ended_, 0));
      ++ended_;
    }
  }

  void head_of(View<const float, 2> rows, std::int64_t first_token) {
    for (std::int64_t first = 0; first < rows.extent(0); first += work_.logit_rows) {
      const std::int64_t count = std::min(work_.logit_rows, rows.extent(0) - first);
      const View<float, 2> logits = work_.logits.rows(0, count);
      run_head(state_.model, rows.rows(first, count), logits);
      reader_(first_token + first, logits);
    }
  }

  void trace_logits(TracePass& trace) {
    const std::int64_t vocab = state_.model.spec.vocab;
    std::vector<float> logits(static_cast<std::size_t>(count_ * vocab));
    const View<float, 2> view(logits.data(), {count_, vocab});
    run_head(state_.model, work_.normed.rows(0, count_), view);
    trace.record(trace_names::kLogits, view);
  }

  Session::State& state_;
  Workspace& work_;
  const FeedCall& call_;
  LogitsOf wanted_;
  const LogitsReader& reader_;
  std::int64_t axes_;
  std::int64_t row_ = 0;    // the row that the next pass begins in
  std::int64_t taken_ = 0;  // its tokens already passed
  std::int64_t fed_ = 0;    // tokens of the call already passed
  std::int64_t count_ = 0;  // tokens of this pass
  std::int64_t ended_ = 0;  // rows whose last token has passed
};

}  // namespace

void Session::feed(const FeedCall& call, LogitsOf wanted, const LogitsReader& reader) {
  check(*state_, call);
  const auto total = static_cast<std::int64_t>(call.ids.size());
  if (state_->trace != nullptr && total > state_->work.tokens) {
    // A trace shows one pass as one: the workspace grows for it.
    Workspace whole(state_->model, state_->options.rows, total);
    Feeder(*state_, whole, call, wanted, reader).run();
    return;
  }
  Feeder(*state_, state_->work, call, wanted, reader).run();
}

void Session::set_trace(TraceSink* sink, Padding padding) {
  state_->trace = sink;
  state_->padding = padding;
}

std::unique_ptr<RuntimeSession> Session::fork() const {
  auto copy = std::make_unique<State>(state_->model, state_->options);
  copy->cache.copy_from(state_->cache);
  copy->next_position = state_->next_position;
  return std::unique_ptr<RuntimeSession>(new Session(std::move(copy)));
}

}  // namespace locant
