// SPDX-License-Identifier: Apache-2.0
// A live runtime as the rules drive it: prompts through sessions in several ways, logits of single rows back.
// Two ways that have to agree are compared in units of the largest logit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "locant/check.h"
#include "locant/positions.h"
#include "locant/runtime.h"

namespace locant::check_room {

using Ids = std::vector<std::int64_t>;

/// Logits of one row's tokens, of the columns of the vocabulary that are looked at.
struct Logits {
  std::int64_t columns = 0;
  std::vector<float> data;  ///< [tokens, columns]

  [[nodiscard]] std::int64_t tokens() const {
    return columns == 0 ? 0 : static_cast<std::int64_t>(data.size()) / columns;
  }
  [[nodiscard]] std::span<const float> at(std::int64_t token) const {
    return {data.data() + token * columns, static_cast<std::size_t>(columns)};
  }
  [[nodiscard]] Logits part(std::int64_t first, std::int64_t count) const;
  void append(const Logits& more);
};

/// One row through one session.
struct RowRun {
  Ids ids;
  Ids cuts{};                   ///< tokens of each call; empty = one call
  Ids positions{};              ///< [ids], or empty: the runtime counts
  std::int64_t given_from = 0;  ///< calls that begin before this token are made without positions
  Ids documents{};              ///< [ids], or empty
};

/// Uneven rows as a padded batch; the last `steps` tokens of every row are fed one by one.
struct BatchRun {
  std::vector<Ids> rows;
  std::int64_t steps = 0;
  Padding padding = Padding::none;
  std::int64_t pad_id = 0;
  std::int64_t width = 0;  ///< columns of the prompt; no fewer than the longest row needs
};

/// One call, rows of equal length.
struct Call {
  std::vector<Ids> ids;
  std::vector<Ids> mask{};
  std::vector<Ids> positions{};
  std::vector<Ids> documents{};
};

class Drive {
 public:
  Drive(Runtime& runtime, std::int64_t capacity);
  [[nodiscard]] std::unique_ptr<RuntimeSession> open() { return runtime_.open(capacity_); }
  [[nodiscard]] std::unique_ptr<RuntimeSession> open(std::int64_t capacity) {
    return runtime_.open(capacity);
  }
  /// Logits [T] of every row, padding too.
  std::vector<Logits> feed(RuntimeSession& session, const Call& call);
  Logits run(const RowRun& run);
  /// As run(), in a session that is there. Appends.
  void run_in(RuntimeSession& session, const RowRun& run, Logits& logits);
  /// Content alone: a row's prompt, then its steps.
  std::vector<Logits> run(const BatchRun& run);
  /// Whether positions can be given; remembers how many axes the runtime takes.
  bool takes_positions(std::int64_t id);

  [[nodiscard]] Runtime& runtime() noexcept { return runtime_; }
  [[nodiscard]] std::int64_t capacity() const noexcept { return capacity_; }

 private:
  Runtime& runtime_;
  std::int64_t capacity_;
  std::int64_t axes_ = 1;
};

/// Cuts of a prompt in one call, then single tokens.
[[nodiscard]] Ids prompt_then_steps(std::int64_t tokens, std::int64_t steps);
/// first, first + 1, ...
[[nodiscard]] Ids counted(std::int64_t first, std::int64_t count);

/// Two ways to the same logits.
struct Gap {
  std::vector<double> at;  ///< [tokens] largest |difference| over the largest |logit| of what is due
  double largest = 0;      ///< infinite where one is not a number
  double spread = 0;       ///< root mean square of the differences over that of what is due
};
[[nodiscard]] Gap gap(const Logits& got, const Logits& due);

/// What rounding may move, in units of the largest logit.
struct LiveBudget {
  double floor = 0;     ///< of f32: below, nothing has changed at all
  double lower = 0;     ///< below, two ways agree
  double upper = 0;     ///< above, they do not: what 16-bit arithmetic explains, or `lower`
  double cached = 0;    ///< likewise where one way reads keys and values from a cache that may round them
  bool coarse = false;  ///< the runtime computes in 16 bits
};

/// How two ways may differ by rounding.
enum class Path : std::uint8_t {
  same,   ///< the same arithmetic on other shapes
  cached  ///< one of them through the cache, or through other angles
};

struct Verdict {
  bool differs = false;    ///< beyond rounding, whatever the cause
  bool open = false;       ///< more than this runtime's rounding; counts only with a cause that reproduces it
  std::int64_t first = 0;  ///< token where it begins
};
[[nodiscard]] Verdict judge(const Gap& gap, const LiveBudget& budget, Path path);
/// Of a prompt in one call, then steps that read a cache.
[[nodiscard]] Verdict judge_steps(const Gap& gap, const LiveBudget& budget, std::int64_t prompt);

/// A cause to be tried on the runtime: what it would give for the same tokens.
struct Candidate {
  std::string cause;
  std::vector<std::pair<std::string, double>> parameters{};
  std::function<Logits()> run;
  std::function<std::int64_t(std::int64_t)> position{};  ///< of a token under this cause; may be empty
};

struct Explanation {
  std::vector<Hypothesis> hypotheses{};  ///< that reproduce what was observed, best first
  const Candidate* best = nullptr;
};
/// Runs the candidates; those past a table's end or that the runtime refuses drop out.
[[nodiscard]] Explanation explain(const Logits& observed, const Logits& due, const LiveBudget& budget,
                                  const std::vector<Candidate>& candidates);

}  // namespace locant::check_room
