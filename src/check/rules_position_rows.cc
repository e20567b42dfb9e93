// SPDX-License-Identifier: Apache-2.0
// E107: what is added to the token rows against the position table or the sinusoid.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/curves.h"
#include "check/embedding.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;

constexpr double kUsualTheta = 10000;

class PositionRows {
 public:
  PositionRows(const Evidence& evidence, EmbeddingBook& book) : evidence_(evidence), book_(book) {}

  /// The row of the position table, or of the sinusoid, that each token was given.
  void check_positions_of(const Trace& trace, const Pass& pass) {
    const std::optional<Values> added = state_of(pass, names::kEmbedPositions);
    const std::optional<Plan>& plan = pass.plan;
    if (!added || !plan || pass.due.empty() || pass.axes != 1) return;
    for (const PositionEmbedding& embedding : plan->embedding) {
      if (embedding.form == EmbeddingForm::token_types || embedding.width != added->extent(2)) continue;
      std::int64_t largest = 0;
      for (const std::int64_t position : pass.due) largest = std::max(largest, position);
      const std::int64_t first = -std::min<std::int64_t>(embedding.offset, 8);
      const std::int64_t last =
          std::min(4 * largest + 2 * pass.tokens + 64, std::max(largest, last_of(embedding)));
      const std::optional<std::vector<float>> table = rows_of(embedding, trace.stack, first, last);
      if (!table) continue;
      observe_rows(trace, pass, *added, *table, first, embedding);
      return;
    }
  }

  static std::int64_t last_of(const PositionEmbedding& embedding) {
    return embedding.rows > 0 ? embedding.rows - embedding.offset - 1 : INT64_MAX;
  }

  /// Rows of positions [first, last], or nothing when they are not among the evidence.
  std::optional<std::vector<float>> rows_of(const PositionEmbedding& embedding, Stack stack,
                                            std::int64_t first, std::int64_t last) const {
    const std::int64_t count = last - first + 1;
    std::vector<float> rows(static_cast<std::size_t>(count * embedding.width), std::nanf(""));
    if (embedding.form == EmbeddingForm::sinusoid) {
      std::vector<std::int64_t> positions;
      for (std::int64_t position = first; position <= last; ++position) positions.push_back(position);
      sinusoid_rows(embedding, evidence_.recipe->numerics, {positions.data(), {count}},
                    {rows.data(), {count, embedding.width}});
      return rows;
    }
    for (const Matrix& table : position_tables(evidence_, embedding.width, stack)) {
      if (table.rows() != embedding.rows) continue;
      for (std::int64_t position = first; position <= last; ++position) {
        const std::int64_t row = position + embedding.offset;
        if (row < 0 || row >= table.rows()) continue;
        const std::vector<float> values = table.row(row);
        for (std::size_t i = 0; i < values.size(); ++i)
          rows[static_cast<std::size_t>((position - first) * embedding.width) + i] =
              static_cast<float>(embedding.scale) * values[i];
      }
      return rows;
    }
    return std::nullopt;
  }

  void observe_rows(const Trace& trace, const Pass& pass, const Values& added,
                    const std::vector<float>& table, std::int64_t first, const PositionEmbedding& embedding) {
    const auto width = static_cast<std::size_t>(embedding.width);
    const auto count = static_cast<std::int64_t>(table.size() / width);
    Observation seen;
    seen.source = std::string(names::kEmbedPositions);
    seen.tensor = pass.prefix + std::string(names::kEmbedPositions);
    seen.trace = &trace;
    seen.pass = &pass;
    seen.positions.assign(pass.due.size(), kUnknown);
    const double allowed = std::max(8 * unit_roundoff(trace.dtype), 1e-4);
    Curve nearest{.name = "What the nearest row of the planned table leaves of each added row",
                  .x_label = "token, row after row",
                  .y_label = "share left (due: what rounding leaves)"};
    std::size_t strange = 0;
    double least_strange = 0;
    for (std::size_t n = 0; n < pass.due.size(); ++n) {
      if (!pass.content[n]) continue;
      const auto distance = [&](std::int64_t index) {
        double left = 0;
        double total = 0;
        for (std::size_t i = 0; i < width; ++i) {
          const double want = table[static_cast<std::size_t>(index) * width + i];
          const double got = added.data[n * width + i];
          left += (got - want) * (got - want);
          total += want * want + got * got;
        }
        return total > 0 ? std::sqrt(2 * left / total) : 0.0;
      };
      const std::int64_t due = pass.due[n] - first;
      if (due < count && distance(due) <= allowed) {
        seen.positions[n] = pass.due[n];
        add_point(nearest, static_cast<double>(n), allowed, distance(due));
        continue;
      }
      double least = INFINITY;
      std::int64_t best = 0;
      for (std::int64_t index = 0; index < count; ++index) {
        const double away = distance(index);
        if (!(away < least)) continue;
        least = away;
        best = index;
      }
      add_point(nearest, static_cast<double>(n), allowed, std::isfinite(least) ? least : 1);
      if (least <= allowed) {
        seen.positions[n] = first + best;
      } else {
        ++strange;
        least_strange = std::max(least_strange, std::isfinite(least) ? least : 1);
      }
    }
    book_.asked("E107");
    if (strange > 0) {
      Finding finding;
      finding.where = place_of(trace, pass, names::kEmbedPositions);
      finding.expected = 0.0;
      finding.observed = least_strange;
      finding.message = fmt::format(
          "embed.positions: {} token{} got what no position of the plan's table gives; {:.3g} of "
          "it is left",
          strange, strange == 1 ? "" : "s", least_strange);
      if (const std::optional<Hypothesis> form = other_form(trace, pass, added, embedding, allowed)) {
        finding.message += ": " + form->cause;
        if (!form->parameters.empty()) {
          finding.expected = 1.0;
          finding.observed = form->parameters.front().second;
        }
        finding.hypotheses.push_back(*form);
      }
      finding.hypotheses.push_back({"a row of the planned table", {}, least_strange, allowed});
      finding.curves = {std::move(nearest)};
      book_.add("E107", std::move(finding));
      return;
    }
    book_.observe(std::move(seen));
  }

