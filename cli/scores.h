// SPDX-License-Identifier: Apache-2.0
// What the logits of a prompt say: log-probabilities of its own tokens, the best next ones, the loss. Sums
// are double; logits stay f32.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "locant/core.h"
#include "locant/model.h"
#include "locant/positions.h"
#include "locant/threads.h"

namespace locant::cli {

struct NextToken {
  std::int64_t token = 0;  ///< index in its row of the token whose logits these are
  std::int64_t id = 0;
  float logit = 0;
  double probability = 0;
};

struct PlaceInRow {
  std::int64_t row = 0;
  std::int64_t token = 0;
};

/// What the logits of a token are about: the token behind it, or the token that stands there (masked-LM).
enum class Predicts : std::uint8_t { following, itself };

/// Reads the logits of a whole prompt as they come.
class PromptScores {
 public:
  struct Options {
    std::int64_t top = 0;
    bool keep_logits = false;
    Padding padding = Padding::left;  ///< of the kept logits
    Predicts predicts = Predicts::following;
    Sampling sampling{};                 ///< of the choice
    std::optional<std::int64_t> mask{};  ///< masked-LM: candidates are given where this id stands
  };
  /// `rows` must outlive the object.
  PromptScores(const std::vector<std::vector<std::int64_t>>& rows, std::int64_t vocab,
               const Options& options);
  void read(std::int64_t first_token, View<const float, 2> logits, ThreadPool& pool);
  [[nodiscard]] const Options& options() const noexcept { return options_; }

  /// [B][T], nothing for the first token of a row that is predicted by those before it.
  std::vector<std::vector<std::optional<double>>> log_probabilities;
  std::vector<std::vector<NextToken>> next;  ///< [B][top], [B][masks * top]
  std::vector<std::int64_t> choice;          ///< [B] token of step 0; -1 where no logit is comparable
  std::optional<PlaceInRow> first_non_finite;
  std::vector<float> logits;  ///< [B, width, V] when kept, NaN in padding
  std::int64_t width = 0;

 private:
  void take_next(PlaceInRow place, View<const float, 1> logits);

  const std::vector<std::vector<std::int64_t>>& rows_;
  std::int64_t vocab_;
  Options options_;
  std::vector<PlaceInRow> places_;  ///< of the concatenated tokens
};

struct LossBucket {
  std::int64_t from = 0;  ///< positions, both ends included
  std::int64_t to = 0;
  std::int64_t tokens = 0;
  double loss = 0;  ///< mean
};
struct Loss {
  double mean = 0;
  std::int64_t tokens = 0;
  std::vector<LossBucket> buckets;  ///< 0-31, 32-63, 64-127, 128-255, ...; positions below 0 in one
};
/// Mean negative log-likelihood in nats, each token counted at its own position; nothing for rows of one
/// token.
[[nodiscard]] std::optional<Loss> loss_of(std::span<const std::optional<double>> log_probabilities,
                                          std::span<const std::int64_t> positions);

}  // namespace locant::cli
