// SPDX-License-Identifier: Apache-2.0
// E108, E109: logits against the head.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/embedding.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;

class Head {
 public:
  Head(const Evidence& evidence, EmbeddingBook& book) : evidence_(evidence), book_(book) {}

  /// Columns behind the vocabulary are rows of padding: they must not be the largest.
  void check_padding_rows(const Trace& trace, const Pass& pass) {
    const std::int64_t vocab = evidence_.spec->vocab;
    const TensorRef tensor = pass.find(names::kLogits);
    if (tensor.data == nullptr || tensor.rank != 3 || tensor.shape[0] != pass.rows) return;
    const std::int64_t columns = tensor.shape[2];
    if (vocab < 1 || columns <= vocab || (tensor.shape[1] != pass.tokens && tensor.shape[1] != 1)) return;
    const Values logits = values_of(tensor, pass.path + ": " + pass.prefix + "logits");
    book_.asked("E112");
    for (const auto& [n, m] : judged(pass, logits)) {
      const auto row =
          logits.data.begin() + static_cast<std::ptrdiff_t>(m) * static_cast<std::ptrdiff_t>(columns);
      const std::int64_t best = std::max_element(row, row + static_cast<std::ptrdiff_t>(columns)) - row;
      if (best < vocab) continue;
      Finding finding;
      finding.where = place_of(trace, pass, names::kLogits);
      finding.where.row = static_cast<std::int64_t>(n) / pass.tokens;
      finding.where.token = static_cast<std::int64_t>(n) % pass.tokens;
      finding.message =
          fmt::format("logits: column {} is the largest, and the vocabulary ends at {}", best, vocab);
      finding.expected = static_cast<double>(vocab - 1);
      finding.observed = static_cast<double>(best);
      book_.add("E112", std::move(finding));
      return;
    }
  }

  /// logits = scale * head . final_norm.out, capped; judged on a sample of vocabulary rows.
  void check_logits(const Trace& trace, const Pass& pass) {
    if (!evidence_.facts || evidence_.spec == nullptr) return;
    const std::optional<Values> hidden = state_of(pass, names::kFinalNormOut);
    const TensorRef logits_ref = pass.find(names::kLogits);
    const std::optional<Matrix> found = matrix_named(evidence_, evidence_.facts->head.tensor);
    if (!hidden || logits_ref.data == nullptr || !found) return;
    if (logits_ref.rank != 3 || logits_ref.shape[0] != pass.rows ||
        (logits_ref.shape[1] != pass.tokens && logits_ref.shape[1] != 1))
      return;
    const Matrix& head = *found;
    const std::int64_t vocab = logits_ref.shape[2];
    if (head.columns() != hidden->extent(2) || head.rows() < vocab) return;
    const HeadSpec& spec = evidence_.spec->head;
    if (spec.bias) return;  // its name is not known here
    const Values logits = values_of(logits_ref, pass.path + ": " + pass.prefix + "logits");
    for (const std::string_view rule : {"E108", "E109"}) book_.asked(rule);
    if (!content_is_finite(pass, logits)) return;  // E113 says where that begins
    const double unit = std::max(unit_roundoff(trace.dtype), unit_roundoff(head.stored().tensor.dtype) / 4);
    const double allowed = 32 * unit;
    const FactorFit own = head_likeness(pass, *hidden, logits, head, spec.softcap);
    if (own.residual <= allowed) {
      if (std::abs(own.factor - spec.scale) <= allowed * spec.scale) return;
      Finding finding;
      finding.where = place_of(trace, pass, names::kLogits);
      finding.expected = spec.scale;
      finding.observed = own.factor;
      const bool inverse = std::abs(own.factor * spec.scale - 1) < allowed;
      finding.message =
          fmt::format("logits: the head's product is multiplied by {:.5g} where {:.5g} is due{}", own.factor,
                      spec.scale, inverse ? ": the direction of the scale is turned round" : "");
      finding.hypotheses = {{"another scale", {{"scale", own.factor}}, own.residual, allowed}};
      if (spec.softcap == 0)
        finding.curves = {head_curve(pass, *hidden, logits, head,
                                     {.name = "The factor on the head's product", .y_label = "times"},
                                     spec.scale, [](const FactorFit& like) { return like.factor; })};
      book_.add("E109", std::move(finding));
      return;
    }
    if (spec.softcap > 0) {
      const FactorFit bare = head_likeness(pass, *hidden, logits, head, 0);
      if (bare.residual <= allowed) {
        Finding finding;
        finding.where = place_of(trace, pass, names::kLogits);
        finding.expected = spec.softcap;
        finding.observed = std::string("no cap");
        finding.message = fmt::format("logits: the cap of {:.5g} is not applied", spec.softcap);
        finding.hypotheses = {{"no cap", {}, bare.residual, allowed}};
        book_.add("E109", std::move(finding));
        return;
      }
    }
    for (const Matrix& other : matrices_of(evidence_, hidden->extent(2), vocab)) {
      if (other.name() == head.name()) continue;
      const FactorFit like = head_likeness(pass, *hidden, logits, other, spec.softcap);
      if (like.residual > allowed) continue;
      Finding finding;
      finding.where = place_of(trace, pass, names::kLogits);
      finding.expected = head.name();
      finding.observed = other.name();
      finding.message = fmt::format("logits: the head is {} where {} is due", other.name(), head.name());
      finding.hypotheses = {{fmt::format("the head is {}", other.name()), {}, like.residual, allowed},
                            {"as planned", {}, own.residual, allowed}};
      finding.curves = {left_curve(pass, *hidden, logits, head, allowed)};
      book_.add("E108", std::move(finding));
      return;
    }
    Finding finding;
    finding.where = place_of(trace, pass, names::kLogits);
    finding.expected = 0.0;
    finding.observed = own.residual;
    finding.message =
        fmt::format("logits: {:.3g} of them is not {} times final_norm.out", own.residual, head.name());
    finding.hypotheses = {{"as planned", {}, own.residual, allowed}};
    finding.curves = {left_curve(pass, *hidden, logits, head, allowed)};
    book_.add("E108", std::move(finding));
  }

