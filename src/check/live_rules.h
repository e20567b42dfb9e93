// SPDX-License-Identifier: Apache-2.0
// What the rules of family M share: the prompt, what the plan promises of this runtime, and what rounding may
// do.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "check/book.h"
#include "check/evidence.h"
#include "check/live.h"

namespace locant::check_room {

/// What is asked of the runtime, and what its plan lets one expect.
struct LiveQuestion {
  Ids prompt;              ///< what is compared
  Ids other;               ///< as long, other tokens
  std::int64_t steps = 0;  ///< tokens at the prompt's end that are fed one by one; 0 = not causal
  std::int64_t pad_id = 0;
  std::int64_t other_pad_id = 0;
  std::int64_t layers = 0;
  std::int64_t window = 0;      ///< of the narrowest layer with a window or chunk; 0 = none
  std::int64_t last = 0;        ///< last position with a row in every table, inside the configured length
  std::int64_t same_until = 0;  ///< tokens of a sequence up to which the plan stays one
  std::int64_t longest = 0;     ///< tokens of a sequence that may be fed at all
  bool causal = true;
  bool marks = true;         ///< some layer, or the embedding, marks positions
  bool bias_alone = false;   ///< nothing but a bias on the scores marks them
  bool absolute = false;     ///< positions are added to the token state
  std::string not_relative;  ///< why a shift of all positions may show; empty = it must not
};
/// Throws std::out_of_range for an id of the query's prompt outside the vocabulary.
[[nodiscard]] LiveQuestion question_of(const CheckQuery& query, const Evidence& evidence);

/// Nothing where the recipe refuses a mechanism.
[[nodiscard]] std::optional<Plan> plan_at(const Evidence& evidence, const Extent& extent);

struct Live {
  const CheckQuery& query;
  const Evidence& evidence;
  Book& book;
  LiveQuestion ask;
  Drive drive;
  LiveBudget budget{};
  Logits whole{};  ///< of the prompt in one call, nothing given
  bool takes_positions = false;
  bool rows_differ = false;    ///< M105 spoke
  std::string later_tokens{};  ///< what M113 found, as the book's cause; empty = nothing
  std::string steps{};         ///< likewise M101

  [[nodiscard]] std::int64_t tokens() const { return static_cast<std::int64_t>(ask.prompt.size()); }
  [[nodiscard]] bool wanted(std::string_view id) const { return chosen(find_rule(id), query); }
};

/// What rounding explains, from depth and width, and from ways through this runtime that no position can tell
/// apart: a prompt and its beginnings.
[[nodiscard]] LiveBudget measure_budget(Live& live);
/// For one call twice, before anything else of the runtime is known.
[[nodiscard]] LiveBudget repeat_budget(const Live& live, const Logits& logits);

/// Two ways that ought to agree and do not.
struct Difference {
  std::string_view rule;
  Depth depth = Depth::behaviour;
  std::string what{};  ///< "a prompt of 64 tokens and 32 steps of one token beside the prompt in one call"
  const Logits& got;
  const Logits& due;
  Verdict verdict;
  std::int64_t first_token = 0;  ///< index in the row of the first token compared
  std::optional<std::int64_t> row{};
  std::optional<std::int64_t> first_step{};  ///< step of the first token compared
  std::string also{};                        ///< more of what was tried, in words
  Severity severity = Severity::error;
  std::string cause{};  ///< for the book where no candidate names one
};
void add(Live& live, const Difference& difference, const Explanation& explanation);

// One call each; what a rule lacks it says in the book.
/// The prompt before anything else has run; what it throws, the prompt or the runtime is to blame for.
[[nodiscard]] Logits first_run(Live& live);
/// M109, next: where it speaks, nothing else can be compared.
void check_history(Live& live, const Logits& first);
void check_long_history(Live& live);           ///< M109, last
void check_later_tokens(Live& live);           ///< M113
void check_given(Live& live);                  ///< M111
void check_order(Live& live);                  ///< M108
void check_shift(Live& live);                  ///< M107
void check_steps(Live& live);                  ///< M101
void check_chunks(Live& live);                 ///< M102
void check_fork(Live& live);                   ///< M112
void check_rows(Live& live);                   ///< M105
void check_padding(Live& live, Padding side);  ///< M103, M104
void check_packed(Live& live);                 ///< M106
void check_capacity(Live& live);               ///< M110

}  // namespace locant::check_room
