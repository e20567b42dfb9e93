// SPDX-License-Identifier: Apache-2.0
// The difference of two plans in words and numbers. A position p turns a pair by p * sign * inv_freq, so two
// frequencies that differ by d rad/token differ by more than e rad first at floor(e/d) + 1.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "locant/positions.h"

namespace locant {
namespace {

constexpr double kBf16Step = 0x1p-8;
constexpr double kF32HalfStep = 0x1p-24;
constexpr double kEndOfPositions = 0x1p62;

using Found = std::vector<PlanDifference>;

std::optional<std::int64_t> first_past(double per_token, double step) {
  const double position = std::floor(step / per_token) + 1;
  if (!(position < kEndOfPositions)) return std::nullopt;
  auto first = static_cast<std::int64_t>(position);
  // The quotient is rounded; the product decides.
  while (first > 1 && static_cast<double>(first - 1) * per_token > step) --first;
  while (static_cast<double>(first) * per_token <= step) ++first;
  return first;
}

std::string text(double value) {
  return fmt::format("{:.9g}", value);
}
std::string text(std::int64_t value) {
  return std::to_string(value);
}

/// "NAME is B instead of A" when they differ; numbers give the largest difference.
template <class Value>
void number(Found& found, Site site, std::string_view name, Value a, Value b) {
  if (a == b) return;
  found.push_back({.site = site,
                   .what = fmt::format("{} is {} instead of {}", name, text(b), text(a)),
                   .largest = std::abs(static_cast<double>(b) - static_cast<double>(a))});
}

void word(Found& found, Site site, std::string_view name, std::string_view a, std::string_view b) {
  if (a == b) return;
  found.push_back({.site = site, .what = fmt::format("{} is {} instead of {}", name, b, a)});
}

struct Listed {
  std::string_view name;   ///< "inv_freq"
  std::string_view items;  ///< "pairs"
  std::string_view item;   ///< "pair"
};

/// Two lists of numbers: how many differ, and where most. Returns the index of that place.
std::optional<std::size_t> list(Found& found, Site site, const Listed& words, const std::vector<double>& a,
                                const std::vector<double>& b) {
  if (a.size() != b.size()) {
    found.push_back(
        {.site = site,
         .what = fmt::format("{} has {} {} instead of {}", words.name, b.size(), words.items, a.size()),
         .largest = std::abs(static_cast<double>(b.size()) - static_cast<double>(a.size()))});
    return std::nullopt;
  }
  std::size_t differing = 0;
  std::size_t most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) ++differing;
    if (std::abs(b[i] - a[i]) > std::abs(b[most] - a[most])) most = i;
  }
  if (differing == 0) return std::nullopt;
  found.push_back(
      {.site = site,
       .what = fmt::format("{} differs at {} of {} {}, most at {} {}: {} instead of {}", words.name,
                           differing, a.size(), words.items, words.item, most, text(b[most]), text(a[most])),
       .largest = std::abs(b[most] - a[most]),
       .index = static_cast<std::int64_t>(most)});
  return most;
}

void frequencies(Found& found, Site site, const std::vector<double>& a, const std::vector<double>& b) {
  if (!list(found, site, {.name = "inv_freq", .items = "pairs", .item = "pair"}, a, b)) return;
  PlanDifference& difference = found.back();
  difference.first_bf16 = first_past(difference.largest, kBf16Step);
  difference.first_f32 = first_past(difference.largest, kF32HalfStep);
  if (difference.first_f32) {
    difference.what +=
        fmt::format("; angles part by more than 2^-24 rad from position {}", *difference.first_f32);
  }
  if (difference.first_bf16) {
    difference.what += fmt::format(", by more than 2^-8 from {}", *difference.first_bf16);
  }
}

std::string acts_on(const ActsOn& on) {
  std::string names;
  for (const auto& [acts, name] : {std::pair{on.q, "q"}, std::pair{on.k, "k"}, std::pair{on.v, "v"},
                                   std::pair{on.output_inverse, "the output, inversely"}}) {
    if (acts) names += names.empty() ? name : fmt::format(", {}", name);
  }
  return names.empty() ? "nothing" : names;
}