 private:
  static constexpr std::size_t kPlaces = 64;  // tokens judged

  /// Tokens of content that have logits, as (row of final_norm.out, row of logits): all of them, or the last
  /// of each row.
  static std::vector<std::pair<std::size_t, std::size_t>> judged(const Pass& pass, const Values& logits) {
    const bool last = logits.extent(1) != pass.tokens;
    const auto tokens = static_cast<std::size_t>(pass.tokens);
    std::vector<std::pair<std::size_t, std::size_t>> places;
    for (std::size_t n = 0; n < pass.content.size(); ++n) {
      if (!pass.content[n] || (last && n % tokens != tokens - 1)) continue;
      places.emplace_back(n, last ? n / tokens : n);
    }
    return places;
  }

  /// Rows of padding may hold anything.
  static bool content_is_finite(const Pass& pass, const Values& logits) {
    const auto vocab = static_cast<std::ptrdiff_t>(logits.extent(2));
    const auto places = judged(pass, logits);
    return std::all_of(places.begin(), places.end(), [&](const auto& place) {
      const auto row = logits.data.begin() + static_cast<std::ptrdiff_t>(place.second) * vocab;
      return std::all_of(row, row + vocab, [](float x) { return std::isfinite(x); });
    });
  }

  /// What one number of the head's product is at each token that has logits.
  template <class Number>
  static Curve head_curve(const Pass& pass, const Values& hidden, const Values& logits, const Matrix& head,
                          const Curve& labels, double due, const Number& number) {
    Curve curve = labels;
    curve.x_label = "token, row after row";
    const auto places = judged(pass, logits);
    for (std::size_t p = 0; p < std::min(places.size(), kPlaces); ++p)
      add_point(curve, static_cast<double>(places[p].first), due,
                number(head_likeness({places[p]}, hidden, logits, head, 0)));
    return curve;
  }

  static Curve left_curve(const Pass& pass, const Values& hidden, const Values& logits, const Matrix& head,
                          double allowed) {
    return head_curve(pass, hidden, logits, head,
                      {.name = fmt::format("What {} times final_norm.out leaves of the logits", head.name()),
                       .y_label = "share left (due: what rounding leaves)"},
                      allowed, [](const FactorFit& like) { return like.residual; });
  }

  static FactorFit head_likeness(const Pass& pass, const Values& hidden, const Values& logits,
                                 const Matrix& head, double softcap) {
    std::vector<std::pair<std::size_t, std::size_t>> places = judged(pass, logits);
    if (places.size() > kPlaces) places.resize(kPlaces);
    return head_likeness(places, hidden, logits, head, softcap);
  }

  static FactorFit head_likeness(const std::vector<std::pair<std::size_t, std::size_t>>& places,
                                 const Values& hidden, const Values& logits, const Matrix& head,
                                 double softcap) {
    const std::int64_t vocab = logits.extent(2);
    const std::int64_t step = std::max<std::int64_t>(1, vocab / 128);
    const auto width = static_cast<std::size_t>(head.columns());
    double xx = 0;
    double xy = 0;
    double yy = 0;
    for (std::int64_t id = 0; id < vocab; id += step) {
      const std::vector<float> row = head.row(id);
      for (const auto& [n, m] : places) {
        double x = 0;
        for (std::size_t i = 0; i < width; ++i)
          x += static_cast<double>(row[i]) * static_cast<double>(hidden.data[n * width + i]);
        double y = logits.data[m * static_cast<std::size_t>(vocab) + static_cast<std::size_t>(id)];
        if (softcap > 0) y = softcap * std::atanh(std::clamp(y / softcap, -0.9999999, 0.9999999));
        xx += x * x;
        xy += x * y;
        yy += y * y;
      }
    }
    return likeness_from(xx, xy, yy);
  }

  const Evidence& evidence_;
  EmbeddingBook& book_;
};

}  // namespace

void check_head(const Evidence& evidence, const Trace& trace, const Pass& pass, EmbeddingBook& book) {
  Head head(evidence, book);
  head.check_padding_rows(trace, pass);
  head.check_logits(trace, pass);
}

}  // namespace locant::check_room
