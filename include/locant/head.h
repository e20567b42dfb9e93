// SPDX-License-Identifier: Apache-2.0
// The language-model head and what follows it in one pass: candidates, the logarithm of the sum of
// exponentials, logits of given tokens, draws. Logits [T, V] are never in memory; they are those of project()
// and softcap(), bit for bit.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "locant/core.h"
#include "locant/ops.h"
#include "locant/threads.h"

namespace locant {

/// What is known of the logits of one token in some rows of the vocabulary.
struct HeadPart {
  double sum = 0;  ///< of exp(logit - top), of exp(logit) where top is infinite
  float top = 0;   ///< the largest logit, NaN left aside
  std::int64_t held = 0;
};

/// Room for calls of up to `tokens` tokens and `candidates` candidates over `vocab` rows, made once and used
/// again: ceil(vocab / 2048) parts a token, each with its candidates (16 bytes each), and ceil(vocab / 256)
/// shares.
class HeadSpace {
 public:
  HeadSpace(std::int64_t tokens, std::int64_t vocab, std::int64_t candidates);
  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t vocab() const noexcept { return vocab_; }
  [[nodiscard]] std::int64_t candidates() const noexcept { return candidates_; }
  [[nodiscard]] std::vector<HeadPart>& parts() noexcept { return parts_; }
  [[nodiscard]] std::vector<HeadPart>& shares() noexcept { return shares_; }
  [[nodiscard]] std::vector<Candidate>& best() noexcept { return best_; }
  [[nodiscard]] std::atomic<float>* floors() noexcept { return floors_.get(); }

 private:
  std::int64_t tokens_, vocab_, candidates_;
  std::vector<HeadPart> parts_;
  std::vector<HeadPart> shares_;  ///< of 256 rows each, of logits over the temperature
  std::vector<Candidate> best_;
  std::unique_ptr<std::atomic<float>[]> floors_;  ///< a token's last candidate is not below
};

/// logit[t][v] = softcap(scale * (x[t] . weight[v]) + bias[v]). Each answer may be empty. None of them may
/// overlap what is read. Identical for any number of threads and any cut into calls.
/// Error: candidates and target_logits are those of project(), softcap() and top_candidates(); log_sum_exp as
/// the function of that name (log_sum_exp); drawn as said there. std::out_of_range "head: target 32000 at row
/// 3 is outside vocab 32000".
struct HeadCall {
  View<const float, 2> x{};     ///< [T, K]
  Matrix weight{};              ///< [V, K]
  View<const float, 1> bias{};  ///< [V] or empty
  float scale = 1;
  float softcap = 0;  ///< 0 = none
  Activations activations = Activations::f32;
  View<const std::int64_t, 1> targets{};  ///< [T] or empty
  View<float, 1> target_logits{};         ///< [T] with targets
  View<double, 1> log_sum_exp{};          ///< [T]; NaN when a logit is NaN
  /// [T, k], the k largest logits, best first, equal ones by smaller id; where fewer logits are comparable
  /// the rest is {-1, -infinity}.
  View<Candidate, 2> candidates{};
  /// Numbers in [0, 1), [T] or empty, and what they draw, [T]: the first id, in order of ids, at which the
  /// sum of softmax(logit / temperature) is above the number, to an error of 2e-6 in that sum. To draw from
  /// the k best or from a share alone, draw from candidates. -1 where a logit is NaN or +infinity, or all are
  /// -infinity. The 256 rows around the id are multiplied a second time.
  View<const double, 1> draws{};
  View<std::int64_t, 1> drawn{};
  float temperature = 1;  ///< above 0, finite
};
void head(const HeadCall& call, HeadSpace& space, ThreadPool& pool);

}  // namespace locant
