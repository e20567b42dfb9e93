// SPDX-License-Identifier: Apache-2.0
// M101, M102, M112, M113: one row in one call, in steps, in chunks, after a fork, and with less behind it.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "check/live_rules.h"

namespace locant::check_room {
namespace {

/// A token of a later call: its index in the row, the first of its call and the tokens of that, the number of
/// the call and the tokens of the first call.
struct Place {
  std::int64_t token, start, size, call, prompt;
};

struct Miscount {
  std::string_view cause;
  std::int64_t (*position)(const Place&);
};

/// How runtimes place the tokens of later calls when they do it wrong.
constexpr Miscount kMiscounts[] = {
    {"later calls stand one position late", [](const Place& at) { return at.token + 1; }},
    {"later calls stand one position early", [](const Place& at) { return at.token - 1; }},
    {"every later call begins at 0 again", [](const Place& at) { return at.token - at.start; }},
    {"counting begins at 0 again behind the first call",
     [](const Place& at) { return at.token - at.prompt; }},
    {"counting begins at 1 behind the first call", [](const Place& at) { return at.token - at.prompt + 1; }},
    {"every later call begins where the first one ended",
     [](const Place& at) { return at.prompt + at.token - at.start; }},
    {"every later call begins at the first one's last position",
     [](const Place& at) { return at.prompt - 1 + at.token - at.start; }},
    {"all tokens of a later call stand at its first position", [](const Place& at) { return at.start; }},
    {"the first call's length is added once more", [](const Place& at) { return at.token + at.prompt; }},
    {"the first call's length is added once in place of 1",
     [](const Place& at) { return at.token + at.prompt - 1; }},
    {"every later call adds the first one's length",
     [](const Place& at) { return at.prompt * (at.call + 1) + at.token - at.start; }},
    {"every later call adds the first one's length in place of 1",
     [](const Place& at) { return at.prompt * (at.call + 1) - 1 + at.token - at.start; }},
    {"later tokens count twice", [](const Place& at) { return 2 * at.token - at.prompt; }},
    {"a later call begins at its number times its own length",
     [](const Place& at) { return at.call * at.size + at.token - at.start; }},
};

/// Positions of all tokens of a row under a miscount.
Ids miscounted(const Ids& cuts, std::int64_t (*position)(const Place&)) {
  Ids positions = counted(0, cuts.front());
  std::int64_t start = cuts.front();
  for (std::size_t call = 1; call < cuts.size(); ++call) {
    for (std::int64_t t = 0; t < cuts[call]; ++t)
      positions.push_back(
          position({start + t, start, cuts[call], static_cast<std::int64_t>(call), cuts.front()}));
    start += cuts[call];
  }
  return positions;
}

class LaterCalls {
 public:
  LaterCalls(Live& live, Ids cuts)
      : live_(live),
        cuts_(std::move(cuts)),
        ids_(live.ask.prompt.begin(),
             live.ask.prompt.begin() + std::accumulate(cuts_.begin(), cuts_.end(), std::int64_t{0})),
        prompt_(cuts_.front()),
        count_(static_cast<std::int64_t>(ids_.size()) - prompt_) {}

  [[nodiscard]] Logits due() const { return live_.whole.part(prompt_, count_); }
  Logits got() { return behind(RowRun{.ids = ids_, .cuts = cuts_}); }

  /// Whether the positions due, given, make what is observed: then its own count is right.
  bool counts_right(const Logits& got) {
    return live_.takes_positions &&
           gap(given(counted(0, prompt_ + count_)), got).largest <= live_.budget.lower;
  }

  std::vector<Candidate> candidates(bool miscounts) {
    std::vector<Candidate> all;
    if (live_.takes_positions) {
      all.push_back({.cause = "later calls do not see the cache", .parameters = {}, .run = [this] {
                       return apart(counted(0, prompt_ + count_));
                     }});
    }
    all.push_back({.cause = "later calls do not see the cache and begin at 0 again",
                   .parameters = {},
                   .run = [this] { return apart({}); }});
    std::vector<Ids> seen{counted(0, prompt_ + count_)};
    for (const Miscount& one : kMiscounts) {
      if (!miscounts || !live_.takes_positions) break;
      const Ids positions = miscounted(cuts_, one.position);
      if (std::find(seen.begin(), seen.end(), positions) != seen.end()) continue;
      seen.push_back(positions);
      // what a plan makes of positions past its switch is another question, and may stay behind
      const auto [least, most] = std::minmax_element(positions.begin(), positions.end());
      if (*least < 0 || *most >= live_.ask.same_until) continue;
      all.push_back(
          {.cause = std::string(one.cause),
           .parameters = {},
           .run = [this, positions] { return given(positions); },
           .position =
               [positions](std::int64_t token) { return positions[static_cast<std::size_t>(token)]; }});
    }
    return all;
  }

