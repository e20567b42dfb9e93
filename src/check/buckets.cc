// SPDX-License-Identifier: Apache-2.0
// bias = table[bucket(key - query)][head] (Raffel et al. 2020, section 2.1), up to a constant per query. Each
// known mistake gives other numbers for the same table; the one that leaves least is named.
#include "check/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "check/curves.h"
#include "check/matrix.h"

namespace locant::check_room {
namespace {

/// A trained table, [buckets, heads].
struct BucketTable {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::vector<float> values;

  [[nodiscard]] double at(std::int64_t row, std::int64_t head) const {
    return values[static_cast<std::size_t>(row * heads + head)];
  }
};

std::vector<BucketTable> tables_of(const Evidence& evidence, const Bias& bias) {
  std::vector<BucketTable> tables;
  if (!evidence.weights) return tables;
  const std::string ending =
      (bias.roles.empty() ? std::string("relative_attention_bias") : bias.roles[0]) + ".weight";
  for (const StoredTensor& stored : evidence.weights->tensors()) {
    if (!stored.name.ends_with(ending) || stored.tensor.rank != 2 || !is_float(stored.tensor.dtype) ||
        stored.tensor.shape[0] != bias.buckets || stored.tensor.shape[1] != bias.heads)
      continue;
    const Values values = values_of(stored.tensor, stored.path + ": " + stored.name);
    tables.push_back({stored.name, bias.buckets, bias.heads, values.data});
  }
  return tables;
}

/// The layer's own table, else the first of its stack.
const BucketTable* own_table(const std::vector<BucketTable>& tables, Stack stack, std::int64_t layer) {
  const std::string of_stack = fmt::format("{}.", name_of(stack));
  const auto holds = [&](const BucketTable& table, const std::string& part) {
    return table.name.find(part) != std::string::npos;
  };
  const std::string other = stack == Stack::encoder ? "decoder." : "encoder.";
  const BucketTable* first = nullptr;
  for (const BucketTable& table : tables) {
    if (!holds(table, of_stack) && holds(table, other)) continue;
    if (first == nullptr) first = &table;
    if (holds(table, fmt::format("block.{}.", layer)) || holds(table, fmt::format("layer.{}.", layer)))
      return &table;
  }
  return first;
}

/// What a mistake would add for a sample, up to a factor.
struct Candidate {
  std::string text;
  std::function<double(const BiasSample&)> value;
  Fact expected{};
  Fact observed{};
  std::vector<std::pair<std::string, double>> parameters{};
};

struct Fit {
  double factor = 0;
  double left = 0;  ///< root mean square that stays
  double size = 0;  ///< root mean square of the candidate's values
};

Fit fit_of(const std::vector<BiasSample>& samples, const std::function<double(const BiasSample&)>& value) {
  double vv = 0;
  double vb = 0;
  double bb = 0;
  for (std::size_t begin = 0; begin < samples.size();) {
    std::size_t end = begin;
    double mean_value = 0;
    double mean_bias = 0;
    std::vector<double> values;
    while (end < samples.size() && samples[end].query == samples[begin].query &&
           samples[end].head == samples[begin].head) {
      values.push_back(value(samples[end]));
      mean_value += values.back();
      mean_bias += samples[end].bias;
      ++end;
    }
    const auto count = static_cast<double>(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      const double v = values[i - begin] - mean_value / count;
      const double b = samples[i].bias - mean_bias / count;
      vv += v * v;
      vb += v * b;
      bb += b * b;
    }
    begin = end;
  }
  Fit fit;
  fit.factor = vv > 0 ? vb / vv : 0;
  fit.left = std::sqrt(std::max(0.0, bb - fit.factor * vb) / static_cast<double>(samples.size()));
  fit.size = std::sqrt(vv / static_cast<double>(samples.size()));
  return fit;
}

/// Bias by distance of the head that is furthest from the planned one, less each query's mean.
Curve curve_of(const std::vector<BiasSample>& samples,
               const std::function<double(const BiasSample&)>& planned, std::int64_t layer) {
  struct Mean {
    double due = 0;
    double found = 0;
    double count = 0;
  };
  std::map<std::int64_t, std::map<std::int64_t, Mean>> heads;  // head, then distance
  std::map<std::int64_t, double> away;
  for (std::size_t begin = 0; begin < samples.size();) {
    std::size_t end = begin;
    Mean mean;
    while (end < samples.size() && samples[end].query == samples[begin].query &&
           samples[end].head == samples[begin].head) {
      mean.due += planned(samples[end]);
      mean.found += samples[end].bias;
      mean.count += 1;
      ++end;
    }
    for (std::size_t i = begin; i < end; ++i) {
      const double due = planned(samples[i]) - mean.due / mean.count;
      const double found = samples[i].bias - mean.found / mean.count;
      Mean& at = heads[samples[i].head][samples[i].distance];
      at.due += due;
      at.found += found;
      at.count += 1;
      away[samples[i].head] += (found - due) * (found - due);
    }
    begin = end;
  }
  const auto worst = std::max_element(away.begin(), away.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  Curve curve{.name = fmt::format("The bias of head {} in layer {} by distance", worst->first, layer),
              .x_label = "key less query, tokens",
              .y_label = "bias, less its query's mean"};
  for (const auto& [distance, mean] : heads[worst->first])
    add_point(curve, static_cast<double>(distance), mean.due / mean.count, mean.found / mean.count);
  return curve;
}

class Candidates {
 public:
  Candidates(const Bias& bias, const BucketTable& own, const std::vector<BucketTable>& tables,
             const std::vector<BiasSample>& samples)
      : planned_{.buckets = bias.buckets,
                 .max_distance = bias.max_distance,
                 .bidirectional = bias.bidirectional},
        own_(own),
        tables_(tables),
        samples_(samples) {}

  [[nodiscard]] Candidate planned() const { return of("as planned", planned_, own_, 0, 1); }

  [[nodiscard]] std::vector<Candidate> others() const {
    std::vector<Candidate> all;
    T5Buckets other = planned_;
    other.bidirectional = !planned_.bidirectional;
    if (other.max_distance > (other.bidirectional ? other.buckets / 4 : other.buckets / 2) &&
        other.buckets >= 4) {
      all.push_back(of(
          fmt::format("buckets are those of {}", other.bidirectional
                                                     ? "both directions, where keys after the query have none"
                                                     : "one direction, where both have their own"),
          other, own_, 0, 1));
      all.back().expected = std::string(planned_.bidirectional ? "bidirectional" : "causal");
      all.back().observed = std::string(other.bidirectional ? "bidirectional" : "causal");
    }
    for (std::int64_t most = 16; most <= 4096; most *= 2) {
      other = planned_;
      other.max_distance = most;
      if (most == planned_.max_distance || most <= planned_.buckets / 2) continue;
      all.push_back(of(fmt::format("max_distance is {} where {} is due", most, planned_.max_distance), other,
                       own_, 0, 1));
      all.back().expected = static_cast<double>(planned_.max_distance);
      all.back().observed = static_cast<double>(most);
      all.back().parameters = {{"max_distance", static_cast<double>(most)}};
    }
    all.push_back(of("distances have the other sign: query - key", planned_, own_, 0, -1));
    all.back().expected = std::string("key - query");
    all.back().observed = std::string("query - key");
    add_shifts(all);
    add_tables(all);
    return all;
  }

 private:
  static Candidate of(std::string text, const T5Buckets& buckets, const BucketTable& table,
                      std::int64_t shift, std::int64_t sign) {
    const BucketTable* const held = &table;
    return {.text = std::move(text), .value = [=](const BiasSample& sample) {
              return held->at(t5_bucket(sign * sample.distance + shift, buckets), sample.head);
            }};
  }

  /// The query stands elsewhere: off by a number, or at 0 while it decodes.
  void add_shifts(std::vector<Candidate>& all) const {
    for (std::int64_t shift = -32; shift <= 32; ++shift) {
      if (shift == 0) continue;
      all.push_back(of(fmt::format("the query counts as {} tokens {} where it stands", std::abs(shift),
                                   shift > 0 ? "before" : "behind"),
                       planned_, own_, shift, 1));
      all.back().expected = 0.0;
      all.back().observed = static_cast<double>(-shift);
      all.back().parameters = {{"shift", static_cast<double>(-shift)}};
    }
    const T5Buckets buckets = planned_;
    const BucketTable* const table = &own_;
    all.push_back({.text = "the query counts as standing at 0", .value = [=](const BiasSample& sample) {
                     return table->at(t5_bucket(sample.distance + sample.position, buckets), sample.head);
                   }});
    all.back().expected = static_cast<double>(samples_.back().position);
    all.back().observed = 0.0;
  }

  void add_tables(std::vector<Candidate>& all) const {
    const BucketTable* const table = &own_;
    const T5Buckets buckets = planned_;
    all.push_back({.text = "the table is read as [heads, buckets]", .value = [=](const BiasSample& sample) {
                     const std::int64_t flat =
                         sample.head * table->rows + t5_bucket(sample.distance, buckets);
                     return static_cast<double>(table->values[static_cast<std::size_t>(flat)]);
                   }});
    for (const BucketTable& other : tables_) {
      if (other.name == own_.name) continue;
      all.push_back(of(fmt::format("the table is {}", other.name), planned_, other, 0, 1));
      all.back().expected = own_.name;
      all.back().observed = other.name;
    }
  }

  T5Buckets planned_;
  const BucketTable& own_;
  const std::vector<BucketTable>& tables_;
  const std::vector<BiasSample>& samples_;
};

std::string factor_text(double factor) {
  if (std::abs(factor - 2) < 0.01) return "the bias is added twice";
  return fmt::format("the bias is multiplied by {:.5g}", factor);
}

}  // namespace

std::optional<BucketVerdict> judge_buckets(const Evidence& evidence, const Bias& bias, Stack stack,
                                           std::int64_t layer, const std::vector<BiasSample>& samples,
                                           double noise, bool& asked) {
  const std::vector<BucketTable> tables = tables_of(evidence, bias);
  const BucketTable* const own = own_table(tables, stack, layer);
  if (own == nullptr || samples.size() < 3) return std::nullopt;
  const Candidates candidates(bias, *own, tables, samples);
  const Candidate planned = candidates.planned();
  const Fit due = fit_of(samples, planned.value);
  const Fit nothing = fit_of(samples, [](const BiasSample&) { return 0.0; });
  asked = true;
  if (due.left <= noise && std::abs(due.factor - 1) * due.size <= noise) return std::nullopt;
  BucketVerdict verdict;
  verdict.curve = curve_of(samples, planned.value, layer);
  const auto hypothesis = [&](const std::string& text, const Fit& fit,
                              std::vector<std::pair<std::string, double>> parameters) {
    verdict.hypotheses.push_back({text, std::move(parameters),
                                  nothing.left > 0 ? fit.left / nothing.left : fit.left,
                                  nothing.left > 0 ? noise / nothing.left : noise});
  };
  if (nothing.left <= noise) {
    verdict.text = "no bias is added";
    verdict.expected = own->name;
    verdict.observed = 0.0;
    hypothesis(verdict.text, nothing, {});
    return verdict;
  }
  if (due.left <= noise) {
    verdict.text = factor_text(due.factor);
    verdict.expected = 1.0;
    verdict.observed = due.factor;
    hypothesis(verdict.text, due, {{"factor", due.factor}});
    return verdict;
  }
  std::optional<Candidate> best;
  Fit best_fit;
  for (Candidate& candidate : candidates.others()) {
    const Fit fit = fit_of(samples, candidate.value);
    if (fit.left > noise || std::abs(fit.factor - 1) > 0.05) continue;
    if (best && fit.left >= best_fit.left) continue;
    best_fit = fit;
    best = std::move(candidate);
  }
  if (best) {
    verdict.text = best->text;
    verdict.expected = best->expected;
    verdict.observed = best->observed;
    hypothesis(best->text, best_fit, best->parameters);
  } else {
    verdict.text = fmt::format("the bias is not {} by any known rule of buckets", own->name);
    verdict.expected = 0.0;
    verdict.observed = due.left;
  }
  hypothesis("as planned", due, {});
  return verdict;
}

}  // namespace locant::check_room
