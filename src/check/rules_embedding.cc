// SPDX-License-Identifier: Apache-2.0
// E101 to E106: looked-up rows against the table, what enters layer 0 against rows, scale and positions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/embedding.h"
#include "core/narrow.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;

/// How well tokens [n, width] are factor * rows of ids + shift.
FactorFit likeness(const Values& tokens, const Pass& pass, const Matrix& table, std::int64_t shift) {
  double xx = 0;
  double xy = 0;
  double yy = 0;
  const std::int64_t width = table.columns();
  std::int64_t used = 0;
  for (std::int64_t row = 0; row < pass.rows; ++row) {
    for (std::int64_t token = 0; token < pass.tokens && used < 256; ++token) {
      const std::size_t at = pass.at(row, token);
      const std::int64_t id = pass.ids[at] + shift;
      if (!pass.content[at] || id < 0 || id >= table.rows()) continue;
      ++used;
      const std::vector<float> weights = table.row(id);
      for (std::size_t channel = 0; channel < static_cast<std::size_t>(width); ++channel) {
        const double x = weights[channel];
        const double y = tokens.data[at * static_cast<std::size_t>(width) + channel];
        xx += x * x;
        xy += x * y;
        yy += y * y;
      }
    }
  }
  return likeness_from(xx, xy, yy);
}

/// What the rows of ids leave of each token.
Curve row_curve(const Values& tokens, const Pass& pass, const Matrix& table, double allowed) {
  const auto width = static_cast<std::size_t>(table.columns());
  return token_curve(pass, fmt::format("What rows of {} leave of each looked-up row", table.name()),
                     "share left (due: what rounding leaves)", allowed, [&](std::size_t n) {
                       const std::int64_t id = pass.ids[n];
                       if (id < 0 || id >= table.rows()) return 1.0;
                       const std::vector<float> weights = table.row(id);
                       double xx = 0;
                       double xy = 0;
                       double yy = 0;
                       for (std::size_t i = 0; i < width; ++i) {
                         const double x = weights[i];
                         const double y = tokens.data[n * width + i];
                         xx += x * x;
                         xy += x * y;
                         yy += y * y;
                       }
                       return likeness_from(xx, xy, yy).residual;
                     });
}

/// embed.out less types, by token, against the looked-up row and what was added.
struct Sum {
  const Values& tokens;
  const Values& out;
  const Values* positions = nullptr;
  const Values* types = nullptr;

  /// The factor on the row of token n where positions enter `times` times.
  [[nodiscard]] FactorFit of(std::size_t n, double times) const {
    const auto width = static_cast<std::size_t>(out.extent(2));
    double xx = 0;
    double xy = 0;
    double yy = 0;
    for (std::size_t i = n * width; i < (n + 1) * width; ++i) {
      const double x = tokens.data[i];
      const double y = static_cast<double>(out.data[i]) -
                       (types != nullptr ? static_cast<double>(types->data[i]) : 0) -
                       (positions != nullptr ? times * static_cast<double>(positions->data[i]) : 0);
      xx += x * x;
      xy += x * y;
      yy += y * y;
    }
    return likeness_from(xx, xy, yy);
  }
};

class EmbeddingRules {
 public:
  EmbeddingRules(const Evidence& evidence, Book& book) : evidence_(evidence), book_(book) {}

  void run() {
    for (const auto& trace : evidence_.traces) {
      if (trace->world > 1 && !trace->sliced) continue;  // rows of one shard are no rows of the table
      for (const Pass& pass : trace->passes) {
        check_rows(*trace, pass);
        check_sum(*trace, pass);
        check_position_rows(evidence_, *trace, pass, book_);
        if (trace->stack == Stack::decoder) check_head(evidence_, *trace, pass, book_);
      }
    }
  }

