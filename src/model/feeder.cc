// SPDX-License-Identifier: Apache-2.0
#include "model/feeder.h"

#include <fmt/format.h>

#include <algorithm>

namespace locant {
namespace {

// Sums and differences of positions stay exact in 64 bits and in double.
constexpr std::int64_t kFarthestPosition = 1LL << 52;

std::int64_t position_of(const Lane& lane, const FeedCall& call, std::int64_t row, std::int64_t token,
                         std::int64_t index) {
  if (call.positions.empty()) return lane.next_position[static_cast<std::size_t>(row)] + token;
  return call.positions[static_cast<std::size_t>(index)];
}

void check_tokens(const Lane& lane, const FeedCall& call) {
  const ModelSpec& spec = lane.model.spec;
  std::int64_t index = 0;
  for (std::int64_t row = 0; row < lane.cache.rows(); ++row) {
    for (std::int64_t t = 0; t < call.row_tokens[static_cast<std::size_t>(row)]; ++t, ++index) {
      const std::int64_t id = call.ids[static_cast<std::size_t>(index)];
      const std::int64_t position = position_of(lane, call, row, t, index);
      if (id < 0 || id >= spec.vocab) {
        throw std::out_of_range(fmt::format("run: token {} at row {}, position {} is outside vocab {}", id,
                                            row, position, spec.vocab));
      }
      for (const PositionEmbedding& embedding : lane.stack.plan.embedding) {
        if (embedding.form != EmbeddingForm::token_types) {
          (void)table_row(embedding, position);
        } else if (const std::int64_t type =
                       call.types.empty() ? 0 : call.types[static_cast<std::size_t>(index)];
                   type < 0 || type >= embedding.rows) {
          throw std::out_of_range(
              fmt::format("run: token type {} at row {}, position {} is outside the {} types", type, row,
                          position, embedding.rows));
        }
      }
    }
  }
}

// Walks a checked call in passes of what the workspace holds.
class Feeder {
 public:
  Feeder(Session::State& state, const Lane& lane, Workspace& work, const FeedCall& call, const Wanted& wanted)
      : state_(state),
        lane_(lane),
        work_(work),
        call_(call),
        wanted_(wanted),
        axes_(axes_of(lane.stack.plan)) {}

  void run(std::vector<Plan>& row_plans) {
    plan_rows(row_plans);
    while (row_ < lane_.cache.rows()) {
      cut_pass(row_plans);
      if (count_ > 0) run_pass();
    }
    if (wanted_.logits != nullptr && wanted_.logits_of == LogitsOf::last_of_row)
      head_of(work_.last.rows(0, ended_), 0);
  }

 private:
  // A plan that follows the length is that of the row's largest position when this call is done; keys of
  // earlier calls stay as they were rotated (transformers' dynamic updates).
  void plan_rows(std::vector<Plan>& row_plans) {
    if (!lane_.stack.varies) return;
    const StackPositions& positions =
        lane_.stack.is_encoder ? lane_.model.spec.others.front().positions : lane_.model.spec.positions;
    std::int64_t index = 0;
    for (std::size_t row = 0; row < row_plans.size(); ++row) {
      std::int64_t seen = lane_.next_position[row];
      for (std::int64_t t = 0; t < call_.row_tokens[row]; ++t, ++index)
        seen = std::max(seen, position_of(lane_, call_, static_cast<std::int64_t>(row), t, index) + 1);
      row_plans[row] =
          plan(positions, *lane_.model.recipe, {.seen = seen, .capacity = lane_.cache.capacity()});
    }
  }

