// SPDX-License-Identifier: Apache-2.0
// B: recorded scores against q, k and the plan: score = scale * q.k + slope * (key - query) + a constant per
// query, fitted per head over what is visible; and what is visible against mask, window and documents.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "check/buckets.h"
#include "check/curves.h"
#include "check/scores.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;
using names::Layer;

class ScoreRules {
 public:
  ScoreRules(const Evidence& evidence, Book& book) : evidence_(evidence), book_(book), masks_(book) {}

  void run() {
    for (const auto& trace : evidence_.traces) {
      const std::vector<AttentionSpec>* const attention = evidence_.attention(*trace);
      if (attention == nullptr || trace->sliced) continue;  // keys of other ranks are not in the trace
      for (std::size_t index = 0; index < trace->passes.size(); ++index) {
        const Pass& pass = trace->passes[index];
        const std::optional<Plan>& plan = pass.plan;
        for (std::size_t layer = 0; layer < plan->layers.size() && layer < attention->size(); ++layer) {
          const LayerPositions& kind = plan->kinds[static_cast<std::size_t>(plan->layers[layer])];
          check_layer(*trace, index, static_cast<std::int64_t>(layer), kind, (*attention)[layer]);
        }
      }
    }
  }

 private:
  void check_layer(const Trace& trace, std::size_t index, std::int64_t layer, const LayerPositions& kind,
                   const AttentionSpec& attention) {
    const Pass& pass = trace.passes[index];
    const std::string name = names::layer(layer, Layer::scores);
    const TensorRef tensor = pass.find(name);
    if (tensor.data == nullptr) return;
    if (tensor.rank != 4 || tensor.shape[0] != pass.rows || tensor.shape[2] != pass.tokens) {
      throw FileError(pass.path, fmt::format("{}{} is [{},heads,{},keys], got {}", pass.prefix, name,
                                             pass.rows, pass.tokens, tensor.shape_text()));
    }
    const Values scores = values_of(tensor, pass.path + ": " + pass.prefix + name);
    const std::vector<std::vector<Key>> keys = keys_of(pass, scores.extent(3));
    if (keys.empty()) return;
    if (first_score(pass, scores, keys, [](float score) { return std::isnan(score); })) {
      Finding finding;
      finding.where.file = trace.path;
      finding.where.tensor = pass.prefix + name;
      finding.where.layer = layer;
      finding.message = fmt::format("scores of layer {}: some are not a number", layer);
      finding.observed = std::string("nan");
      add("B110", std::move(finding), "not finite");
      return;
    }
    masks_.check(trace, pass, layer, attention, scores, keys);
    check_fit(trace, index, layer, kind, attention, scores, keys);
  }

  static bool is_query(const Pass& pass, const TensorRef& tensor, std::int64_t heads) {
    return tensor.data != nullptr && tensor.rank == 4 && tensor.shape[0] == pass.rows &&
           tensor.shape[1] == pass.tokens && tensor.shape[2] == heads;
  }

  /// Keys [B, S, kv_heads, D] of a layer: the cache, or this pass's own when nothing came before.
  static std::optional<Values> keys_in(const Pass& pass, std::int64_t layer, std::int64_t columns) {
    for (const Layer tensor : {Layer::cache_k, Layer::k_in, Layer::k}) {
      const TensorRef k = pass.find(names::layer(layer, tensor));
      if (k.data == nullptr || k.rank != 4 || k.shape[1] != columns || k.shape[0] != pass.rows) continue;
      return values_of(k, pass.path + ": " + names::layer(layer, tensor));
    }
    return std::nullopt;
  }

  void check_fit(const Trace& trace, std::size_t index, std::int64_t layer, const LayerPositions& kind,
                 const AttentionSpec& attention, const Values& scores,
                 const std::vector<std::vector<Key>>& keys) {
    const Pass& pass = trace.passes[index];
    const std::int64_t columns = scores.extent(3);
    const std::int64_t heads = scores.extent(1);
    const std::optional<Values> k = keys_in(pass, layer, columns);
    if (!k || heads % k->extent(2) != 0) return;
    if (kind.bias && kind.bias->form == BiasForm::buckets)
      return check_buckets(trace, pass, layer, *kind.bias, attention, scores, *k, keys);
    if (kind.bias && kind.bias->form != BiasForm::slopes) return;  // its rows are not among the evidence
    // q_in is what the product takes. A model that scales q itself (OPT) is judged by q.
    std::vector<HeadFit> fits;
    for (const Layer tensor : {Layer::q_in, Layer::q}) {
      const TensorRef found = pass.find(names::layer(layer, tensor));
      if (!is_query(pass, found, heads)) continue;
      const Values q = values_of(found, pass.path + ": " + names::layer(layer, tensor));
      if (q.extent(3) != k->extent(3)) continue;
      std::vector<HeadFit> of_tensor;
      for (std::int64_t head = 0; head < heads; ++head)
        of_tensor.push_back(
            solve(sums_of(pass, head, q, *k, scores, keys, attention, kind, tensor == Layer::q_in)));
      const bool better = !fits.empty() && scale_fits(of_tensor, attention, trace.dtype);
      if (fits.empty() || better) fits = std::move(of_tensor);
      if (scale_fits(fits, attention, trace.dtype)) break;
    }
    if (std::none_of(fits.begin(), fits.end(), [](const HeadFit& fit) { return fit.solved; })) return;
    book_.asked("B102");
    book_.asked("B110");
    if (kind.bias) book_.asked("B101");
    judge(trace, pass, layer, kind, attention, fits);
  }

