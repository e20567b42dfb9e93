// SPDX-License-Identifier: Apache-2.0
#include "check/position_patterns.h"

#include <fmt/format.h>

#include <algorithm>

namespace locant::check_room {
namespace {

std::int64_t pads_before(const Step& step, std::int64_t row) {
  const Pass& pass = *step.pass;
  std::int64_t pads = 0;
  const std::int64_t end = pass.width - pass.tokens + step.token;
  for (std::int64_t column = 0; column < end; ++column)
    pads += pass.columns[static_cast<std::size_t>(row * pass.width + column)] ? 0 : 1;
  return pads;
}

std::string at_text(const Step& step, std::int64_t row) {
  return step.pass->step > 0 ? fmt::format("step {}, row {}, token {}", step.pass->step, row, step.token)
                             : fmt::format("row {}, token {}", row, step.token);
}

/// What a shift of whole passes grows by from each to the next; 0 when it does not.
std::int64_t growth_of(const std::vector<Step>& steps) {
  std::vector<std::int64_t> shifts;  // of each pass
  const Pass* last = nullptr;
  for (const Step& step : steps) {
    const std::int64_t shift = step.got - step.due;
    if (step.pass == last && shift != shifts.back()) return 0;
    if (step.pass != last) shifts.push_back(shift);
    last = step.pass;
  }
  if (shifts.size() < 3 || shifts[0] == 0) return 0;
  const std::int64_t growth = shifts[1] - shifts[0];
  for (std::size_t i = 1; i < shifts.size(); ++i) {
    if (shifts[i] - shifts[i - 1] != growth) return 0;
  }
  return growth;
}

}  // namespace

Pattern name_pattern(const std::vector<Step>& steps, std::int64_t row) {
  const auto differs = [](const Step& step) { return step.got != step.due; };
  const auto first = std::find_if(steps.begin(), steps.end(), differs);
  const Step& begin = *first;
  Pattern pattern;
  pattern.due = begin.due;
  pattern.got = begin.got;
  pattern.pass = begin.pass;
  pattern.row = row;
  pattern.token = begin.token;
  const std::int64_t shift = begin.got - begin.due;
  const bool whole_row =
      first == steps.begin() &&
      std::all_of(steps.begin(), steps.end(), [&](const Step& s) { return s.got - s.due == shift; });
  const bool shifted_on =
      std::all_of(first, steps.end(), [&](const Step& s) { return s.got - s.due == shift; });
  const auto say = [&](std::string_view rule, std::string text) {
    pattern.rule = rule;
    pattern.text = std::move(text);
    return pattern;
  };
  if (whole_row) {
    pattern.shift = true;
    const std::int64_t pads = pads_before(begin, row);
    if (pads > 0 && shift == pads) {
      return say("P104",
                 fmt::format("row {} counts its {} pads: content starts at position {} where {} is due", row,
                             pads, begin.got, begin.due));
    }
    if (row > 0 && shift == row * begin.pass->tokens) {
      return say("P105",
                 fmt::format("positions are counted over the batch: row {} starts at {} where {} is due", row,
                             begin.got, begin.due));
    }
    return say("P103", fmt::format("row {} is moved by {:+}: it starts at position {} where {} is due", row,
                                   shift, begin.got, begin.due));
  }
  const std::int64_t pads = pads_before(begin, row);
  // The first tokens are moved by one number, later ones are right again.
  const auto right = std::find_if(steps.begin(), steps.end(), [](const Step& s) { return s.got == s.due; });
  const bool only_first = first == steps.begin() && right != steps.end() &&
                          std::all_of(first, right, [&](const Step& s) { return s.got - s.due == shift; });
  if (only_first && pads > 0 && shift == pads) {
    return say(
        "P104",
        fmt::format("row {} counts its {} pads up to {}: content starts at position {} where {} is due, "
                    "later tokens do not count them",
                    row, pads, at_text(*right, row), begin.got, begin.due));
  }
  if (only_first && row > 0 && shift == row * begin.pass->tokens) {
    return say("P105", fmt::format("positions are counted over the batch up to {}: row {} starts at {} where "
                                   "{} is due",
                                   at_text(*right, row), row, begin.got, begin.due));
  }
  if (const std::int64_t growth = growth_of(steps); growth != 0) {
    return say("P103",
               fmt::format("row {} is moved by {:+} and by {:+} more with each call: position {} where "
                           "{} is due",
                           row, shift, growth, begin.got, begin.due));
  }
  // Tokens from here on that all have one position.
  std::size_t same = 0;
  for (auto it = first; it != steps.end() && it->got == begin.got; ++it) ++same;
  const bool repeats_before = first != steps.begin() && (first - 1)->got == begin.got;
  if (same > 1 || repeats_before) {
    const auto count = static_cast<std::int64_t>(same) + (repeats_before ? 1 : 0);
    const Step& last = *(first + static_cast<std::ptrdiff_t>(same) - 1);
    return say(
        "P101",
        fmt::format("position {} is given to {} tokens of row {}; at {} position {} is due, at {} "
                    "position {}",
                    begin.got, count, row, at_text(begin, row), begin.due, at_text(last, row), last.due));
  }
  if (!begin.pass->document.empty()) {
    const std::size_t at = begin.pass->at(row, begin.token);
    if (begin.token > 0 && begin.pass->document[at] != begin.pass->document[at - 1] &&
        begin.got == (first - 1)->got + 1) {
      return say("P107",
                 fmt::format("row {} does not start over at its document boundary: token {} has position {} "
                             "where {} is due",
                             row, begin.token, begin.got, begin.due));
    }
  }
  if (begin.got == 0 && begin.due > 0) {
    return say("P106", fmt::format("row {} starts over at {}: position 0 where {} is due", row,
                                   at_text(begin, row), begin.due));
  }
  const bool multiplied = begin.due != 0 && begin.got % begin.due == 0 && begin.got / begin.due > 1 &&
                          std::all_of(steps.begin(), steps.end(), [&](const Step& s) {
                            return s.got == s.due * (begin.got / begin.due);
                          });
  if (multiplied) {
    return say("P109", fmt::format("positions of row {} are multiplied by {}: {} where {} is due", row,
                                   begin.got / begin.due, begin.got, begin.due));
  }
  if (first != steps.begin() && begin.got < (first - 1)->got) {
    return say("P108", fmt::format("positions of row {} go back at {}: from {} to {} where {} is due", row,
                                   at_text(begin, row), (first - 1)->got, begin.got, begin.due));
  }
  if (first != steps.begin() && begin.got > (first - 1)->got + 1 && shift > 0) {
    return say("P102", fmt::format("row {} skips {} position{} at {}: {} where {} is due{}", row, shift,
                                   shift == 1 ? "" : "s", at_text(begin, row), begin.got, begin.due,
                                   shifted_on ? ", and all that follow" : ""));
  }
  if (shifted_on) {
    return say("P103", fmt::format("row {} is moved by {:+} from {} on: position {} where {} is due", row,
                                   shift, at_text(begin, row), begin.got, begin.due));
  }
  return say("P111", fmt::format("positions of row {} differ from those due, first at {}: {} where {} is due",
                                 row, at_text(begin, row), begin.got, begin.due));
}

}  // namespace locant::check_room