 private:
  void check_rows(const Trace& trace, const Pass& pass) {
    const std::optional<Values> tokens = state_of(pass, names::kEmbedTokens);
    if (!tokens || pass.ids.empty() || !evidence_.facts) return;
    const std::optional<Matrix> found = matrix_named(evidence_, evidence_.facts->embedding.tensor);
    if (!found || found->columns() != tokens->extent(2)) return;
    for (const std::string_view rule : {"E103", "E104"}) book_.asked(rule);
    const Matrix& table = *found;
    // weights may be stored wider or narrower than the run was
    const double allowed =
        4 * std::max(unit_roundoff(trace.dtype), unit_roundoff(table.stored().tensor.dtype));
    const FactorFit own = likeness(*tokens, pass, table, 0);
    if (own.residual <= allowed) return;
    for (const std::int64_t shift : {1, -1, 2, -2, 3, -3, 4, -4}) {
      const FactorFit shifted = likeness(*tokens, pass, table, shift);
      if (shifted.residual > allowed) continue;
      Finding finding;
      finding.where = place_of(trace, pass, names::kEmbedTokens);
      finding.expected = 0.0;
      finding.observed = static_cast<double>(shift);
      finding.message =
          fmt::format("embed.tokens: row id {:+} of {} is read where row id is due", shift, table.name());
      finding.hypotheses = {
          {"a row offset", {{"offset", static_cast<double>(shift)}}, shifted.residual, allowed},
          {"as planned", {}, own.residual, allowed}};
      finding.curves = {row_curve(*tokens, pass, table, allowed)};
      book_.add("E103", std::move(finding));
      return;
    }
    for (const Matrix& other : matrices_of(evidence_, tokens->extent(2), table.rows())) {
      if (other.name() == table.name()) continue;
      const FactorFit like = likeness(*tokens, pass, other, 0);
      if (like.residual > allowed) continue;
      Finding finding;
      finding.where = place_of(trace, pass, names::kEmbedTokens);
      finding.expected = table.name();
      finding.observed = other.name();
      finding.message =
          fmt::format("embed.tokens: rows come from {} where {} is due", other.name(), table.name());
      finding.hypotheses = {{fmt::format("rows of {}", other.name()), {}, like.residual, allowed},
                            {"as planned", {}, own.residual, allowed}};
      finding.curves = {row_curve(*tokens, pass, table, allowed)};
      book_.add("E104", std::move(finding));
      return;
    }
    Finding finding;
    finding.where = place_of(trace, pass, names::kEmbedTokens);
    finding.observed = own.residual;
    finding.expected = 0.0;
    finding.message =
        fmt::format("embed.tokens: {:.3g} of the rows is not in {}, nor in any other tensor of its shape",
                    own.residual, table.name());
    finding.hypotheses = {{"as planned", {}, own.residual, allowed}};
    finding.curves = {row_curve(*tokens, pass, table, allowed)};
    book_.add("E104", std::move(finding));
  }

  /// embed.out = scale * embed.tokens + embed.positions + embed.types, where nothing else happens.
  void check_sum(const Trace& trace, const Pass& pass) {
    if (evidence_.spec == nullptr || evidence_.spec->embedding.normed ||
        evidence_.spec->embedding.factorised_width > 0)
      return;
    const std::optional<Values> tokens = state_of(pass, names::kEmbedTokens);
    const std::optional<Values> out = state_of(pass, names::kEmbedOut);
    const std::optional<Values> positions = state_of(pass, names::kEmbedPositions);
    const std::optional<Values> types = state_of(pass, names::kEmbedTypes);
    if (!tokens || !out || tokens->shape != out->shape) return;
    if ((positions && positions->shape != out->shape) || (types && types->shape != out->shape)) return;
    const std::optional<Plan>& plan = pass.plan;
    const bool adds = plan && !plan->embedding.empty();
    if (adds && !positions) return;
    double xx = 0;
    double xy = 0;
    double yy = 0;
    double xp = 0;
    double pp = 0;
    double py = 0;
    double crossed = 0;
    const auto width = static_cast<std::size_t>(out->extent(2));
    for (std::size_t n = 0; n < pass.content.size(); ++n) {
      if (!pass.content[n] || (!pass.vision.empty() && pass.vision[n])) continue;
      for (std::size_t i = n * width; i < (n + 1) * width; ++i) {
        const double x = tokens->data[i];
        const double p = positions ? static_cast<double>(positions->data[i]) : 0;
        const double y =
            static_cast<double>(out->data[i]) - (types ? static_cast<double>(types->data[i]) : 0);
        xx += x * x;
        crossed += x * x * y * y;
        xy += x * y;
        yy += y * y;
        xp += x * p;
        pp += p * p;
        py += p * y;
      }
    }
    if (xx == 0 || yy == 0) return;
    book_.asked("E101");
    book_.asked("E102");
    if (positions) book_.asked("E105");
    // scale and times solve the normal equations of y = scale x + times p
    const double determinant = xx * pp - xp * xp;
    const bool two = positions && determinant > 1e-9 * xx * pp;
    const double scale = two ? (xy * pp - py * xp) / determinant : xy / xx;
    const double times = two ? (py * xx - xy * xp) / determinant : 0;
    const double left = std::sqrt(std::max(0.0, yy - scale * xy - times * py) / yy);
    // Rounding of single elements averages out over many of them.
    const double share = std::sqrt(crossed) / std::max(xx * std::abs(scale), xx * 1e-9);
    judge_sum(trace, pass, {scale, two ? std::optional(times) : std::nullopt, left, share},
              {*tokens, *out, positions ? &*positions : nullptr, types ? &*types : nullptr});
  }