  /// What is left of the scores without q.k, against the trained table of the layer's stack.
  void check_buckets(const Trace& trace, const Pass& pass, std::int64_t layer, const Bias& bias,
                     const AttentionSpec& attention, const Values& scores, const Values& k,
                     const std::vector<std::vector<Key>>& keys) {
    constexpr std::size_t kEnough = 40000;
    const std::int64_t heads = scores.extent(1);
    const std::int64_t columns = scores.extent(3);
    const TensorRef found = pass.find(names::layer(layer, Layer::q));
    if (!is_query(pass, found, heads) || found.shape[3] != k.extent(3)) return;
    const Values q = values_of(found, pass.path + ": " + names::layer(layer, Layer::q));
    const std::int64_t shared = heads / k.extent(2);
    const std::int64_t cached = pass.width - pass.tokens;
    std::vector<BiasSample> samples;
    double squares = 0;
    for (std::int64_t row = 0; row < pass.rows && samples.size() < kEnough; ++row) {
      const std::vector<Key>& list = keys[static_cast<std::size_t>(row)];
      for (std::int64_t token = 0; token < pass.tokens && samples.size() < kEnough; ++token) {
        if (!pass.content[pass.at(row, token)]) continue;
        const Key query = query_of(pass, list, row, token, cached);
        for (std::int64_t head = 0; head < heads; ++head) {
          for (std::int64_t column = 0; column < columns; ++column) {
            const Key& key = list[static_cast<std::size_t>(column)];
            const double score = scores.data[static_cast<std::size_t>(
                ((row * heads + head) * pass.tokens + token) * columns + column)];
            if (!(score > kHidden) || !visible(attention, query, key)) continue;
            const double product = dot(q, row, token, head, k, column, head / shared).value;
            squares += score * score + product * product;
            samples.push_back({head, row * pass.tokens + token, key.position - query.position, query.position,
                               score - attention.scale * product});
          }
        }
      }
    }
    if (samples.empty()) return;
    const double noise =
        8 * unit_roundoff(trace.dtype) * std::sqrt(squares / static_cast<double>(samples.size()));
    bool asked = false;
    const auto verdict = judge_buckets(evidence_, bias, trace.stack, layer, samples, noise, asked);
    if (asked) book_.asked("B109");
    if (!verdict) return;
    Finding finding;
    finding.where.file = trace.path;
    finding.where.tensor = pass.prefix + names::layer(layer, Layer::scores);
    finding.where.layer = layer;
    finding.where.step = pass.step;
    finding.message = fmt::format("scores of layer {}: {}", layer, verdict->text);
    finding.expected = verdict->expected;
    finding.observed = verdict->observed;
    finding.hypotheses = verdict->hypotheses;
    finding.curves = {verdict->curve};
    add("B109", std::move(finding), verdict->text);
  }

  /// q.k, and the size of what is summed: rounding is a share of that.
  struct Product {
    double value = 0;
    double size = 0;
  };

  static Product dot(const Values& q, std::int64_t row, std::int64_t token, std::int64_t head,
                     const Values& k, std::int64_t column, std::int64_t kv_head) {
    const auto width = static_cast<std::size_t>(q.extent(3));
    const auto from = static_cast<std::size_t>((row * q.extent(1) + token) * q.extent(2) + head) * width;
    const auto with = static_cast<std::size_t>((row * k.extent(1) + column) * k.extent(2) + kv_head) * width;
    Product product;
    for (std::size_t i = 0; i < width; ++i) {
      const double term = static_cast<double>(q.data[from + i]) * static_cast<double>(k.data[with + i]);
      product.value += term;
      product.size += std::abs(term);
    }
    return product;
  }

