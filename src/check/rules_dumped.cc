// SPDX-License-Identifier: Apache-2.0
// Tables that a runtime keeps, dumped as they are: rope.inv_freq [P] (rope.<kind>.inv_freq), bias.slopes
// [heads]. And the end of a trained table against the positions that are used (T106).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>

#include "check/explain.h"
#include "check/matrix.h"
#include "check/rotation_report.h"
#include "check/scores.h"

namespace locant::check_room {
namespace {

constexpr std::string_view kSlopes = "bias.slopes";
constexpr std::int64_t kPositions = 128;  // at which a list of frequencies is laid out as turns

/// Frequencies as the turns they give at positions 0, 1, ...
Turns turns_at(const std::vector<float>& inv_freq) {
  Turns turns;
  turns.pairs = static_cast<std::int64_t>(inv_freq.size());
  for (std::int64_t position = 0; position < kPositions; ++position) {
    turns.row.push_back(0);
    turns.token.push_back(position);
    for (const float frequency : inv_freq) {
      turns.factor.push_back(std::polar(1.0, static_cast<double>(position) * static_cast<double>(frequency)));
      turns.weight.push_back(1);
    }
  }
  return turns;
}

class DumpedRules {
 public:
  DumpedRules(const Evidence& evidence, Book& book) : evidence_(evidence), book_(book) {}

  void run() {
    for (const auto& trace : evidence_.traces) {
      const StackPositions* const positions = evidence_.positions(*trace);
      if (positions == nullptr) continue;
      for (const std::string& name : trace->reader.names()) {
        const TensorRef tensor = recorded(trace->reader, name);
        if (tensor.data == nullptr) continue;
        if (name.starts_with("rope.") && name.ends_with("inv_freq"))
          check_frequencies(*trace, *positions, name, tensor);
        if (name == kSlopes) check_slopes(*trace, *positions, tensor);
      }
      check_end(*trace);
    }
  }

 private:
  Finding at(const Trace& trace, std::string_view tensor) const {
    Finding finding;
    finding.where.file = trace.path;
    finding.where.tensor = std::string(tensor);
    return finding;
  }

  void check_frequencies(const Trace& trace, const StackPositions& positions, const std::string& name,
                         const TensorRef& tensor) {
    const Values values = values_of(tensor, trace.path + ": " + name);
    if (values.shape.size() != 1 || values.data.empty()) {
      throw FileError(trace.path, fmt::format("{} is [pairs], got {}", name, tensor.shape_text()));
    }
    for (const std::string_view rule : {"T101", "T102", "T103", "T104"}) book_.asked(rule);
    if (!std::all_of(values.data.begin(), values.data.end(), [](float x) { return std::isfinite(x); })) {
      Finding finding = at(trace, name);
      finding.message = fmt::format("{}: some frequencies are not finite", name);
      finding.observed = std::string("not finite");
      book_.add("T104", Depth::tables, std::move(finding), "not finite");
      return;
    }
    std::optional<Verdict> best;
    std::optional<Rotation> best_plan;
    const std::int64_t configured = evidence_.spec->lengths.configured.value_or(0);
    for (const std::int64_t seen : {std::int64_t{1}, std::max<std::int64_t>(configured, 1)}) {
      const Plan plan = locant::plan(positions, *evidence_.recipe, {.seen = seen});
      for (std::size_t layer = 0; layer < plan.layers.size(); ++layer) {
        const auto& planned = plan.kinds[static_cast<std::size_t>(plan.layers[layer])].rotation;
        if (!planned || planned->inv_freq.size() != values.data.size()) continue;
        Rotation own = *planned;
        own.axis.clear();
        own.sign = 1;
        Verdict verdict = judge(values, positions, static_cast<std::int64_t>(layer), own, seen, configured);
        if (verdict.fine) return;
        if (!best || (verdict.ladder && !best->ladder)) {
          best = std::move(verdict);
          best_plan = own;
        }
      }
    }
    report(trace, name, values, best, best_plan);
  }

  Verdict judge(const Values& values, const StackPositions& positions, std::int64_t layer,
                const Rotation& planned, std::int64_t seen, std::int64_t configured) const {
    const Turns turns = turns_at(values.data);
    TokenPositions due;
    for (std::int64_t position = 0; position < kPositions; ++position) due.values.push_back(position);
    const CandidateQuery query{positions, *evidence_.recipe, layer, seen, configured};
    return explain({.turns = turns,
                    .query = query,
                    .planned = planned,
                    .due = due,
                    .dtype = values.dtype,
                    .table = true});
  }

  void report(const Trace& trace, const std::string& name, const Values& values,
              const std::optional<Verdict>& verdict, const std::optional<Rotation>& planned) {
    Finding finding = at(trace, name);
    std::string rule = "T104";
    std::string cause = "dumped frequencies";
    if (!planned) {
      finding.message =
          fmt::format("{}: {} frequencies, and no layer of the plan has so many", name, values.data.size());
      finding.observed = static_cast<double>(values.data.size());
    } else if (verdict->ladder) {
      rule = table_rule(verdict->ladder->cause);
      cause = verdict->ladder->text;
      const Numbers numbers = numbers_of(ladder_of(*planned), *verdict->ladder);
      finding.message = fmt::format("{}: {}{}", name, cause, numbers.text.empty() ? "" : "; " + numbers.text);
      finding.expected = numbers.expected;
      finding.observed = numbers.observed;
    } else {
      describe_junk(finding, name, values, *planned);
    }
    if (verdict) finding.hypotheses = verdict->hypotheses;
    book_.add(rule, Depth::tables, std::move(finding), cause);
  }

