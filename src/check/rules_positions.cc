// SPDX-License-Identifier: Apache-2.0
// P: positions that tokens were given, stated by position_ids or found in tables, q, k and embeddings,
// against those that are due. Equal deviations of several tensors are one finding, placed where it shows
// first.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "check/book.h"

namespace locant::check_room {
namespace {

/// One token of one row, over all passes.
struct Step {
  const Pass* pass = nullptr;
  std::int64_t token = 0;
  std::int64_t due = 0;
  std::int64_t got = 0;
};

struct Pattern {
  std::string_view rule;
  std::string text;
  std::int64_t due = 0;  ///< at the first token that differs
  std::int64_t got = 0;
  const Pass* pass = nullptr;
  std::int64_t row = 0;
  std::int64_t token = 0;
  bool shift = false;  ///< the whole row is moved by one number

  [[nodiscard]] bool operator==(const Pattern& other) const {
    return rule == other.rule && text == other.text && row == other.row;
  }
};

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

/// Names what happened to the positions of a row. `steps` holds content alone, in order.
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

struct Group {
  Pattern pattern;
  const Trace* trace = nullptr;
  std::vector<std::string> sources;
  std::string tensor;
  std::int64_t layer = -1;
  bool stated = false;
  std::vector<std::int64_t> rows;
  std::vector<Pattern> others;  ///< of further rows with the same rule
};

constexpr std::string_view kAxisNames[] = {"time", "row", "column"};

class PositionRules {
 public:
  PositionRules(const Evidence& evidence, Book& book) : evidence_(evidence), book_(book) {}

  void run() {
    for (const auto& trace : evidence_.traces) check_trace(*trace);
  }

 private:
  void check_trace(const Trace& trace) {
    // source -> passes in order
    std::vector<std::pair<std::string, std::vector<Observation>>> sources;
    const auto into = [&](Observation observation) {
      auto found = std::find_if(sources.begin(), sources.end(),
                                [&](const auto& entry) { return entry.first == observation.source; });
      if (found == sources.end()) {
        sources.push_back({observation.source, {}});
        found = sources.end() - 1;
      }
      found->second.push_back(std::move(observation));
    };
    for (const Pass& pass : trace.passes) {
      if (pass.stated.empty()) continue;
      into({"position_ids", pass.prefix + "position_ids", &trace, &pass, -1, pass.stated_axes, pass.stated});
    }
    for (const Observation& observation : book_.observations()) {
      if (observation.trace == &trace) into(observation);
    }
    std::vector<Group> groups;
    for (const auto& [name, observations] : sources) judge_source(trace, name, observations, groups);
    for (Group& group : groups) report(trace, group, groups);
  }

  void judge_source(const Trace& trace, const std::string& name, const std::vector<Observation>& observations,
                    std::vector<Group>& groups) {
    for (const std::string_view rule : {"P101", "P102", "P103", "P106", "P108", "P109", "P111"})
      book_.asked(rule);
    const Pass& start = *observations.front().pass;
    if (std::find(start.content.begin(), start.content.end(), false) != start.content.end())
      book_.asked("P104");
    if (start.rows > 1) book_.asked("P105");
    if (!start.document.empty()) book_.asked("P107");
    for (std::int64_t row = 0; row < start.rows; ++row) {
      std::vector<Step> steps;
      for (const Observation& seen : observations) {
        const Pass& pass = *seen.pass;
        if (pass.due.empty()) continue;
        if (pass.axes > 1 || seen.axes > 1) {
          if (judge_axes(trace, name, seen, row, groups)) return;
          continue;
        }
        for (std::int64_t token = 0; token < pass.tokens; ++token) {
          const std::size_t at = pass.at(row, token);
          if (!pass.content[at] || seen.positions[at] == kUnknown) continue;
          steps.push_back({&pass, token, pass.due[at], seen.positions[at]});
        }
      }
      if (std::all_of(steps.begin(), steps.end(), [](const Step& step) { return step.got == step.due; }))
        continue;
      add(groups, name_pattern(steps, row), trace, name, observations.front());
    }
  }