  static bool scale_fits(const std::vector<HeadFit>& fits, const AttentionSpec& attention, DType dtype) {
    return std::all_of(fits.begin(), fits.end(), [&](const HeadFit& fit) {
      return !fit.solved ||
             std::abs(fit.scale - attention.scale) <= 24 * unit_roundoff(dtype) * attention.scale;
    });
  }

  static Sums sums_of(const Pass& pass, std::int64_t head, const Values& q, const Values& k,
                      const Values& scores, const std::vector<std::vector<Key>>& keys,
                      const AttentionSpec& attention, const LayerPositions& kind, bool scaled) {
    Sums sums;
    const std::int64_t heads = scores.extent(1);
    const std::int64_t columns = scores.extent(3);
    const std::int64_t kv_heads = k.extent(2);
    const std::int64_t kv_head = head / (heads / kv_heads);
    const std::int64_t cached = pass.width - pass.tokens;
    const bool bidirectional = kind.bias && kind.bias->bidirectional;
    std::vector<double> x;
    std::vector<double> d;
    std::vector<double> s;
    std::vector<double> sizes;
    for (std::int64_t row = 0; row < pass.rows; ++row) {
      const std::vector<Key>& list = keys[static_cast<std::size_t>(row)];
      for (std::int64_t token = 0; token < pass.tokens; ++token) {
        if (!pass.content[pass.at(row, token)]) continue;
        const Key query = query_of(pass, list, row, token, cached);
        const double factor =
            scaled || !kind.query_scale ? 1 : query_factor(*kind.query_scale, query.position);
        x.clear();
        d.clear();
        s.clear();
        sizes.clear();
        for (std::int64_t column = 0; column < columns; ++column) {
          const Key& key = list[static_cast<std::size_t>(column)];
          const double score = scores.data[static_cast<std::size_t>(
              ((row * heads + head) * pass.tokens + token) * columns + column)];
          if (!(score > kHidden) || !key.content || !visible(attention, query, key)) continue;
          const Product product = dot(q, row, token, head, k, column, kv_head);
          const auto distance = static_cast<double>(key.position - query.position);
          x.push_back(factor * product.value);
          sizes.push_back(std::pow(attention.scale * factor * product.size, 2) + score * score);
          d.push_back(bidirectional ? -std::abs(distance) : distance);
          s.push_back(attention.softcap > 0
                          ? attention.softcap *
                                std::atanh(std::clamp(score / attention.softcap, -0.999999, 0.999999))
                          : score);
        }
        if (x.size() < 2) continue;
        const auto mean = [](const std::vector<double>& values) {
          double sum = 0;
          for (const double value : values) sum += value;
          return sum / static_cast<double>(values.size());
        };
        const double mx = mean(x);
        const double md = mean(d);
        const double ms = mean(s);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double cx = x[i] - mx;
          const double cd = d[i] - md;
          const double cs = s[i] - ms;
          sums.xx += cx * cx;
          sums.xd += cx * cd;
          sums.dd += cd * cd;
          sums.xs += cx * cs;
          sums.ds += cd * cs;
          sums.ss += cs * cs;
          sums.sizes += sizes[i];
          ++sums.count;
        }
      }
    }
    return sums;
  }

  void judge(const Trace& trace, const Pass& pass, std::int64_t layer, const LayerPositions& kind,
             const AttentionSpec& attention, const std::vector<HeadFit>& fits) {
    const double unit = unit_roundoff(trace.dtype);
    const double allowed = 24 * unit;
    Place where;
    where.file = trace.path;
    where.tensor = pass.prefix + names::layer(layer, Layer::scores);
    where.layer = layer;
    where.step = pass.step;
    const auto heads = static_cast<std::int64_t>(fits.size());
    const bool sharded = trace.world > 1 && heads * trace.world == evidence_.spec->heads;
    const std::vector<double> due =
        due_slopes(kind.bias, attention, {.first = sharded ? trace.rank * heads : 0, .count = heads});
    std::vector<double> got;
    bool slopes_differ = false;
    double worst_residual = 0;
    std::optional<std::size_t> scale_off;
    for (std::size_t head = 0; head < fits.size(); ++head) {
      const HeadFit& fit = fits[head];
      got.push_back(fit.slope);
      if (!fit.solved) continue;
      const double noise = 8 * unit * fit.size;  // of one score
      // where scores hardly vary, rounding is much of what is left
      if (fit.scores > 0 && fit.residual > std::max(2 * allowed, noise / fit.scores))
        worst_residual = std::max(worst_residual, fit.residual);
      const double slope_error = fit.free_distance > 0 ? noise / fit.free_distance : 0;
      if ((std::abs(fit.slope - due[head]) - slope_error) * fit.distance >
          allowed * std::max(fit.scores, std::abs(due[head]) * fit.distance)) {
        if (!slopes_differ) where.head = static_cast<std::int64_t>(head);
        slopes_differ = true;
      }
      // where scores hardly vary the scale is not to be told
      if (!scale_off &&
          std::abs(fit.scale - attention.scale) >
              allowed * attention.scale + 8 * fit.scale_error + noise / std::max(fit.free_product, 1e-30) &&
          fit.residual < 0.5)
        scale_off = head;
    }
    if (worst_residual > 2 * allowed) {
      Finding finding;
      finding.where = where;
      finding.expected = 0.0;
      finding.observed = worst_residual;
      finding.message = fmt::format(
          "scores of layer {}: scale, q.k and distance leave {:.3g} of them unexplained, {:.3g} "
          "is rounding",
          layer, worst_residual, 2 * allowed);
      finding.hypotheses = {{"scale * q.k + slope * distance", {}, worst_residual, 2 * allowed}};
      finding.curves = {by_head(layer, "share of the scores left unexplained", fits, [&](std::size_t head) {
        return std::pair(2 * allowed, fits[head].residual);
      })};
      add("B110", std::move(finding), "scores unexplained");
      return;
    }
    if (slopes_differ) {
      const std::string text =
          kind.bias ? slopes_text(got, due, 64 * allowed) : "a bias grows with the distance, none is due";
      const auto head = static_cast<std::size_t>(where.head.value_or(0));
      Finding finding;
      finding.where = where;
      finding.expected = due[head];
      finding.observed = got[head];
      finding.message = fmt::format("scores of layer {}: {}; head {}: {:.5g} per token where {:.5g} is due",
                                    layer, text, head, got[head], due[head]);
      finding.hypotheses = {{text, {{"slope", got[head]}}, fits[head].residual, 2 * allowed}};
      finding.curves = {
          by_head(layer, "slope, 1/token", fits, [&](std::size_t h) { return std::pair(due[h], got[h]); })};
      add("B101", std::move(finding), text);
    }
    if (scale_off) report_scale(layer, attention, where, *scale_off, fits, 2 * allowed);
  }

  /// (due, found) of the heads whose fit was solved.
  template <class Of>
  static Curve by_head(std::int64_t layer, std::string_view what, const std::vector<HeadFit>& fits,
                       const Of& of) {
    Curve curve{.name = fmt::format("Scores of layer {} by head", layer),
                .x_label = "head",
                .y_label = std::string(what)};
    for (std::size_t head = 0; head < fits.size(); ++head) {
      if (!fits[head].solved) continue;
      const auto [due, found] = of(head);
      add_point(curve, static_cast<double>(head), due, found);
    }
    return curve;
  }

  void report_scale(std::int64_t layer, const AttentionSpec& attention, Place where, std::size_t head,
                    const std::vector<HeadFit>& fits, double allowed) {
    const HeadFit& fit = fits[head];
    where.head = static_cast<std::int64_t>(head);
    const double ratio = attention.scale / fit.scale;
    const double plain = 1 / std::sqrt(static_cast<double>(evidence_.spec->head_dim));
    std::string why = "no known cause";
    const auto is = [&](double value) { return std::abs(fit.scale - value) <= 1e-3 * std::abs(value); };
    if (is(1)) {
      why = "q.k is not scaled";
    } else if (is(attention.scale * attention.scale)) {
      why = "the scale is applied twice";
    } else if (is(plain) || ratio > 1) {
      why = fmt::format("a factor of {:.5g} is missing", ratio);
    }
    Finding finding;
    finding.where = where;
    finding.expected = attention.scale;
    finding.observed = fit.scale;
    finding.message = fmt::format("scores of layer {}: q.k is multiplied by {:.5g} where {:.5g} is due: {}",
                                  layer, fit.scale, attention.scale, why);
    finding.hypotheses = {{why, {{"scale", fit.scale}, {"ratio", ratio}}, fit.residual, allowed}};
    finding.curves = {by_head(layer, "factor on q.k", fits,
                              [&](std::size_t h) { return std::pair(attention.scale, fits[h].scale); })};
    add("B102", std::move(finding), why);
  }

  /// The same in every layer and pass is one finding.
  void add(std::string_view rule, Finding finding, const std::string& cause) {
    if (!said_.insert(std::string(rule) + cause).second) return;
    finding.severity = find_rule(rule).severity;
    book_.add(rule, Depth::scores, std::move(finding), cause);
  }

  const Evidence& evidence_;
  Book& book_;
  std::set<std::string> said_;
  MaskRules masks_;
};

}  // namespace

void check_scores(const Evidence& evidence, Book& book) {
  if (evidence.spec == nullptr) return;
  ScoreRules(evidence, book).run();
}

}  // namespace locant::check_room
