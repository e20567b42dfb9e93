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
#include "check/curves.h"
#include "check/position_patterns.h"

namespace locant::check_room {
namespace {

struct Group {
  Pattern pattern;
  const Trace* trace = nullptr;
  std::vector<std::string> sources;
  std::string tensor;
  std::int64_t layer = -1;
  bool stated = false;
  std::vector<std::int64_t> rows;
  std::vector<Pattern> others;  ///< of further rows with the same rule
  Curve curve{};                ///< positions of the pattern's row
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
      add(groups, name_pattern(steps, row), trace, name, observations.front(), curve_of(name, row, steps));
    }
  }

  /// Positions on three axes. True when a difference was found: one is enough.
  bool judge_axes(const Trace& trace, const std::string& name, const Observation& seen, std::int64_t row,
                  std::vector<Group>& groups) {
    const Pass& pass = *seen.pass;
    if (pass.axes > 1) book_.asked("P110");
    const std::int64_t axes = std::max(pass.axes, seen.axes);
    for (std::int64_t axis = 0; axis < axes; ++axis) {
      if (pass.axes == 3 && axis >= 3) break;
      for (std::int64_t token = 0; token < pass.tokens; ++token) {
        const std::size_t at = pass.at(row, token);
        const std::int64_t due = on_axis(pass, pass.due, pass.axes, axis, at);
        const std::int64_t got = on_axis(pass, seen.positions, seen.axes, axis, at);
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
        add(groups, pattern, trace, name, seen, axis_curve(name, word, seen, row, axis));
        return true;
      }
    }
    return false;
  }

  /// Of [axes, B, T]; one axis stands for all.
  static std::int64_t on_axis(const Pass& pass, const std::vector<std::int64_t>& all, std::int64_t have,
                              std::int64_t axis, std::size_t at) {
    return all[(have == 1 ? 0 : static_cast<std::size_t>(axis)) *
                   static_cast<std::size_t>(pass.rows * pass.tokens) +
               at];
  }

  static Curve curve_of(const std::string& name, std::int64_t row, const std::vector<Step>& steps) {
    Curve curve{.name = fmt::format("The position of each token, as {} has it", name),
                .x_label = fmt::format("token of row {}, all passes", row),
                .y_label = "position"};
    for (std::size_t i = 0; i < steps.size(); ++i)
      add_point(curve, static_cast<double>(i), static_cast<double>(steps[i].due),
                static_cast<double>(steps[i].got));
    return curve;
  }

  static Curve axis_curve(const std::string& name, const std::string& axis_name, const Observation& seen,
                          std::int64_t row, std::int64_t axis) {
    const Pass& pass = *seen.pass;
    Curve curve{
        .name = fmt::format("The position of each token on the axis of {}, as {} has it", axis_name, name),
        .x_label = fmt::format("token of row {}", row),
        .y_label = "position"};
    for (std::int64_t token = 0; token < pass.tokens; ++token) {
      const std::size_t at = pass.at(row, token);
      const std::int64_t got = on_axis(pass, seen.positions, seen.axes, axis, at);
      if (!pass.content[at] || got == kUnknown) continue;
      add_point(curve, static_cast<double>(token),
                static_cast<double>(on_axis(pass, pass.due, pass.axes, axis, at)), static_cast<double>(got));
    }
    return curve;
  }

  static void add(std::vector<Group>& groups, const Pattern& pattern, const Trace& trace,
                  const std::string& name, const Observation& first, Curve curve) {
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
    group.curve = std::move(curve);
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
    finding.curves = {group.curve};
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