  /// What positions that are given do: is it the count that is wrong, or what happens at the right positions?
  std::string with_positions(const Logits& got) {
    if (!live_.takes_positions) return {};
    const Logits at_due = given(counted(0, prompt_ + count_));
    if (gap(at_due, due()).largest <= live_.budget.cached)
      return "with the positions due given, it does not: the runtime's own count is wrong";
    if (gap(at_due, got).largest <= live_.budget.lower)
      return "with the positions due given, it stays: not the count is wrong, but what later calls see or "
             "hold";
    return "with the positions due given, it is another difference";
  }

 private:
  Logits behind(const RowRun& run) { return live_.drive.run(run).part(prompt_, count_); }
  Logits given(const Ids& positions) {
    return behind({.ids = ids_, .cuts = cuts_, .positions = positions, .given_from = prompt_});
  }
  /// Every later call in a session of its own.
  Logits apart(const Ids& positions) {
    Logits logits;
    std::int64_t first = prompt_;
    for (std::size_t call = 1; call < cuts_.size(); ++call) {
      const auto piece = [&](const Ids& all) {
        return all.empty() ? all : Ids(all.begin() + first, all.begin() + first + cuts_[call]);
      };
      logits.append(live_.drive.run(RowRun{.ids = piece(ids_), .positions = piece(positions)}));
      first += cuts_[call];
    }
    return logits;
  }

