// SPDX-License-Identifier: Apache-2.0
// M109, M110: what ran before, and how much a session was opened for, change nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/live_rules.h"

namespace locant::check_room {
namespace {

/// How often one sequence is repeated: buffers that grow need history.
constexpr int kRepeats = 4;
/// A session's memory that a larger capacity may take, and the largest that is asked for.
constexpr std::int64_t kMemory = std::int64_t{256} << 20U;
constexpr std::int64_t kLargest = 8192;
/// Tokens that a long sequence may take before it costs more than the other rules together.
constexpr std::int64_t kLongest = 2560;

/// The usual way to run the prompt: one call, then a few steps.
RowRun usual(const Live& live) {
  return {.ids = live.ask.prompt,
          .cuts = prompt_then_steps(live.tokens(), std::min<std::int64_t>(live.ask.steps, 3))};
}

void speak(Live& live, const Logits& got, const Logits& due, const std::string& what,
           const std::string& also) {
  const Verdict verdict = judge(gap(got, due), live.budget, Path::same);
  add(live, {.rule = "M109", .what = what, .got = got, .due = due, .verdict = verdict, .also = also}, {});
}

}  // namespace

Logits first_run(Live& live) {
  Logits first = live.drive.run(usual(live));
  live.whole = live.drive.run(RowRun{.ids = live.ask.prompt});
  live.budget = repeat_budget(live, live.whole);
  return first;
}

void check_history(Live& live, const Logits& first) {
  live.book.asked("M109");
  const RowRun run = usual(live);
  Logits before = first;
  Logits last = first;
  for (int again = 0; again < kRepeats; ++again) {
    before = std::move(last);
    last = live.drive.run(run);
  }
  if (judge(gap(last, first), live.budget, Path::same).differs) {
    const bool settles = !judge(gap(last, before), live.budget, Path::same).differs;
    return speak(
        live, last, first, fmt::format("one prompt, run {} times, beside its first run", kRepeats + 2),
        settles ? "its last two runs agree" : "every run differs from the one before, as something adds up");
  }
  (void)live.drive.run(RowRun{.ids = live.ask.other});
  const Logits after = live.drive.run(run);
  if (judge(gap(after, first), live.budget, Path::same).differs)
    return speak(live, after, first, "a prompt after another one in another session, beside its first run",
                 "");
  // two sessions in turn, a token each
  const auto mine = live.drive.open();
  const auto theirs = live.drive.open();
  Logits got;
  std::int64_t token = 0;
  for (const std::int64_t count : run.cuts) {
    const auto piece = [&](const Ids& ids) { return Ids(ids.begin() + token, ids.begin() + token + count); };
    live.drive.run_in(*mine, {.ids = piece(live.ask.prompt)}, got);
    Logits ignored;
    live.drive.run_in(*theirs, {.ids = piece(live.ask.other)}, ignored);
    token += count;
  }
  if (judge(gap(got, first), live.budget, Path::same).differs)
    speak(live, got, first, "a prompt in turn with another session, call by call, beside its first run", "");
}

void check_long_history(Live& live) {
  const std::int64_t tokens = live.tokens();
  // over the length where the plan changes, if it does, and back
  const std::int64_t past = live.ask.same_until + tokens / 4;
  const std::int64_t length = std::min(past < kLongest ? past : 2 * tokens, live.ask.longest);
  if (length <= tokens) return;
  Ids ids;
  while (static_cast<std::int64_t>(ids.size()) < length)
    ids.insert(ids.end(), live.ask.other.begin(), live.ask.other.end());
  ids.resize(static_cast<std::size_t>(length));
  const RowRun run = usual(live);
  const Logits before = live.drive.run(run);
  const auto session = live.drive.open(length);
  Logits ignored;
  live.drive.run_in(*session, {.ids = ids}, ignored);
  const Logits after = live.drive.run(run);
  if (!judge(gap(after, before), live.budget, Path::same).differs) return;
  const std::string over =
      length > live.ask.same_until
          ? fmt::format("the plan changes at {} tokens: what it changed to stays", live.ask.same_until + 1)
          : std::string();
  speak(live, after, before,
        fmt::format("a prompt after {} tokens in another session, beside the same before", length), over);
}

void check_capacity(Live& live) {
  const std::int64_t tokens = live.tokens();
  std::int64_t large = std::min(live.ask.last + 1, kLargest);
  if (live.evidence.facts) {
    const auto bytes = live.evidence.facts->limits.memory.kv_bytes_per_token;
    // kept in f32 it is twice what the facts count
    if (bytes && *bytes > 0) large = std::min(large, kMemory / (2 * *bytes));
  }
  if (large <= tokens)
    return live.book.lacks("M110", fmt::format("room for more than the prompt's {} tokens", tokens));
  if (live.evidence.spec != nullptr) {
    const auto at = [&](std::int64_t capacity) {
      return plan_at(live.evidence, {.seen = tokens, .capacity = capacity});
    };
    if (at(tokens) != at(large))
      return live.book.lacks("M110", "a plan that does not follow the capacity: this recipe's does");
  }
  live.book.asked("M110");
  const RowRun run = usual(live);
  const Logits due = live.drive.run(run);
  Logits got;
  const auto session = live.drive.open(large);
  live.drive.run_in(*session, run, got);
  const Verdict verdict = judge(gap(got, due), live.budget, Path::same);
  if (!verdict.differs) return;
  add(live,
      {.rule = "M110",
       .what = fmt::format("{} tokens in a session opened for {} beside one opened for {}", tokens, large,
                           tokens),
       .got = got,
       .due = due,
       .verdict = verdict},
      {});
}

}  // namespace locant::check_room
