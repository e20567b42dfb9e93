// SPDX-License-Identifier: Apache-2.0
// The same rules in the numbers of two runtimes: how far their tables are apart by arithmetic alone.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "facts/compare_parts.h"

namespace locant {
namespace {

std::string_view angle_text(AngleNumerics angle) {
  switch (angle) {
    case AngleNumerics::f64:
      return "a product in f64";
    case AngleNumerics::f32_product:
      return "one f32 product";
    case AngleNumerics::f32_running:
      return "a running f32 product over the pairs";
  }
  return "";
}

/// What differs between the numbers, in a word and a sentence without positions.
struct Numbers {
  std::string what;
  std::string sentence;
};

Numbers of_angles(const SideReading& a, const SideReading& b) {
  Numbers found;
  const auto say = [&](std::string_view what, const std::string& sentence) {
    if (found.what.empty()) found.what = what;
    found.sentence += found.sentence.empty() ? sentence : ", and " + sentence;
  };
  if (a.numerics.angle != b.numerics.angle)
    say("angle", fmt::format("an angle is {} under {} and {} under {}", angle_text(b.numerics.angle), b.name,
                             angle_text(a.numerics.angle), a.name));
  if (a.numerics.table != b.numerics.table)
    say("table", fmt::format("the table is kept in {} under {} and {} under {}", name_of(b.numerics.table),
                             b.name, name_of(a.numerics.table), a.name));
  if (found.what.empty() && a.numerics.frequency != b.numerics.frequency)
    say("frequency", fmt::format("frequencies are {} under {} and {} under {}", name_of(b.numerics.frequency),
                                 b.name, name_of(a.numerics.frequency), a.name));
  return found;
}

Numbers of_slopes(const SideReading& a, const SideReading& b, const Bias& bias) {
  const bool before = bias.scale_order == ScaleOrder::before_scale;
  const DType in_a = before ? a.numerics.bias_before_scale : a.numerics.bias;
  const DType in_b = before ? b.numerics.bias_before_scale : b.numerics.bias;
  if (bias.counts_from == CountsFrom::sequence_start && in_a != in_b) {
    return {"bias", fmt::format("slope times position is rounded to {} under {} and {} under {}",
                                name_of(in_b), b.name, name_of(in_a), a.name)};
  }
  if (a.numerics.frequency == b.numerics.frequency) return {};
  return {"slope", fmt::format("slopes are {} under {} and {} under {}", name_of(b.numerics.frequency),
                               b.name, name_of(a.numerics.frequency), a.name)};
}

/// The rules of `a` in the numbers of `b`.
SideReading mixed(const SideReading& a, const SideReading& b) {
  SideReading reading = a;
  reading.recipe.numerics = b.recipe.numerics;
  reading.numerics = b.numerics;
  return reading;
}

class ArithmeticOf {
 public:
  ArithmeticOf(const SideReading& a, const SideReading& b, const Extents& extents,
               std::vector<Difference>& found)
      : a_(a), b_(b), in_b_(mixed(a, b)), extents_(extents), found_(found) {}

  void stack(std::size_t index, const StackPositions& positions) {
    const Extent extent = extents_.at(extents_.distance);
    Plan of_a;
    try {
      of_a = plan(positions, a_.recipe, extent);
      (void)plan(positions, in_b_.recipe, extent);
    } catch (const SpecError&) {
      return;  // what a recipe refuses has no numbers
    }
    const Numbers angles = of_angles(a_, b_);
    const std::vector<PositionEmbedding> rows_b = embedding_plan(in_b_, index, extent);
    for (std::size_t i = 0; i < of_a.embedding.size(); ++i) {
      const PositionEmbedding& row = of_a.embedding[i];
      if (row.form != EmbeddingForm::sinusoid || angles.what.empty()) continue;
      add(Site::embedding, positions.stack, {}, angles,
          row_gaps({row, a_.numerics}, {rows_b.at(i), b_.numerics}));
    }
    for (std::size_t kind = 0; kind < of_a.kinds.size(); ++kind) {
      std::vector<std::int64_t> layers;
      for (std::size_t layer = 0; layer < of_a.layers.size(); ++layer) {
        if (of_a.layers[layer] == static_cast<std::int64_t>(kind))
          layers.push_back(static_cast<std::int64_t>(layer));
      }
      const LayerPositions of_b = layer_plan(in_b_, index, layers.front(), extent);
      const LayerPositions& of_kind = of_a.kinds[kind];
      if (of_kind.rotation && !angles.what.empty())
        add(Site::rotation, positions.stack, layers, angles,
            rotation_gaps({*of_kind.rotation, a_.numerics}, {*of_b.rotation, b_.numerics}, {},
                          AnglesBy::tables));
      if (!of_kind.bias || of_kind.bias->slopes.empty()) continue;
      const Numbers slopes = of_slopes(a_, b_, *of_kind.bias);
      if (!slopes.what.empty())
        add(Site::bias, positions.stack, layers, slopes,
            slope_gaps({*of_kind.bias, a_.numerics}, {*of_b.bias, b_.numerics}));
    }
  }

 private:
  void add(Site site, Stack stack, const std::vector<std::int64_t>& layers, const Numbers& numbers,
           const GapsAt& gaps) {
    Difference one;
    one.kind = DifferenceKind::arithmetic;
    one.what = numbers.what;
    one.site = std::string(name_of(site));
    one.stack = stack;
    one.layers = layers;
    scan(gaps, extents_.distance, one);
    if (!one.first_f32 && !one.first_bf16) return;
    one.inside = one.first_bf16.has_value();
    const std::string_view element = site == Site::rotation ? "cos and sin"
                                     : site == Site::bias   ? "scores"
                                                            : "elements";
    one.message = fmt::format("{}: {} are {:.3g} apart at position {}", numbers.sentence, element,
                              one.at_distance->difference, one.at_distance->position);
    if (a_.recipe.name != b_.recipe.name) {
      one.evidence = numeric_rows(a_, site);
      for (DifferenceEvidence& row : numeric_rows(b_, site)) one.evidence.push_back(std::move(row));
    }
    // Kinds of layers that differ in rules alone are one.
    const auto same = std::find_if(found_.begin(), found_.end(), [&](const Difference& other) {
      return other.site == one.site && other.stack == one.stack && other.message == one.message;
    });
    if (same == found_.end()) {
      found_.push_back(std::move(one));
    } else {
      same->layers.insert(same->layers.end(), layers.begin(), layers.end());
      std::sort(same->layers.begin(), same->layers.end());
    }
  }

  const SideReading& a_;
  const SideReading& b_;
  SideReading in_b_;
  const Extents& extents_;
  std::vector<Difference>& found_;
};

}  // namespace

std::vector<Difference> arithmetic_differences(const SideReading& a, const SideReading& b,
                                               const Extents& extents) {
  std::vector<Difference> found;
  ArithmeticOf arithmetic(a, b, extents, found);
  const std::vector<StackView> stacks = stacks_of(*a.spec);
  for (std::size_t i = 0; i < stacks.size(); ++i) arithmetic.stack(i, stacks[i].positions);
  return found;
}

}  // namespace locant
