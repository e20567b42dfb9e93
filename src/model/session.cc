// SPDX-License-Identifier: Apache-2.0
// Session: caches of a batch of rows, fed through the decoder, or first through an encoder.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "model/feeder.h"
#include "model/stack.h"
#include "model/state.h"

namespace locant {

Session::State::State(const Model::State& model_, const SessionOptions& options_)
    : model(model_),
      options(options_),
      cache(cache_shape(model_, model_.main), options_),
      work(model_, model_.main, options_.rows, Workspace::pass_tokens(model_.main, options_)),
      next_position(static_cast<std::size_t>(options_.rows), 0),
      row_plans(model_.main.varies ? static_cast<std::size_t>(options_.rows) : 0) {}

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

Lane main_lane(Session::State& state) {
  return {state.model, state.model.main, state.cache, state.next_position};
}

void feed_main(Session::State& state, const FeedCall& call, const Wanted& wanted) {
  const Lane lane = main_lane(state);
  check_call(lane, call);
  if (state.model.encoder && !state.encoded)
    throw SpecError("run: a decoder that reads an encoder must be given its rows first (encode), got none");
  const auto total = static_cast<std::int64_t>(call.ids.size());
  if (state.trace != nullptr && total > state.work.tokens) {
    // A trace shows one pass as one: the workspace grows for it.
    Workspace whole(state.model, state.model.main, state.options.rows, total);
    walk(state, lane, whole, call, wanted, state.row_plans);
    return;
  }
  walk(state, lane, state.work, call, wanted, state.row_plans);
}

}  // namespace

void Session::feed(const FeedCall& call, LogitsOf wanted, const LogitsReader& reader) {
  if (!state_->model.weights.head.there())
    throw SpecError("run: logits need a head, this checkpoint has none (its hidden states can be had)");
  feed_main(*state_, call, {.logits = &reader, .logits_of = wanted});
}

void Session::feed_states(const FeedCall& call, const StatesReader& reader) {
  feed_main(*state_, call, {.states = &reader});
}

void Session::encode(const FeedCall& call, const StatesReader& states) {
  State& state = *state_;
  if (!state.model.encoder) throw SpecError("run: encode needs a model with an encoder, this one has none");
  if (state.encoded) throw SpecError("run: rows must be encoded once, they are already");
  const StackModel& stack = *state.model.encoder;
  std::int64_t longest = 1;
  for (const std::int64_t tokens : call.row_tokens) {
    if (tokens < 1) throw SpecError(fmt::format("run: a row to encode must have tokens, got {}", tokens));
    longest = std::max(longest, tokens);
  }
  const SessionOptions options{.rows = state.options.rows, .capacity = longest, .cache = state.options.cache};
  Cache own(cache_shape(state.model, stack), options);
  std::vector<std::int64_t> next(static_cast<std::size_t>(options.rows), 0);
  std::vector<Plan> plans(stack.varies ? next.size() : 0);
  const Lane lane{state.model, stack, own, next};
  check_call(lane, call);
  Workspace work(state.model, stack, options.rows, Workspace::pass_tokens(stack, options));
  Cache encoded(cache_shape(state.model, state.model.main), options);
  std::int64_t row = 0;
  std::int64_t left = call.row_tokens.empty() ? 0 : call.row_tokens[0];
  const StatesReader keep = [&](std::int64_t first, View<const float, 2> answer) {
    if (states) states(first, answer);
    // whole rows stand in one pass
    for (std::int64_t at = 0; at < answer.extent(0);) {
      store_encoded(state.model, state.work, answer.rows(at, left), encoded, row);
      at += left;
      if (++row < options.rows) left = call.row_tokens[static_cast<std::size_t>(row)];
    }
  };
  walk(state, lane, work, call, {.states = &keep}, plans);
  state.encoded = std::move(encoded);
}

void Session::set_trace(TraceSink* sink, Padding padding) {
  state_->trace = sink;
  state_->padding = padding;
}

std::unique_ptr<RuntimeSession> Session::fork() const {
  auto copy = std::make_unique<State>(state_->model, state_->options);
  copy->cache.copy_from(state_->cache);
  copy->next_position = state_->next_position;
  if (state_->encoded) {
    const SessionOptions options{.rows = state_->options.rows,
                                 .capacity = state_->encoded->capacity(),
                                 .cache = state_->options.cache};
    copy->encoded.emplace(cache_shape(state_->model, state_->model.main), options);
    copy->encoded->copy_from(*state_->encoded);
  }
  return std::unique_ptr<RuntimeSession>(new Session(std::move(copy)));
}

}  // namespace locant