  struct SumFit {
    double scale = 1;
    std::optional<double> times{};  ///< positions enter
    double left = 0;                ///< relative root mean square that is unexplained
    double share = 1;               ///< of an element's rounding that stays in the scale
  };

  void judge_sum(const Trace& trace, const Pass& pass, const SumFit& fit, const Sum& sum) {
    const double scale = fit.scale;
    const double left = fit.left;
    const double share = fit.share;
    const std::optional<double>& times = fit.times;
    const double unit = unit_roundoff(trace.dtype);
    const double real = evidence_.spec->embedding.scale;
    const bool rounds =
        evidence_.facts && evidence_.facts->embedding.scale_rounding == ScaleRounding::run_dtype;
    const double due = rounds ? rounded(real, trace.dtype) : real;
    const double allowed = 4 * unit;
    if (left > 8 * unit) {
      Finding finding;
      finding.where = place_of(trace, pass, names::kEmbedOut);
      finding.expected = 0.0;
      finding.observed = left;
      finding.message =
          fmt::format("embed.out: rows times a scale and positions leave {:.3g} of it unexplained", left);
      finding.hypotheses = {{"scale * tokens + positions", {{"scale", scale}}, left, 8 * unit}};
      finding.curves = {token_curve(pass, "What scale and positions leave of each token",
                                    "share left (due: what rounding leaves)", 8 * unit,
                                    [&](std::size_t n) { return sum.of(n, times.value_or(0)).residual; })};
      book_.add("E106", std::move(finding));
      return;
    }
    const double precise = std::max({4 * share * unit, unit / 8, 4 * unit_roundoff(DType::f32)});
    // Without a rule about rounding either value is the plan's.
    const bool rounded_anyway = !rounds && std::abs(scale - rounded(real, trace.dtype)) <= precise * real;
    if (std::abs(scale - due) > precise * due && !rounded_anyway) {
      const bool unrounded =
          std::abs(scale - real) <= precise * real && std::abs(scale - real) < std::abs(scale - due);
      std::string why = "no known cause";
      const auto is = [&](double value) { return std::abs(scale - value) <= allowed * std::abs(value); };
      if (unrounded) {
        why = fmt::format("the factor is not rounded to {}", name_of(trace.dtype));
      } else if (is(1)) {
        why = "the scale is not applied";
      } else if (is(real * real)) {
        why = "the scale is applied twice";
      } else if (is(1 / real)) {
        why = "rows are divided by the scale";
      }
      Finding finding;
      finding.where = place_of(trace, pass, names::kEmbedOut);
      finding.expected = due;
      finding.observed = scale;
      finding.message =
          fmt::format("embed.out: rows are multiplied by {:.5g} where {:.5g} is due: {}", scale, due, why);
      finding.hypotheses = {{why, {{"scale", scale}}, left, 8 * unit}};
      finding.curves = {token_curve(pass, "The factor on the row of each token", "times", due,
                                    [&](std::size_t n) { return sum.of(n, times.value_or(0)).factor; })};
      book_.add(unrounded ? "E102" : "E101", std::move(finding));
    }
    if (times && std::abs(*times - 1) > std::max(16 * unit, 1e-4)) {
      const std::string why = std::abs(*times - 2) < 0.01 ? "positions are added twice"
                              : std::abs(*times) < 0.01   ? "positions are not added"
                                                          : "positions are scaled";
      Finding finding;
      finding.where = place_of(trace, pass, names::kEmbedOut);
      finding.expected = 1.0;
      finding.observed = *times;
      finding.message =
          fmt::format("embed.out: positions enter {:.5g} times where once is due: {}", *times, why);
      finding.hypotheses = {{why, {{"times", *times}}, left, 8 * unit}};
      finding.curves = {token_curve(pass, "What rows and positions, added once, leave of each token",
                                    "share left (due: what rounding leaves)", 8 * unit,
                                    [&](std::size_t n) { return sum.of(n, 1).residual; })};
      book_.add("E105", std::move(finding));
    }
  }

  static double rounded(double value, DType dtype) {
    return static_cast<double>(narrowed(static_cast<float>(value), dtype));
  }

  const Evidence& evidence_;
  EmbeddingBook book_;
};

}  // namespace

void check_embedding(const Evidence& evidence, Book& book) {
  if (evidence.spec == nullptr) return;
  EmbeddingRules(evidence, book).run();
}

}  // namespace locant::check_room