  /// Rows of another dialect of the sinusoid, or the planned ones times a factor; at the due positions.
  std::optional<Hypothesis> other_form(const Trace& trace, const Pass& pass, const Values& added,
                                       const PositionEmbedding& planned, double allowed) const {
    struct Form {
      PositionEmbedding embedding;
      std::string text;
    };
    std::vector<Form> forms{{planned, ""}};
    if (planned.form == EmbeddingForm::sinusoid && planned.width % 2 == 0 && planned.width > 2) {
      const auto half = static_cast<std::size_t>(planned.width / 2);
      for (const bool less : {false, true}) {
        for (const Columns columns : {Columns::interleaved, Columns::halves}) {
          for (const bool cos_first : {false, true}) {
            Form form{planned, ""};
            const double steps = static_cast<double>(half) - (less ? 1 : 0);
            for (std::size_t i = 0; i < half; ++i)
              form.embedding.inv_freq[i] = std::pow(kUsualTheta, -static_cast<double>(i) / steps);
            form.embedding.columns = columns;
            form.embedding.cos_first = cos_first;
            form.text =
                fmt::format("the sinusoid has {} columns{} and counts its frequencies by {}",
                            name_of(columns), cos_first ? ", cosines first," : "", less ? "d/2 - 1" : "d/2");
            forms.push_back(std::move(form));
          }
        }
      }
    }
    for (const Form& form : forms) {
      const std::optional<FactorFit> like = likeness_at_due(trace, pass, added, form.embedding);
      if (!like || like->residual > allowed) continue;
      const bool plain = std::abs(like->factor - 1) <= allowed;
      if (form.text.empty() && plain) continue;
      std::string text = form.text;
      if (!plain) {
        text += fmt::format(
            "{}rows are multiplied by {:.5g}{}", text.empty() ? "" : ", and ", like->factor,
            std::abs(like->factor - std::sqrt(static_cast<double>(planned.width))) <= allowed * like->factor
                ? ", sqrt(d)"
                : "");
      }
      Hypothesis found{text, {}, like->residual, allowed};
      if (!plain) found.parameters = {{"factor", like->factor}};
      return found;
    }
    return std::nullopt;
  }

  std::optional<FactorFit> likeness_at_due(const Trace& trace, const Pass& pass, const Values& added,
                                           const PositionEmbedding& embedding) const {
    const auto width = static_cast<std::size_t>(embedding.width);
    double xx = 0;
    double xy = 0;
    double yy = 0;
    for (std::size_t n = 0; n < pass.due.size(); ++n) {
      if (!pass.content[n]) continue;
      const std::optional<std::vector<float>> row = rows_of(embedding, trace.stack, pass.due[n], pass.due[n]);
      if (!row) return std::nullopt;
      for (std::size_t i = 0; i < width; ++i) {
        const double x = (*row)[i];
        const double y = added.data[n * width + i];
        xx += x * x;
        xy += x * y;
        yy += y * y;
      }
    }
    if (!(xx > 0) || !(yy > 0)) return std::nullopt;
    return likeness_from(xx, xy, yy);
  }

  const Evidence& evidence_;
  EmbeddingBook& book_;
};

}  // namespace

void check_position_rows(const Evidence& evidence, const Trace& trace, const Pass& pass,
                         EmbeddingBook& book) {
  PositionRows(evidence, book).check_positions_of(trace, pass);
}

}  // namespace locant::check_room
