// SPDX-License-Identifier: Apache-2.0
// Family M: a live runtime has to give one answer in every way that it is asked. The order of the rules
// matters: a runtime that remembers what ran before is told first, and what could leave traces in it runs
// last.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "check/live_rules.h"

namespace locant::check_room {
namespace {

/// Fewer tokens show little of positions.
constexpr std::int64_t kFewest = 8;
constexpr std::size_t kDifferent = 3;

constexpr std::array<std::string_view, 13> kFamily = {"M101", "M102", "M103", "M104", "M105", "M106", "M107",
                                                      "M108", "M109", "M110", "M111", "M112", "M113"};

/// Whether every logit is a number of 16 bits.
bool in_16_bits(const Logits& logits) {
  const auto all = [&](auto narrow) {
    return std::all_of(logits.data.begin(), logits.data.end(),
                       [&](float value) { return std::isnan(value) || narrow(value) == value; });
  };
  return all([](float value) { return f32_from(bfloat16_from_f32(value)); }) ||
         all([](float value) { return f32_from(half_from_f32(value)); });
}

Depth depth_of(std::string_view id) {
  if (id == "M101" || id == "M105") return Depth::called;
  if (id == "M102" || id == "M103" || id == "M106" || id == "M112") return Depth::composed;
  return id == "M104" ? Depth::padded : Depth::behaviour;
}

/// A rule on its own: a runtime that stops in the middle of what it must be able to do is a finding.
template <class Call>
void ask(Live& live, std::string_view id, Call call) {
  // history is asked for in any case: without it nothing can be compared
  if (!live.wanted(id) && id != "M109") return;
  if (live.query.progress) live.query.progress(fmt::format("{} {}", id, find_rule(id).name));
  std::string stopped;
  try {
    call();
  } catch (const SpecError& error) {
    stopped = error.what();
  } catch (const std::out_of_range& error) {
    stopped = error.what();
  }
  if (stopped.empty()) return;
  Finding finding;
  finding.severity = find_rule(id).severity;
  finding.message =
      fmt::format("the runtime stops though tokens, positions and capacity are in range: {}", stopped);
  finding.hypotheses = {{"the runtime stops", {}, 0, 0}};
  live.book.add(id, depth_of(id), std::move(finding), "the runtime stops");
}

std::string place_of(const Gap& gap, std::int64_t first_token) {
  const auto worst = std::max_element(gap.at.begin(), gap.at.end());
  return fmt::format("{:.2g} at token {}", *worst, first_token + (worst - gap.at.begin()));
}

/// The column that differs most at a token.
std::size_t worst_column(const Logits& got, const Logits& due, std::int64_t token) {
  const auto a = got.at(token);
  const auto b = due.at(token);
  std::size_t worst = 0;
  double largest = -1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (std::isfinite(difference) && difference <= largest) continue;
    if (a[i] == b[i]) continue;
    worst = i;
    largest = difference;
    if (!std::isfinite(difference)) break;
  }
  return worst;
}

/// What a depth and a width explain, in units of the largest logit.
struct Rounding {
  double single, half, cache;
};

Rounding rounding_of(const Live& live) {
  const auto layers = static_cast<double>(std::max<std::int64_t>(live.ask.layers, 1));
  const double width = live.evidence.spec != nullptr ? static_cast<double>(live.evidence.spec->hidden) : 1024;
  // About 8 roundings of the state a layer, which add up as a random walk; the largest of many logits is four
  // times as far off as the usual one. In f32 the order of a sum over the width is what differs. A cache
  // rounds two things a layer, keys and values.
  return {.single = 4 * 0x1p-24 * std::sqrt(8 * layers) * std::sqrt(width),
          .half = 4 * 0x1p-9 * std::sqrt(8 * layers),
          .cache = 4 * 0x1p-9 * std::sqrt(2 * layers)};
}

}  // namespace

LiveBudget repeat_budget(const Live& live, const Logits& logits) {
  const auto [single, half, cache] = rounding_of(live);
  const bool coarse = in_16_bits(logits);
  const double budget = coarse ? half : 32 * single;  // sums in whatever order threads come
  return {.floor = single, .lower = budget, .upper = budget, .cached = budget, .coarse = coarse};
}

LiveBudget measure_budget(Live& live) {
  const auto [single, half, cache] = rounding_of(live);
  double measured = 0;
  const std::int64_t tokens = live.tokens();
  for (const std::int64_t part :
       std::set<std::int64_t>{1, 2, 3, 5, 8, 13, tokens / 4, tokens / 2, tokens - 1}) {
    if (!live.ask.causal || part < 1 || part >= tokens) continue;
    const Logits beginning =
        live.drive.run(RowRun{.ids = {live.ask.prompt.begin(), live.ask.prompt.begin() + part}});
    const double largest = gap(beginning, live.whole.part(0, part)).largest;
    if (largest <= half) measured = std::max(measured, largest);  // beyond is M113's
  }
  LiveBudget budget{.floor = single};
  // Kernels for other shapes round elsewhere: four times what was seen on a few of them.
  budget.lower = std::max(single, std::min(4 * measured, half));
  budget.coarse = in_16_bits(live.whole) || measured > 32 * single;
  budget.upper = budget.coarse ? half : budget.lower;
  budget.cached = budget.coarse ? half : std::max(cache, budget.lower);
  return budget;
}