  Live& live_;
  Ids cuts_;
  Ids ids_;
  std::int64_t prompt_;
  std::int64_t count_;
};

std::int64_t tokens_one_by_one(const Live& live) {
  return std::min(live.tokens(), std::clamp<std::int64_t>(live.ask.window + 8, 24, 96));
}

/// Where steps from the first token on begin to differ; -1 = nowhere.
std::int64_t first_wrong_step(Live& live) {
  LaterCalls later(live, Ids(static_cast<std::size_t>(tokens_one_by_one(live)), 1));
  const Verdict verdict = judge(gap(later.got(), later.due()), live.budget, Path::cached);
  return verdict.differs ? 1 + verdict.first : -1;
}

/// Whether one way of cutting agrees with the whole; the finding where it does not.
bool agrees(Live& live, std::string_view rule, Depth depth, const Ids& cuts, const std::string& what) {
  LaterCalls later(live, cuts);
  const Logits due = later.due();
  const Logits got = later.got();
  const Verdict verdict = judge(gap(got, due), live.budget, Path::cached);
  if (!verdict.differs && !verdict.open) return true;
  const std::vector<Candidate> candidates = later.candidates(!later.counts_right(got));
  const Explanation explanation = explain(got, due, live.budget, candidates);
  if (!verdict.differs && explanation.best == nullptr) return true;
  std::string also = later.with_positions(got);
  if (explanation.best == nullptr && live.ask.window > 0) {
    const std::int64_t begins = first_wrong_step(live);
    if (std::abs(begins - live.ask.window) <= 1)
      also += fmt::format(
          "{}one by one from the first token on, it begins at token {}, where the window of {} is full",
          also.empty() ? "" : "; ", begins, live.ask.window);
  }
  std::string cause = explanation.best != nullptr ? explanation.best->cause : live.later_tokens;
  if (cause.empty()) cause = "later calls";
  if (rule == "M101") live.steps = cause;
  Difference difference{.rule = rule,
                        .depth = depth,
                        .what = what,
                        .got = got,
                        .due = due,
                        .verdict = verdict,
                        .first_token = cuts.front(),
                        .also = also,
                        .cause = cause};
  if (cuts.back() == 1) difference.first_step = 1;
  add(live, difference, explanation);
  return false;
}

bool lacks_cache(Live& live, std::string_view id) {
  if (live.ask.causal) return false;
  live.book.lacks(id, "a model whose tokens see earlier ones alone: the plan's attention sees both ways");
  return true;
}

}  // namespace

void check_steps(Live& live) {
  if (lacks_cache(live, "M101")) return;
  live.book.asked("M101");
  const std::int64_t tokens = live.tokens();
  if (!agrees(live, "M101", Depth::called, prompt_then_steps(tokens, live.ask.steps),
              fmt::format("{} tokens in one call, then {} one by one, beside all in one call",
                          tokens - live.ask.steps, live.ask.steps)))
    return;
  // from the first token on, and over the edge of a window
  const std::int64_t single = tokens_one_by_one(live);
  (void)agrees(live, "M101", Depth::called, Ids(static_cast<std::size_t>(single), 1),
               fmt::format("{} tokens one by one from the first on, beside all in one call", single));
}

void check_chunks(Live& live) {
  if (lacks_cache(live, "M102")) return;
  live.book.asked("M102");
  const std::int64_t tokens = live.tokens();
  for (const std::int64_t size : std::set<std::int64_t>{tokens / 2, 7, 33, 65, live.ask.window + 1}) {
    if (size < 2 || size >= tokens) continue;
    Ids cuts;
    for (std::int64_t left = tokens; left > 0; left -= cuts.back()) {
      // no last chunk of one token: that is a step
      cuts.push_back(left - size == 1 && size > 2 ? size - 1 : std::min(size, left));
    }
    if (!agrees(live, "M102", Depth::composed, cuts,
                fmt::format("chunks of {} tokens beside all in one call", size)))
      return;
  }
}

void check_fork(Live& live) {
  if (lacks_cache(live, "M112")) return;
  const std::int64_t steps = std::min<std::int64_t>(live.ask.steps, 4);
  const std::int64_t prompt = live.tokens() - live.ask.steps;
  const auto row = [&](const Ids& tail) {
    Ids ids(live.ask.prompt.begin(), live.ask.prompt.begin() + prompt);
    ids.insert(ids.end(), tail.begin() + prompt, tail.begin() + prompt + steps);
    return ids;
  };
  const Ids stays = row(live.ask.prompt);
  const Ids leaves = row(live.ask.other);
  const auto session = live.drive.open();
  Logits first;
  live.drive.run_in(*session, {.ids = Ids(stays.begin(), stays.begin() + prompt)}, first);
  const auto forked = session->fork();
  if (forked == nullptr) return live.book.lacks("M112", "a live runtime whose sessions can be forked");
  live.book.asked("M112");
  Logits original;
  Logits branch;
  for (std::int64_t step = prompt; step < prompt + steps; ++step) {
    const auto at = static_cast<std::size_t>(step);
    live.drive.run_in(*session, {.ids = {stays[at]}}, original);
    live.drive.run_in(*forked, {.ids = {leaves[at]}}, branch);
  }
  for (const auto& [ids, got, name] : {std::tuple(&stays, &original, "the session that was forked"),
                                       std::tuple(&leaves, &branch, "the fork")}) {
    const RowRun alone{.ids = *ids, .cuts = prompt_then_steps(prompt + steps, steps)};
    const Logits due = live.drive.run(alone).part(prompt, steps);
    const Verdict verdict = judge(gap(*got, due), live.budget, Path::cached);
    if (!verdict.differs) continue;
    add(live,
        {.rule = "M112",
         .depth = Depth::composed,
         .what =
             fmt::format("{}, {} steps in turn with the other one, beside the same steps alone", name, steps),
         .got = *got,
         .due = due,
         .verdict = verdict,
         .first_token = prompt,
         .first_step = 1},
        {});
    return;
  }
}

void check_later_tokens(Live& live) {
  if (lacks_cache(live, "M113")) return;
  live.book.asked("M113");
  const std::int64_t tokens = live.tokens();
  for (const std::int64_t part : {tokens - 1, tokens / 2, tokens / 4}) {
    const Ids beginning(live.ask.prompt.begin(), live.ask.prompt.begin() + part);
    const Logits got = live.whole.part(0, part);
    const Logits due = live.drive.run(RowRun{.ids = beginning});
    const Verdict verdict = judge(gap(got, due), live.budget, Path::same);
    if (!verdict.differs) continue;
    // the same length with other tokens behind: is it the tokens, or how many there are?
    Ids changed = beginning;
    changed.insert(changed.end(), live.ask.other.begin() + part, live.ask.other.end());
    const Logits other = live.drive.run(RowRun{.ids = changed}).part(0, part);
    const bool seen = judge(gap(other, got), live.budget, Path::same).differs;
    live.later_tokens = "what stands behind a token";
    add(live,
        {.rule = "M113",
         .what = fmt::format("the first {} of {} tokens beside the same {} alone", part, tokens, part),
         .got = got,
         .due = due,
         .verdict = verdict,
         .also = seen ? "other tokens behind them change it again: later tokens are visible"
                      : "other tokens behind them change nothing: the number of tokens decides",
         .cause = live.later_tokens},
        {});
    return;
  }
}

}  // namespace locant::check_room
