// SPDX-License-Identifier: Apache-2.0
#include "check/explain.h"

#include <algorithm>
#include <cmath>

#include "check/fitted.h"

namespace locant::check_room {
namespace {

struct Judged {
  const Ladder* ladder = nullptr;
  double left = 0;
  double allowed = 0;
};

Hypothesis hypothesis_of(const Ladder& ladder, double left, double allowed) {
  return {.cause = ladder.text, .parameters = ladder.parameters, .residual = left, .budget = allowed};
}

bool stands_still(const Question& asked, const Ladder& planned) {
  Ladder missing = planned;
  missing.times = 0;
  Ladder twice = planned;
  twice.times = 2;
  const double allowed = budget(asked.turns, planned, asked.due, asked.dtype);
  return residual(asked.turns, missing, asked.due) <= allowed &&
         residual(asked.turns, twice, asked.due) <= allowed;
}

class Search {
 public:
  explicit Search(const Question& asked) : asked_(asked) {}

  Verdict run() {
    planned_ = ladder_of(asked_.planned);
    planned_.text = "as planned";
    own_ = left(planned_, asked_.due);
    own_allowed_ = allowed(planned_, asked_.due);
    if (own_ <= own_allowed_) {
      verdict_.fine = true;
      verdict_.tells = !stands_still(asked_, planned_);
      return std::move(verdict_);
    }
    if (stated() || elsewhere()) return finish();
    ladders_ = candidates(asked_.query, asked_.planned);
    for (const Ladder& ladder : asked_.found) {
      if (ladder.inv_freq.size() == planned_.inv_freq.size()) ladders_.push_back(ladder);
    }
    judge();
    if (known_change()) return finish();
    if (moved(planned_, "the planned ladder at other positions")) return finish();
    if (fitted()) return finish();
    if (two_causes()) return std::move(verdict_);
    finish();
    if (!judged_.empty()) keep(*judged_[0].ladder, judged_[0].left, judged_[0].allowed);
    return std::move(verdict_);
  }

 private:
  double left(const Ladder& ladder, const TokenPositions& at) const {
    return residual(asked_.turns, ladder, at);
  }
  double allowed(const Ladder& ladder, const TokenPositions& at) const {
    return budget(asked_.turns, ladder, at, asked_.dtype);
  }
  void keep(const Ladder& ladder, double residue, double budget) {
    verdict_.hypotheses.push_back(hypothesis_of(ladder, residue, budget));
  }
  Verdict finish() {
    keep(planned_, own_, own_allowed_);
    return std::move(verdict_);
  }
  void keep_as(const std::string& text, const TokenPositions& at) {
    Ladder label = planned_;
    label.text = text;
    keep(label, left(planned_, at), allowed(planned_, at));
  }

  bool stated() {
    if (asked_.stated == nullptr || !(left(planned_, *asked_.stated) <= allowed(planned_, *asked_.stated)))
      return false;
    verdict_.as_stated = true;
    verdict_.ladder = planned_;
    keep_as("the planned ladder at the stated positions", *asked_.stated);
    return true;
  }

  bool elsewhere() {
    for (const TokenPositions& at : asked_.elsewhere) {
      if (at.axes != 1 || !(left(planned_, at) <= allowed(planned_, at))) continue;
      verdict_.ladder = planned_;
      verdict_.positions = at.values;
      keep_as("the planned ladder where the tables stand", at);
      return true;
    }
    return false;
  }

  void judge() {
    for (auto ladder = ladders_.begin() + 1; ladder != ladders_.end(); ++ladder) {
      if (asked_.table && ladder->cause == Cause::twice) continue;
      judged_.push_back({&*ladder, left(*ladder, asked_.due), allowed(*ladder, asked_.due)});
    }
    by_excess(judged_);
  }

  /// Of two that reproduce the turns, the one that is meant to: by excess, then in the order of the list.
  static void by_excess(std::vector<Judged>& all) {
    std::stable_sort(all.begin(), all.end(), [](const Judged& a, const Judged& b) {
      return std::max(a.left / a.allowed, 1.0) < std::max(b.left / b.allowed, 1.0);
    });
  }

  bool known_change() {
    if (judged_.empty() || judged_[0].left > judged_[0].allowed) return false;
    const Cause cause = judged_[0].ladder->cause;
    const bool like_a_position = cause == Cause::missing || cause == Cause::twice;
    if (asked_.turned_before && like_a_position && moved(planned_, "the planned ladder at other positions"))
      return true;
    verdict_.ladder = *judged_[0].ladder;
    for (std::size_t i = 0; i < judged_.size() && i < 3; ++i)
      keep(*judged_[i].ladder, judged_[i].left, judged_[i].allowed);
    return true;
  }

  bool moved(const Ladder& ladder, const std::string& text) {
    std::optional<std::vector<std::int64_t>> positions =
        fit_positions(asked_.turns, ladder, asked_.due, asked_.dtype);
    if (!positions) return false;
    verdict_.ladder = ladder;
    const TokenPositions at{1, *positions};
    Ladder label = ladder;
    label.text = text;
    keep(label, left(ladder, at), allowed(ladder, at));
    verdict_.positions = std::move(positions);
    return true;
  }

  bool fitted() {
    const std::vector<Ladder> all = fitted_ladders(asked_.turns, asked_.query, asked_.due, planned_);
    std::vector<Judged> ranked;
    ranked.reserve(all.size());
    for (const Ladder& ladder : all)
      ranked.push_back({&ladder, left(ladder, asked_.due), allowed(ladder, asked_.due)});
    by_excess(ranked);
    for (const Judged& one : ranked) keep(*one.ladder, one.left, one.allowed);
    if (!ranked.empty() && ranked[0].left <= 2 * ranked[0].allowed) verdict_.ladder = *ranked[0].ladder;
    return verdict_.ladder.has_value();
  }

  /// Another ladder at other positions.
  bool two_causes() {
    for (std::size_t i = 0; i < judged_.size() && i < 12; ++i) {
      const Ladder& ladder = *judged_[i].ladder;
      if (ladder.times == 0) continue;
      std::optional<std::vector<std::int64_t>> positions =
          fit_positions(asked_.turns, ladder, asked_.due, asked_.dtype);
      if (!positions) continue;
      const TokenPositions at{1, *positions};
      verdict_.ladder = ladder;
      verdict_.hypotheses.insert(verdict_.hypotheses.begin(),
                                 hypothesis_of(ladder, left(ladder, at), allowed(ladder, at)));
      verdict_.positions = std::move(positions);
      return true;
    }
    return false;
  }

  const Question& asked_;
  Ladder planned_;
  double own_ = 0;
  double own_allowed_ = 0;
  std::vector<Ladder> ladders_;
  std::vector<Judged> judged_;
  Verdict verdict_;
};

}  // namespace

Verdict explain(const Question& question) {
  return Search(question).run();
}

}  // namespace locant::check_room
