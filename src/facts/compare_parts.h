// SPDX-License-Identifier: Apache-2.0
// The parts that compare() puts together. A SideReading is a side with its recipe and arithmetic.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "facts/parts.h"
#include "locant/compare.h"
#include "locant/recipe.h"

namespace locant {

struct SideReading {
  std::string name{};
  const ModelSpec* spec = nullptr;  ///< as published
  Recipe recipe{};
  Numerics numerics{};  ///< of the recipe in the run dtype

  /// The same rules in the numbers of `exact`.
  [[nodiscard]] Recipe by_rule() const;
};

/// The lengths at which plans are looked at, by tokens seen, ascending.
struct Extents {
  std::vector<std::int64_t> seen{};
  std::int64_t distance = 0;
  std::int64_t capacity = 0;

  /// A runtime that has seen more was opened for more.
  [[nodiscard]] Extent at(std::int64_t tokens) const {
    return {.seen = tokens, .capacity = tokens > capacity ? tokens : capacity};
  }
};
/// The start, the distance, each stated length and one more, and twice the longest of them.
[[nodiscard]] Extents extents_of(const SideReading& a, const SideReading& b, std::int64_t distance,
                                 std::int64_t capacity);

/// A difference by rule, before it is measured.
struct RuleDifference {
  Difference said{};
  std::string sentence{};     ///< of differences(), a key
  std::size_t stack = 0;      ///< of stacks_of()
  std::int64_t seen = 0;      ///< tokens seen at which it is told
  std::int64_t index = -1;    ///< where most: pair or head
  bool of_positions = false;  ///< a plan differs, so that tables tell how much

  /// The same place and field, and the same numbers where they count.
  [[nodiscard]] std::string key() const;
};

/// The field that a sentence of differences() is about: "inv_freq differs at ..", "amplitude is ..".
[[nodiscard]] std::string field_of(std::string_view what);
/// What plans, specs and position ids differ in, in the numbers of `exact`.
[[nodiscard]] std::vector<RuleDifference> rules_that_differ(const SideReading& a, const SideReading& b,
                                                            const Extents& extents);
/// Positions alone, without `seen_from` and `seen_to`.
void position_rules(const SideReading& a, const SideReading& b, const Extents& extents,
                    std::vector<RuleDifference>& found);
/// Of two formats: the pairs of a rotation lie in another order, and the rows of q and k with them.
[[nodiscard]] std::vector<std::string> file_order_notes(const SideReading& a, const SideReading& b,
                                                        const Extents& extents);
/// Token embedding, head, mlp, experts, attention, sizes, lengths.
void spec_rules(const SideReading& a, const SideReading& b, std::vector<RuleDifference>& found);
/// Positions of tokens behind images, and of padding.
void id_rules(const SideReading& a, const SideReading& b, std::vector<RuleDifference>& found);
[[nodiscard]] std::vector<std::string> padding_notes(const SideReading& a, const SideReading& b);

/// The plan of one layer of a stack (the first of a difference's layers), in the reading's own numbers.
[[nodiscard]] LayerPositions layer_plan(const SideReading& reading, std::size_t stack, std::int64_t layer,
                                        const Extent& extent);
[[nodiscard]] std::vector<PositionEmbedding> embedding_plan(const SideReading& reading, std::size_t stack,
                                                            const Extent& extent);

/// A part of a plan and the numbers its table is built in.
template <class Part>
struct Tabled {
  Part part{};
  Numerics numerics{};
};

/// Gaps at positions first, first + step, ...
using GapsAt = std::function<void(std::int64_t first, std::int64_t step, std::span<Gap> gaps)>;
/// Of text: a token has one position on its first three axes and 0 on a fourth. `pairs`: those looked at,
/// empty = all. Angles are told by the frequencies where these differ by rule, else by the tables.
enum class AnglesBy : std::uint8_t { frequencies, tables };
[[nodiscard]] GapsAt rotation_gaps(Tabled<Rotation> a, Tabled<Rotation> b, std::vector<std::int64_t> pairs,
                                   AnglesBy angles);
/// Of the last query over some keys, relative to the score of its own.
[[nodiscard]] GapsAt slope_gaps(const Tabled<Bias>& a, const Tabled<Bias>& b);
[[nodiscard]] GapsAt factor_gaps(const QueryScale& a, const QueryScale& b);
[[nodiscard]] GapsAt row_gaps(const Tabled<PositionEmbedding>& a, const Tabled<PositionEmbedding>& b);

/// Fills in how far a rule's tables are apart and from where on.
void measure(const SideReading& a, const SideReading& b, const Extents& extents, RuleDifference& rule);
/// What differs by arithmetic alone: plans of `a` in the numbers of both.
[[nodiscard]] std::vector<Difference> arithmetic_differences(const SideReading& a, const SideReading& b,
                                                             const Extents& extents);

/// Rows of both recipes without which a difference would not be, or would be another one.
void add_evidence(const SideReading& a, const SideReading& b, const Extents& extents,
                  std::vector<RuleDifference>& rules);
/// Rows about the numbers of a site, of their dtype ("table") or of how they are computed.
[[nodiscard]] std::vector<DifferenceEvidence> numeric_rows(const SideReading& reading, Site site,
                                                           std::string_view what);

/// Names, dtypes and shapes of two files of weights; `differences` and one note where formats differ.
void compare_weights(const CompareSide& a, const CompareSide& b, Comparison& comparison);

/// Half a step of a dtype at a magnitude: 2^-8 for bf16 and 2^-24 for f32 at 1.
[[nodiscard]] double half_step(DType dtype, double magnitude);

/// Fills at_distance and the first positions inside [0, distance).
void scan(const GapsAt& gaps, std::int64_t distance, Difference& difference);

}  // namespace locant
