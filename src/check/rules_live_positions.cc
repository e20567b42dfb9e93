// SPDX-License-Identifier: Apache-2.0
// M107, M108, M111: a shift of all positions, the order of tokens, and positions that are given.
#include <fmt/format.h>

#include <algorithm>

#include "check/live_rules.h"

namespace locant::check_room {
namespace {

constexpr std::string_view kTakesPositions = "a live runtime that takes positions";

bool lacks_positions(Live& live, std::string_view id) {
  if (live.takes_positions) return false;
  if (live.book.lacking(id).empty()) live.book.lacks(id, std::string(kTakesPositions));
  return true;
}

Logits at(Live& live, Ids positions) {
  return live.drive.run(RowRun{.ids = live.ask.prompt, .positions = std::move(positions)});
}

/// A finding of something that ought to change and does not.
Finding unchanged(std::string_view rule, std::string message, std::string cause) {
  Finding finding;
  finding.severity = find_rule(rule).severity;
  finding.message = std::move(message);
  finding.expected = std::string("other logits");
  finding.observed = std::string("the same logits");
  finding.hypotheses = {{std::move(cause), {}, 0, 0}};
  return finding;
}

/// "bf16 holds every whole number up to 256 only", where a difference begins there.
std::string where_dtypes_end(std::int64_t position) {
  for (const auto& [end, name] : {std::pair<std::int64_t, std::string_view>(256, "bf16"), {2048, "f16"}}) {
    if (position >= end && position < end + 16)
      return fmt::format("it begins where {} ends to hold every whole number, {}", name, end);
  }
  return {};
}

}  // namespace

void check_given(Live& live) {
  if (lacks_positions(live, "M111")) return;
  live.book.asked("M111");
  const Logits due = at(live, counted(0, live.tokens()));
  const Logits& got = live.whole;
  const Verdict verdict = judge(gap(got, due), live.budget, Path::same);
  if (verdict.differs) {
    std::vector<Candidate> candidates;
    for (const std::int64_t start : {1, 2, -1, -2}) {
      candidates.push_back({.cause = fmt::format("without positions it counts from {}", start),
                            .parameters = {{"start", static_cast<double>(start)}},
                            .run = [&live, start] { return at(live, counted(start, live.tokens())); },
                            .position = [start](std::int64_t token) { return token + start; }});
    }
    candidates.push_back({.cause = "without positions all tokens stand at 0",
                          .parameters = {},
                          .run = [&live] { return at(live, Ids(live.ask.prompt.size(), 0)); },
                          .position = [](std::int64_t) { return 0; }});
    add(live,
        {.rule = "M111",
         .what = "a prompt without positions beside the same with positions 0, 1, 2 .. given",
         .got = got,
         .due = due,
         .verdict = verdict},
        explain(got, due, live.budget, candidates));
    return;
  }
  if (!live.ask.marks) return;
  // all at one place: the largest change there is
  const double change = gap(at(live, Ids(live.ask.prompt.size(), 0)), due).largest;
  if (change > live.budget.floor) return;
  const bool none = live.ask.absolute && [&] {
    // one token twice: alike wherever nothing is added to tell the two apart
    const Logits twice = live.drive.run(RowRun{.ids = {live.ask.prompt[0], live.ask.prompt[0]}});
    return gap(twice.part(1, 1), twice.part(0, 1)).largest <= live.budget.floor;
  }();
  Finding finding =
      unchanged("M111",
                fmt::format("{} tokens all at position 0 give the logits of positions 0 to {}, within "
                            "{:.1g} of the largest",
                            live.tokens(), live.tokens() - 1, live.budget.floor),
                none ? "nothing marks positions: one token twice gives one row of logits twice"
                     : "nothing marks positions, or given ones are not read");
  // a bias may count keys by the mask alone: then given positions are passed over by design
  if (live.ask.bias_alone) finding.severity = Severity::note;
  live.book.add("M111", Depth::behaviour, std::move(finding), "no positions");
  live.takes_positions = false;  // what is given tells nothing from here on
  live.book.lacks("M107", "a live runtime that reads the positions it is given (M111)");
}

void check_order(Live& live) {
  if (!live.ask.marks) return live.book.lacks("M108", "a plan that marks positions: this one has none");
  live.book.asked("M108");
  const auto changes = [&](const Ids& ids) {
    const Logits logits = live.drive.run(RowRun{.ids = ids});
    const std::int64_t last = live.tokens() - 1;
    return gap(logits.part(last, 1), live.whole.part(last, 1)).largest > live.budget.floor;
  };
  // the nearest earlier token, and the nearest other one before it, change places: inside any window
  Ids swapped = live.ask.prompt;
  const std::size_t second = swapped.size() - 2;
  std::size_t first = second;
  while (first > 0 && swapped[first] == swapped[second]) --first;
  std::swap(swapped[first], swapped[second]);
  if (changes(swapped)) return;
  Ids replaced = live.ask.prompt;
  replaced[second] = replaced[first];
  const bool seen = changes(replaced);
  live.book.add(
      "M108", Depth::composed,
      unchanged(
          "M108",
          fmt::format("tokens {} and {} change places and the logits of the last token stay, within {:.1g} "
                      "of the largest",
                      first, second, live.budget.floor),
          seen ? "earlier tokens are a set: nothing marks their order" : "earlier tokens are not seen"),
      seen ? "no positions" : "");
}

void check_shift(Live& live) {
  if (lacks_positions(live, "M107")) return;
  if (!live.ask.not_relative.empty())
    return live.book.lacks("M107",
                           "a plan whose positions act by their differences alone: " + live.ask.not_relative);
  const std::int64_t room = std::min(live.ask.last + 1, live.ask.same_until) - live.tokens();
  if (room < 1)
    return live.book.lacks("M107", fmt::format("positions behind the prompt: the plan holds for {} of them",
                                               live.tokens() + room));
  live.book.asked("M107");
  // far enough for 16-bit positions to collide, with angles that f32 still holds to 2^-24 * 3000 = 2e-4 rad
  const std::int64_t far = std::min<std::int64_t>(room, 2400);
  const Logits due = at(live, counted(0, live.tokens()));
  const double near = gap(at(live, counted(1, live.tokens())), due).largest;
  const Logits got = at(live, counted(far, live.tokens()));
  // tables of cos and sin in 16 bits round every position in another way, as a cache does
  const Verdict verdict = judge(gap(got, due), live.budget, Path::cached);
  if (!verdict.differs) return;
  const std::string collide = where_dtypes_end(far + verdict.first);
  add(live,
      {.rule = "M107",
       .what =
           fmt::format("positions {} to {} beside 0 to {}", far, far + live.tokens() - 1, live.tokens() - 1),
       .got = got,
       .due = due,
       .verdict = verdict,
       .also =
           fmt::format("a shift by 1 moves them by {:.2g}{}{}", near, collide.empty() ? "" : "; ", collide)},
      {});
}

}  // namespace locant::check_room