void growths(Found& found, const std::optional<XposGrowth>& a, const std::optional<XposGrowth>& b) {
  constexpr Site kSite = Site::rotation;
  word(found, kSite, "growth", a ? "xpos" : "none", b ? "xpos" : "none");
  if (!a || !b) return;
  list(found, kSite, {.name = "zeta", .items = "pairs", .item = "pair"}, a->zeta, b->zeta);
  number(found, kSite, "scale_base", a->scale_base, b->scale_base);
  number(found, kSite, "center", a->center, b->center);
}

void axes(Found& found, const Rotation& a, const Rotation& b) {
  const std::size_t pairs = std::min(a.inv_freq.size(), b.inv_freq.size());
  const auto axis_of = [](const Rotation& r, std::size_t i) { return i < r.axis.size() ? r.axis[i] : 0; };
  std::size_t differing = 0;
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < pairs; ++i) {
    if (axis_of(a, i) == axis_of(b, i)) continue;
    if (!first) first = i;
    ++differing;
  }
  if (!first) return;
  found.push_back(
      {.site = Site::rotation,
       .what = fmt::format("{} of {} pairs follow another axis, the first is pair {}: {} instead of {}",
                           differing, pairs, *first, axis_of(b, *first), axis_of(a, *first)),
       .index = static_cast<std::int64_t>(*first)});
}

void rotations(Found& found, const Rotation& a, const Rotation& b) {
  constexpr Site kSite = Site::rotation;
  frequencies(found, kSite, a.inv_freq, b.inv_freq);
  number(found, kSite, "amplitude", a.amplitude, b.amplitude);
  axes(found, a, b);
  word(found, kSite, "pairing", name_of(a.read), name_of(b.read));
  word(found, kSite, "write_pairing", name_of(a.write), name_of(b.write));
  number(found, kSite, "head_dim", a.head_dim, b.head_dim);
  number(found, kSite, "rotary_offset", a.offset, b.offset);
  number(found, kSite, "rotary_dim", a.width, b.width);
  number(found, kSite, "sign", a.sign, b.sign);
  word(found, kSite, "acts_on", acts_on(a.acts_on), acts_on(b.acts_on));
  word(found, kSite, "shared_key", a.shared_key ? "yes" : "no", b.shared_key ? "yes" : "no");
  growths(found, a.growth, b.growth);
}

