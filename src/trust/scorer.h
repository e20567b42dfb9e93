// SPDX-License-Identifier: Apache-2.0
// Rows of ids through a runtime; the logits of their last tokens come back.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "locant/runtime.h"
#include "trust/clock.h"
#include "trust/documents.h"

namespace locant::trust_room {

/// The row of a batch, which of its last tokens (0 = the first of them), and the logits behind that token.
using LastReader = std::function<void(std::int64_t row, std::int64_t index, std::span<const float> logits)>;

class Scorer {
 public:
  /// in_one_piece: a row is one call, for plans that follow the tokens seen.
  enum class Feeding : std::uint8_t { in_pieces, in_one_piece };
  Scorer(Runtime& runtime, Feeding feeding) : runtime_(runtime), feeding_(feeding), vocab_(runtime.vocab()) {}

  [[nodiscard]] std::int64_t vocab() const noexcept { return vocab_; }
  [[nodiscard]] const Costs& costs() const noexcept { return costs_; }
  /// Rows of that many tokens that go well together.
  [[nodiscard]] std::int64_t rows_at(std::int64_t tokens) const;
  /// Rows of equal length; `last` tokens of each are read. positions: of every row alike, or empty.
  void run(const std::vector<Ids>& rows, std::int64_t last, const LastReader& reader,
           std::span<const std::int64_t> positions = {});

 private:
  Runtime& runtime_;
  Feeding feeding_;
  std::int64_t vocab_;
  Costs costs_;
  std::vector<float> logits_;
};

/// -log p(target) in nats; infinite where a logit is not finite.
[[nodiscard]] double loss_of(std::span<const float> logits, std::int64_t target);
/// log of the sum of exponentials; NaN where a logit is not finite.
[[nodiscard]] double log_sum(std::span<const float> logits);

}  // namespace locant::trust_room