void add(Live& live, const Difference& difference, const Explanation& explanation) {
  const Gap beside = gap(difference.got, difference.due);
  const std::int64_t first = difference.verdict.first;
  const std::int64_t token = difference.first_token + first;
  Finding finding;
  finding.severity = difference.severity;
  finding.where.row = difference.row;
  finding.where.token = token;
  if (difference.first_step) finding.where.step = *difference.first_step + first;
  finding.message =
      fmt::format("{}: logits differ from token {} on by {:.2g} of the largest, {:.1g} is rounding",
                  difference.what, token, beside.at[static_cast<std::size_t>(first)], live.budget.lower);
  if (beside.largest > 2 * beside.at[static_cast<std::size_t>(first)])
    finding.message += fmt::format("; {}", place_of(beside, difference.first_token));
  if (explanation.best != nullptr) finding.message += fmt::format("; {}", explanation.best->cause);
  if (!difference.also.empty()) finding.message += fmt::format("; {}", difference.also);
  if (explanation.best != nullptr && explanation.best->position) {
    finding.expected = fmt::format("position {}", token);
    finding.observed = fmt::format("position {}", explanation.best->position(token));
  } else {
    const std::size_t column = worst_column(difference.got, difference.due, first);
    finding.expected = static_cast<double>(difference.due.at(first)[column]);
    finding.observed = static_cast<double>(difference.got.at(first)[column]);
  }
  finding.hypotheses = explanation.hypotheses;
  if (finding.hypotheses.empty())
    finding.hypotheses = {{"none of the causes that were tried", {}, beside.spread, live.budget.lower}};
  live.book.add(
      difference.rule, difference.depth, std::move(finding),
      difference.cause.empty() && explanation.best != nullptr ? explanation.best->cause : difference.cause);
}

void check_live(const CheckQuery& query, const Evidence& evidence, Book& book) {
  if (query.runtime == nullptr) return;
  const auto any = std::any_of(kFamily.begin(), kFamily.end(),
                               [&](std::string_view id) { return chosen(find_rule(id), query); });
  if (!any) return;
  LiveQuestion question = question_of(query, evidence);
  const auto tokens = static_cast<std::int64_t>(question.prompt.size());
  const auto lack = [&](const std::string& what) {
    for (const std::string_view id : kFamily) book.lacks(id, what);
  };
  if (tokens < kFewest)
    return lack(fmt::format("a live prompt of {} tokens or more, got {}", kFewest, tokens));
  const auto different = std::set<std::int64_t>(question.prompt.begin(), question.prompt.end()).size();
  // where all keys carry one value, it does not matter where they stand
  if (different < kDifferent)
    return lack(fmt::format("a live prompt of {} different tokens, got {}", kDifferent, different));
  if (tokens > question.same_until) {
    return lack(
        fmt::format("a live prompt of {} tokens or fewer, got {}: from there on the plan follows the length",
                    question.same_until, tokens));
  }
  Live live{query, evidence, book, std::move(question), Drive(*query.runtime, tokens)};
  const Logits first = first_run(live);
  const auto nan = std::find_if(live.whole.data.begin(), live.whole.data.end(),
                                [](float value) { return std::isnan(value); });
  if (nan != live.whole.data.end()) {
    throw SpecError(fmt::format("check: logits of a prompt must be numbers, {} gives none at token {}",
                                query.runtime->name(), (nan - live.whole.data.begin()) / live.whole.columns));
  }
  ask(live, "M109", [&] { check_history(live, first); });
  if (std::any_of(book.drafts().begin(), book.drafts().end(),
                  [](const Draft& draft) { return draft.finding.rule->id == "M109"; })) {
    return lack("a runtime whose answer does not depend on what ran before (M109)");
  }
  live.takes_positions = live.drive.takes_positions(live.ask.prompt.front());
  live.budget = measure_budget(live);
  ask(live, "M113", [&] { check_later_tokens(live); });
  ask(live, "M111", [&] { check_given(live); });
  ask(live, "M108", [&] { check_order(live); });
  ask(live, "M107", [&] { check_shift(live); });
  ask(live, "M101", [&] { check_steps(live); });
  ask(live, "M102", [&] { check_chunks(live); });
  ask(live, "M112", [&] { check_fork(live); });
  ask(live, "M105", [&] { check_rows(live); });
  ask(live, "M103", [&] { check_padding(live, Padding::left); });
  ask(live, "M104", [&] { check_padding(live, Padding::right); });
  ask(live, "M106", [&] { check_packed(live); });
  ask(live, "M110", [&] { check_capacity(live); });
  ask(live, "M109", [&] { check_long_history(live); });
}

}  // namespace locant::check_room