  // The next pass: up to work_.tokens tokens, row after row; whole rows where tokens see later ones.
  void cut_pass(const std::vector<Plan>& row_plans) {
    work_.segments.clear();
    count_ = 0;
    while (row_ < lane_.cache.rows() && count_ < work_.tokens) {
      const std::int64_t left = call_.row_tokens[static_cast<std::size_t>(row_)] - taken_;
      const std::int64_t tokens = std::min(left, work_.tokens - count_);
      if (lane_.stack.is_bidirectional && tokens < left) return;
      if (tokens > 0) {
        const Plan& plan = row_plans.empty() ? lane_.stack.plan : row_plans[static_cast<std::size_t>(row_)];
        work_.segments.push_back({.row = row_,
                                  .first = count_,
                                  .tokens = tokens,
                                  .past = lane_.cache.tokens(row_),
                                  .plan = &plan});
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
    const auto first = static_cast<std::size_t>(fed_);
    const auto count = static_cast<std::size_t>(count_);
    const Pass pass{.ids = call_.ids.subspan(first, count),
                    .types = call_.types.empty() ? call_.types : call_.types.subspan(first, count),
                    .positions = positions,
                    .segments = work_.segments};
    const bool decodes = state_.model.encoder && !lane_.stack.is_encoder;
    Running running{.model = lane_.model,
                    .stack = lane_.stack,
                    .cache = lane_.cache,
                    .encoded = decodes ? &*state_.encoded : nullptr,
                    .work = work_,
                    .trace = nullptr};
    if (state_.trace == nullptr) {
      run_blocks(running, pass);
    } else {
      run_traced(running, pass);
    }
    for (const Segment& segment : work_.segments) {
      lane_.cache.set_tokens(segment.row, segment.past + segment.tokens);
    }
    deliver();
    fed_ += count_;
  }

  // An encoder's pass and the decoder's first are one pass of a trace.
  void run_traced(Running& running, const Pass& pass) {
    const bool beside = lane_.stack.is_encoder;
    TracePass trace(*state_.trace,
                    {.segments = work_.segments, .rows = lane_.cache.rows(), .padding = state_.padding},
                    trace_names::stack_prefix(beside ? Stack::encoder : Stack::decoder));
    if (!state_.traced_encoder) state_.trace->begin_pass();
    state_.traced_encoder = beside;
    trace.tokens(pass.ids, pass.positions, state_.model.spec.embedding.padding_id.value_or(0));
    running.trace = &trace;
    run_blocks(running, pass);
    if (!beside && state_.model.weights.head.there()) trace_logits(trace);
  }

  void place_positions(View<std::int64_t, 2> positions) {
    const auto total = static_cast<std::int64_t>(call_.ids.size());
    for (const Segment& segment : work_.segments) {
      std::int64_t& next = lane_.next_position[static_cast<std::size_t>(segment.row)];
      const View<std::int64_t, 1> slots = lane_.cache.positions(segment.row);
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
    if (wanted_.states != nullptr) (*wanted_.states)(fed_, work_.normed.rows(0, count_));
    if (wanted_.logits == nullptr) return;
    if (wanted_.logits_of == LogitsOf::all) {
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
      run_head(state_.model, work_, rows.rows(first, count), logits);
      (*wanted_.logits)(first_token + first, logits);
    }
  }

  void trace_logits(TracePass& trace) {
    const std::int64_t vocab = state_.model.spec.vocab;
    std::vector<float> logits(static_cast<std::size_t>(count_ * vocab));
    for (std::int64_t first = 0; first < count_; first += work_.logit_rows) {
      const std::int64_t count = std::min(work_.logit_rows, count_ - first);
      run_head(state_.model, work_, work_.normed.rows(first, count),
               View<float, 2>(logits.data() + first * vocab, {count, vocab}));
    }
    trace.record(trace_names::kLogits, View<const float, 2>(logits.data(), {count_, vocab}));
  }

  Session::State& state_;
  const Lane& lane_;
  Workspace& work_;
  const FeedCall& call_;
  const Wanted& wanted_;
  std::int64_t axes_;
  std::int64_t row_ = 0;    // the row that the next pass begins in
  std::int64_t taken_ = 0;  // its tokens already passed
  std::int64_t fed_ = 0;    // tokens of the call already passed
  std::int64_t count_ = 0;  // tokens of this pass
  std::int64_t ended_ = 0;  // rows whose last token has passed
};

}  // namespace

void check_call(const Lane& lane, const FeedCall& call) {
  const std::int64_t rows = lane.cache.rows();
  if (static_cast<std::int64_t>(call.row_tokens.size()) != rows) {
    throw SpecError(fmt::format("run: row_tokens must have one count for each of the {} rows, got {}", rows,
                                call.row_tokens.size()));
  }
  std::int64_t total = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t tokens = call.row_tokens[static_cast<std::size_t>(row)];
    if (tokens < 0)
      throw SpecError(fmt::format("run: row {} must have 0 tokens or more, got {}", row, tokens));
    const std::int64_t held = lane.cache.tokens(row);
    if (tokens > lane.cache.capacity() - held) {
      throw std::out_of_range(
          fmt::format("run: row {} must fit the cache of {} tokens, it holds {} and got {} more", row,
                      lane.cache.capacity(), held, tokens));
    }
    if (lane.stack.is_bidirectional && tokens > 0 && held > 0) {
      throw SpecError(fmt::format(
          "run: a row of a model that sees later tokens must come whole, row {} holds {} and got {} more",
          row, held, tokens));
    }
    total += tokens;
  }
  const auto count = static_cast<std::int64_t>(call.ids.size());
  if (count != total)
    throw SpecError(fmt::format("run: ids must have the {} tokens of the rows, got {}", total, count));
  if (const std::int64_t axes = axes_of(lane.stack.plan); call.axes != 1 && call.axes != axes) {
    throw SpecError(
        fmt::format("run: positions must have 1 or {} axes for this model, got {}", axes, call.axes));
  }
  if (!call.types.empty() && static_cast<std::int64_t>(call.types.size()) != count) {
    throw SpecError(fmt::format("run: token types must be [{}], got {} values", count, call.types.size()));
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
  check_tokens(lane, call);
}

void walk(Session::State& state, const Lane& lane, Workspace& work, const FeedCall& call,
          const Wanted& wanted, std::vector<Plan>& row_plans) {
  Feeder(state, lane, work, call, wanted).run(row_plans);
}

}  // namespace locant