std::string joined(const std::vector<std::string>& words) {
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

void biases(Found& found, const Bias& a, const Bias& b) {
  constexpr Site kSite = Site::bias;
  word(found, kSite, "form", name_of(a.form), name_of(b.form));
  number(found, kSite, "heads", a.heads, b.heads);
  list(found, kSite, {.name = "slopes", .items = "heads", .item = "head"}, a.slopes, b.slopes);
  number(found, kSite, "buckets", a.buckets, b.buckets);
  number(found, kSite, "max_distance", a.max_distance, b.max_distance);
  word(found, kSite, "function", a.function, b.function);
  word(found, kSite, "roles", joined(a.roles), joined(b.roles));
  word(found, kSite, "counts_from", name_of(a.counts_from), name_of(b.counts_from));
  const auto order = [](ScaleOrder o) {
    return o == ScaleOrder::after_scale ? "after_scale" : "before_scale";
  };
  word(found, kSite, "scale_order", order(a.scale_order), order(b.scale_order));
  word(found, kSite, "bidirectional", a.bidirectional ? "yes" : "no", b.bidirectional ? "yes" : "no");
  number(found, kSite, "terms", a.terms, b.terms);
  frequencies(found, kSite, a.inv_freq, b.inv_freq);
}

void query_scales(Found& found, const QueryScale& a, const QueryScale& b) {
  constexpr Site kSite = Site::query_scale;
  word(found, kSite, "form", a.form, b.form);
  number(found, kSite, "scale", a.scale, b.scale);
  number(found, kSite, "floor", a.floor, b.floor);
  number(found, kSite, "shift", a.shift, b.shift);
}

std::string_view form_of(EmbeddingForm form) {
  switch (form) {
    case EmbeddingForm::table:
      return "table";
    case EmbeddingForm::sinusoid:
      return "sinusoid";
    case EmbeddingForm::token_types:
      return "token types";
  }
  return "?";
}

void embeddings(Found& found, const PositionEmbedding& a, const PositionEmbedding& b) {
  constexpr Site kSite = Site::embedding;
  word(found, kSite, "form", form_of(a.form), form_of(b.form));
  number(found, kSite, "rows", a.rows, b.rows);
  number(found, kSite, "width", a.width, b.width);
  number(found, kSite, "offset", a.offset, b.offset);
  number(found, kSite, "first_position", a.first_position, b.first_position);
  number(found, kSite, "scale", a.scale, b.scale);
  word(found, kSite, "role", a.role, b.role);
  frequencies(found, kSite, a.inv_freq, b.inv_freq);
  word(found, kSite, "columns", name_of(a.columns), name_of(b.columns));
  word(found, kSite, "cos_first", a.cos_first ? "yes" : "no", b.cos_first ? "yes" : "no");
  const auto row = [](const std::optional<std::int64_t>& r) { return r ? text(*r) : std::string("none"); };
  word(found, kSite, "zero_row", row(a.zero_row), row(b.zero_row));
  const auto past = [](PastEnd p) { return p == PastEnd::refuse ? "refused" : "the last row"; };
  word(found, kSite, "a position past the end", past(a.past_end), past(b.past_end));
  const auto numbers = [](Arithmetic x) { return x == Arithmetic::f64 ? "f64" : "that of the recipe"; };
  word(found, kSite, "arithmetic", numbers(a.arithmetic), numbers(b.arithmetic));
}

/// What is at a site of one plan and not of the other, or differs there.
template <class Part, class Compare>
void part(Found& found, Site site, const std::optional<Part>& a, const std::optional<Part>& b,
          const Compare& compare) {
  if (a && b) {
    compare(found, *a, *b);
  } else if (a || b) {
    found.push_back(
        {.site = site,
         .what = fmt::format("a {} is {}", name_of(site), b ? "there only in the second" : "missing")});
  }
}

Found of_kinds(const LayerPositions& a, const LayerPositions& b) {
  Found found;
  part(found, Site::rotation, a.rotation, b.rotation, rotations);
  part(found, Site::bias, a.bias, b.bias, biases);
  part(found, Site::query_scale, a.query_scale, b.query_scale, query_scales);
  return found;
}

}  // namespace

std::vector<PlanDifference> differences(const Plan& a, const Plan& b) {
  Found all;
  number(all, Site::embedding, "the number of embeddings", static_cast<std::int64_t>(a.embedding.size()),
         static_cast<std::int64_t>(b.embedding.size()));
  for (std::size_t i = 0; i < std::min(a.embedding.size(), b.embedding.size()); ++i) {
    embeddings(all, a.embedding[i], b.embedding[i]);
  }
  Found layered;
  number(layered, Site::rotation, "the number of layers", static_cast<std::int64_t>(a.layers.size()),
         static_cast<std::int64_t>(b.layers.size()));
  std::map<std::pair<std::int64_t, std::int64_t>, Found> of_pair;
  std::map<std::pair<Site, std::string>, std::size_t> place;
  for (std::size_t layer = 0; layer < std::min(a.layers.size(), b.layers.size()); ++layer) {
    const std::pair key(a.layers[layer], b.layers[layer]);
    const auto kind = of_pair.find(key);
    const Found& found = kind != of_pair.end()
                             ? kind->second
                             : of_pair
                                   .emplace(key, of_kinds(a.kinds.at(static_cast<std::size_t>(key.first)),
                                                          b.kinds.at(static_cast<std::size_t>(key.second))))
                                   .first->second;
    for (const PlanDifference& one : found) {
      const auto [at, fresh] = place.emplace(std::pair(one.site, one.what), layered.size());
      if (fresh) layered.push_back(one);
      layered[at->second].layers.push_back(static_cast<std::int64_t>(layer));
    }
  }
  std::stable_sort(layered.begin(), layered.end(),
                   [](const PlanDifference& x, const PlanDifference& y) { return x.site < y.site; });
  all.insert(all.end(), layered.begin(), layered.end());
  return all;
}

}  // namespace locant