  /// Positions on three axes. True when a difference was found: one is enough.
  bool judge_axes(const Trace& trace, const std::string& name, const Observation& seen, std::int64_t row,
                  std::vector<Group>& groups) {
    const Pass& pass = *seen.pass;
    if (pass.axes > 1) book_.asked("P110");
    const std::int64_t axes = std::max(pass.axes, seen.axes);
    const auto of = [&](const std::vector<std::int64_t>& all, std::int64_t have, std::int64_t axis,
                        std::size_t at) {
      return all[(have == 1 ? 0 : static_cast<std::size_t>(axis)) *
                     static_cast<std::size_t>(pass.rows * pass.tokens) +
                 at];
    };
    for (std::int64_t axis = 0; axis < axes; ++axis) {
      if (pass.axes == 3 && axis >= 3) break;
      for (std::int64_t token = 0; token < pass.tokens; ++token) {
        const std::size_t at = pass.at(row, token);
        const std::int64_t due = of(pass.due, pass.axes, axis, at);
        const std::int64_t got = of(seen.positions, seen.axes, axis, at);
        if (!pass.content[at] || got == kUnknown || got == due) continue;
        Pattern pattern;
        pattern.rule = "P110";
        pattern.due = due;
        pattern.got = got;
        pattern.pass = &pass;
        pattern.row = row;
        pattern.token = token;
        const std::string word(axis < 3 ? kAxisNames[axis] : std::string_view("fourth"));
        pattern.text = fmt::format("axis {} ({}) of row {}: token {} has {} where {} is due", axis, word, row,
                                   token, got, due);
        add(groups, pattern, trace, name, seen);
        return true;
      }
    }
    return false;
  }

  static void add(std::vector<Group>& groups, const Pattern& pattern, const Trace& trace,
                  const std::string& name, const Observation& first) {
    for (Group& group : groups) {
      const bool same_source =
          std::find(group.sources.begin(), group.sources.end(), name) != group.sources.end();
      if (group.pattern == pattern || std::any_of(group.others.begin(), group.others.end(),
                                                  [&](const Pattern& o) { return o == pattern; })) {
        if (!same_source) group.sources.push_back(name);
        return;
      }
      if (same_source && group.pattern.rule == pattern.rule && group.pattern.row != pattern.row) {
        group.others.push_back(pattern);
        return;
      }
    }
    Group group;
    group.pattern = pattern;
    group.trace = &trace;
    group.sources = {name};
    group.tensor = first.tensor;
    group.layer = first.layer;
    group.stated = name == "position_ids";
    groups.push_back(std::move(group));
  }

  /// Nothing but distances between positions matters to this stack.
  bool only_distances(const Trace& trace) const {
    const StackPositions* const positions = evidence_.positions(trace);
    if (positions == nullptr || !positions->embedding.empty()) return false;
    for (const auto& layer : positions->layers) {
      for (const PositionSpec& spec : layer) {
        if (find_mechanism(spec.mechanism).site == Site::query_scale) return false;
      }
    }
    return true;
  }

  /// The same number in every tensor that was looked at: a row as a whole stands elsewhere.
  bool harmless(const Trace& trace, const Group& group, const std::vector<Group>& all) const {
    // other ranks hold other tokens of the row, at distances that change
    if (!group.pattern.shift || trace.sliced || !only_distances(trace)) return false;
    if (all.size() > 1) return false;
    std::set<std::string> layers_seen;
    for (const Observation& observation : book_.observations()) {
      if (observation.trace == &trace && observation.layer >= 0) layers_seen.insert(observation.source);
    }
    // Tensors of layers that show nothing odd contradict: then it is no shift of all.
    for (const std::string& source : layers_seen) {
      if (std::find(group.sources.begin(), group.sources.end(), source) == group.sources.end()) return false;
    }
    return true;
  }

  void report(const Trace& trace, const Group& group, const std::vector<Group>& all) {
    Finding finding;
    const bool note = harmless(trace, group, all);
    finding.severity = note ? Severity::note : Severity::error;
    finding.message = fmt::format("{}: {}", sources_text(group.sources), group.pattern.text);
    if (!group.others.empty()) {
      finding.message +=
          fmt::format("; so are {} more row{}", group.others.size(), group.others.size() == 1 ? "" : "s");
    }
    if (note) finding.message += "; all of it alike, which this mechanism does not see";
    finding.where.file = trace.path;
    finding.where.tensor = group.tensor;
    if (group.layer >= 0) finding.where.layer = group.layer;
    finding.where.step = group.pattern.pass->step;
    finding.where.row = group.pattern.row;
    finding.where.token = group.pattern.token;
    finding.expected = static_cast<double>(group.pattern.due);
    finding.observed = static_cast<double>(group.pattern.got);
    finding.hypotheses = {{group.pattern.text, {{"position", static_cast<double>(group.pattern.got)}}, 0, 0}};
    book_.add(group.pattern.rule, Depth::positions, std::move(finding), "positions");
  }

  static std::string sources_text(const std::vector<std::string>& sources) {
    if (sources.size() <= 3) return fmt::format("{}", fmt::join(sources, ", "));
    return fmt::format("{}, {} and {} more", sources[0], sources[1], sources.size() - 2);
  }

  const Evidence& evidence_;
  Book& book_;
};

}  // namespace

void check_positions(const Evidence& evidence, Book& book) {
  PositionRules(evidence, book).run();
}

}  // namespace locant::check_room