  static void describe_junk(Finding& finding, const std::string& name, const Values& values,
                            const Rotation& planned) {
    const auto first = static_cast<double>(values.data.front());
    finding.expected = planned.inv_freq.front();
    finding.observed = first;
    for (std::size_t p = 1; p < values.data.size(); ++p) {
      if (values.data[p] != values.data[p - 1] || planned.inv_freq[p] == planned.inv_freq[p - 1]) continue;
      finding.message =
          fmt::format("{}: pairs {} and {} share the frequency {:.6g}", name, p - 1, p, values.data[p]);
      finding.expected = planned.inv_freq[p];
      finding.observed = static_cast<double>(values.data[p]);
      return;
    }
    finding.message = std::abs(first - planned.inv_freq.front()) > 1e-3 * planned.inv_freq.front()
                          ? fmt::format("{}: the first frequency is {:.6g} where {:.6g} is due", name, first,
                                        planned.inv_freq.front())
                          : fmt::format("{}: no ladder of frequencies in any known form", name);
  }

  void check_slopes(const Trace& trace, const StackPositions& positions, const TensorRef& tensor) {
    const Values values = values_of(tensor, trace.path + ": " + std::string(kSlopes));
    const Plan plan = locant::plan(positions, *evidence_.recipe, {});
    for (const LayerPositions& kind : plan.kinds) {
      if (!kind.bias || kind.bias->form != BiasForm::slopes) continue;
      book_.asked("B101");
      Finding finding = at(trace, kSlopes);
      const std::vector<double> got(values.data.begin(), values.data.end());
      if (got.size() != kind.bias->slopes.size()) {
        finding.message =
            fmt::format("{}: {} slopes where {} are due", kSlopes, got.size(), kind.bias->slopes.size());
        finding.expected = static_cast<double>(kind.bias->slopes.size());
        finding.observed = static_cast<double>(got.size());
        book_.add("B101", Depth::tables, std::move(finding), "dumped slopes");
        return;
      }
      const double allowed = 4 * unit_roundoff(values.dtype);
      for (std::size_t head = 0; head < got.size(); ++head) {
        const double due = kind.bias->slopes[head];
        if (std::abs(got[head] - due) <= allowed * std::abs(due)) continue;
        const std::string text = slopes_text(got, kind.bias->slopes, 64 * allowed);
        finding.where.head = static_cast<std::int64_t>(head);
        finding.message = fmt::format("{}: {}; head {}: {:.5g} per token where {:.5g} is due", kSlopes, text,
                                      head, got[head], due);
        finding.expected = due;
        finding.observed = got[head];
        finding.hypotheses = {{text, {{"slope", got[head]}}, 0, allowed}};
        book_.add("B101", Depth::tables, std::move(finding), text);
        return;
      }
      return;
    }
  }

  /// Positions that are used, against the last row of a trained table.
  void check_end(const Trace& trace) {
    for (const Pass& pass : trace.passes) {
      if (!pass.plan || pass.axes != 1 || pass.due.empty()) continue;
      for (const PositionEmbedding& embedding : pass.plan->embedding) {
        if (embedding.form != EmbeddingForm::table || embedding.past_end == PastEnd::last_row) continue;
        std::int64_t rows = embedding.rows;
        for (const Matrix& table : position_tables(evidence_, embedding.width, trace.stack))
          rows = std::min(rows, table.rows());
        if (rows < 1) continue;
        book_.asked("T106");
        const std::vector<std::int64_t>& used = pass.stated_axes == 1 ? pass.stated : pass.due;
        for (std::size_t n = 0; n < used.size(); ++n) {
          const std::int64_t row = used[n] + embedding.offset;
          if (!pass.content[n] || (row >= 0 && row < rows)) continue;
          Finding finding = at(trace, "position_ids");
          finding.where.step = pass.step;
          finding.where.row = static_cast<std::int64_t>(n) / pass.tokens;
          finding.where.token = static_cast<std::int64_t>(n) % pass.tokens;
          finding.message =
              fmt::format("position {} asks for row {} of a table with {} rows", used[n], row, rows);
          finding.expected = static_cast<double>(rows - 1);
          finding.observed = static_cast<double>(row);
          book_.add("T106", Depth::positions, std::move(finding), "end of the table");
          return;
        }
      }
    }
  }

  const Evidence& evidence_;
  Book& book_;
};

}  // namespace

void check_dumped(const Evidence& evidence, Book& book) {
  if (evidence.spec == nullptr) return;
  DumpedRules(evidence, book).run();
}

}  // namespace locant::check_room
