// SPDX-License-Identifier: Apache-2.0
// The live runtime's face: padded batches in, padded logits out; inside, rows stay ragged.
#include <fmt/format.h>

#include <limits>
#include <utility>
#include <vector>

#include "model/state.h"

namespace locant {
namespace {

// The tokens of a padded call as ragged rows, and where each came from.
struct Ragged {
  std::vector<std::int64_t> ids, row_tokens, positions;
  std::vector<std::pair<std::int64_t, std::int64_t>> places;  ///< (row, column) of each token
};

void check(const ForwardCall& call, View<float, 3> logits, std::int64_t rows, std::int64_t vocab) {
  const std::int64_t batch = call.ids.extent(0);
  const std::int64_t tokens = call.ids.extent(1);
  if (batch != rows)
    throw SpecError(fmt::format("forward: ids must have the session's {} rows, got {}", rows, batch));
  if (logits.shape() != View<float, 3>::Shape{batch, tokens, vocab}) {
    throw SpecError(fmt::format("forward: logits must be [{},{},{}], got {}", batch, tokens, vocab,
                                TensorRef(logits).shape_text()));
  }
  if (call.mask && (call.mask->extent(0) != batch || call.mask->extent(1) < tokens)) {
    throw SpecError(fmt::format("forward: mask must be [{}, S] with S of at least {}, got {}", batch, tokens,
                                TensorRef(*call.mask).shape_text()));
  }
  if (call.documents)
    throw SpecError("forward: documents must not be given, this runtime holds one in each row");
  if (call.positions && (call.positions->extent(1) != batch || call.positions->extent(2) != tokens)) {
    throw SpecError(fmt::format("forward: positions must be [axes, {}, {}], got {}", batch, tokens,
                                TensorRef(*call.positions).shape_text()));
  }
}

Ragged ragged(const ForwardCall& call) {
  Ragged result;
  const std::int64_t tokens = call.ids.extent(1);
  const std::int64_t mask_start = call.mask ? call.mask->extent(1) - tokens : 0;
  for (std::int64_t row = 0; row < call.ids.extent(0); ++row) {
    std::int64_t count = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      if (call.mask && (*call.mask)(row, mask_start + t) == 0) continue;
      result.ids.push_back(call.ids(row, t));
      result.places.emplace_back(row, t);
      ++count;
    }
    result.row_tokens.push_back(count);
  }
  if (call.positions) {
    for (std::int64_t axis = 0; axis < call.positions->extent(0); ++axis) {
      for (const auto& [row, t] : result.places) result.positions.push_back((*call.positions)(axis, row, t));
    }
  }
  return result;
}

// A session whose number of rows the first call decides.
class OpenedSession final : public RuntimeSession {
 public:
  OpenedSession(const Model& model, std::int64_t capacity) : model_(model), capacity_(capacity) {}

  void forward(const ForwardCall& call, View<float, 3> logits) override {
    if (session_ != nullptr) {
      session_->forward(call, logits);
      return;
    }
    check(call, logits, call.ids.extent(0), model_.vocab());
    auto session = model_.open_session({.rows = call.ids.extent(0), .capacity = capacity_});
    session->forward(call, logits);
    session_ = std::move(session);  // a refused first call decides nothing
  }
  [[nodiscard]] std::unique_ptr<RuntimeSession> fork() const override {
    if (session_ != nullptr) return session_->fork();
    return std::make_unique<OpenedSession>(model_, capacity_);
  }

 private:
  const Model& model_;
  std::int64_t capacity_;
  std::unique_ptr<Session> session_;
};

}  // namespace

void Session::forward(const ForwardCall& call, View<float, 3> logits) {
  check(call, logits, rows(), state_->model.spec.vocab);
  const Ragged tokens = ragged(call);
  const FeedCall feed_call{.ids = tokens.ids,
                           .row_tokens = tokens.row_tokens,
                           .positions = tokens.positions,
                           .axes = call.positions ? call.positions->extent(0) : 1};
  // feed() checks the call before it computes: nothing is written when it refuses.
  bool cleared = false;
  const auto clear = [&] {
    for (std::int64_t b = 0; b < logits.extent(0); ++b) {
      for (std::int64_t t = 0; t < logits.extent(1); ++t) {
        for (std::int64_t v = 0; v < logits.extent(2); ++v)
          logits(b, t, v) = std::numeric_limits<float>::quiet_NaN();
      }
    }
    cleared = true;
  };
  feed(feed_call, LogitsOf::all, [&](std::int64_t first, View<const float, 2> piece) {
    if (!cleared) clear();
    for (std::int64_t i = 0; i < piece.extent(0); ++i) {
      const auto [row, t] = tokens.places[static_cast<std::size_t>(first + i)];
      for (std::int64_t v = 0; v < piece.extent(1); ++v) logits(row, t, v) = piece(i, v);
    }
  });
  if (!cleared) clear();
}

std::unique_ptr<RuntimeSession> Model::open(std::int64_t capacity) {
  if (capacity < 1) throw SpecError(fmt::format("open: capacity must be at least 1 token, got {}", capacity));
  if (has_encoder())
    throw SpecError("open: a live runtime must be a decoder alone, this one reads an encoder");
  if (!has_head()) throw SpecError("open: a live runtime must have a head, this checkpoint has none");
  if (const auto last = last_position(); last && capacity > *last + 1) {
    (void)open_session({.rows = 1, .capacity = capacity});  // throws the sentence about the table's end
  }
  return std::make_unique<OpenedSession>(*this, capacity);
}

}  // namespace locant
