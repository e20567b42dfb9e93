// SPDX-License-Identifier: Apache-2.0
// The mechanisms Locant knows, the pure function from spec to plan, the tables a plan stands for,
// and position ids. Public face of src/positions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "locant/core.h"
#include "locant/plan.h"
#include "locant/recipe.h"

namespace locant {

// ---------------------------------------------------------------------------------------------
// Registry

struct ParameterDescription {
  std::string_view name;
  std::string_view unit;          ///< "1", "tokens", "elements", "rad/token", "heads"
  std::string_view default_text;  ///< "" = required
  std::string_view config_keys;   ///< space-separated Hugging Face and GGUF keys
  std::string_view meaning;       ///< one sentence
};

using SitePlan = std::variant<PositionEmbedding, Rotation, Bias, QueryScale>;

/// One mechanism: everything `list`, `explain`, the docs table and plan() know about it.
struct Mechanism {
  std::string_view name;
  std::span<const std::string_view> aliases;
  Site site;
  std::string_view summary;  ///< one sentence
  std::string_view formula;  ///< plain text, one or a few lines
  std::string_view paper;    ///< authors, year, title, equation
  std::span<const ParameterDescription> parameters;
  /// Pure. Throws SpecError "mechanism: rule, what we got" on a bad parameter.
  SitePlan (*plan)(const PositionSpec&, const Recipe&, const Extent&);
};

/// All mechanisms, in the order of `locant list mechanisms`.
[[nodiscard]] std::span<const Mechanism> mechanisms() noexcept;
/// By name or alias. Throws SpecError with the nearest name otherwise.
[[nodiscard]] const Mechanism& find_mechanism(std::string_view name);

/// What a model says, per stack: the embedding site and every layer's set of mechanisms.
struct StackPositions {
  Stack stack = Stack::decoder;
  std::vector<PositionSpec> embedding;
  std::vector<std::vector<PositionSpec>> layers;  ///< an empty inner list = a layer without positions
};

/// The plan of a stack. Equal layers share one kind. Throws SpecError as the mechanisms do, and when
/// a layer holds two mechanisms of one site.
[[nodiscard]] Plan plan(const StackPositions& positions, const Recipe& recipe, const Extent& extent);

// ---------------------------------------------------------------------------------------------
// Tables

/// cos and sin of a rotation at given positions, amplitude and sign included.
/// positions [axes, T] (axes > every Rotation::axis; else SpecError), cos and sin [T, P].
/// Maximum error under `exact`: 2^-24 * amplitude against the real-valued formula, |position| < 2^24.
/// `f32_product` and `f32_running` imitate their runtime instead. Table dtypes narrower than f32 are
/// rounded to that dtype and stored as f32.
void rotation_table(const Rotation& rotation, const Numerics& numerics, View<const std::int64_t, 2> positions,
                    View<float, 2> cos, View<float, 2> sin);

/// Rows of a sinusoidal embedding: row[t] = what is added at positions[t], scale included.
/// positions [T], rows [T, width]. Error as rotation_table, times |scale|.
/// Throws SpecError when the form is not sinusoid.
void sinusoid_rows(const PositionEmbedding& embedding, const Numerics& numerics,
                   View<const std::int64_t, 1> positions, View<float, 2> rows);

/// Row of a table at a position. Throws std::out_of_range that names the position, the row and the
/// table's end.
[[nodiscard]] std::int64_t table_row(const PositionEmbedding& embedding, std::int64_t position);

/// ALiBi's slopes for any number of heads, f64 (Press et al. 2022, and its published code for counts
/// that are no power of two). heads >= 1, bias_max > 0, else SpecError.
[[nodiscard]] std::vector<double> alibi_slopes(std::int64_t heads, double bias_max = 8);

// ---------------------------------------------------------------------------------------------
// Position ids

enum class Padding : std::uint8_t { none, left, right };
[[nodiscard]] std::string_view name_of(Padding padding) noexcept;

/// Positions of tokens start, start + 1, ...  [T]
[[nodiscard]] std::vector<std::int64_t> text_positions(std::int64_t tokens, std::int64_t start = 0);

/// Positions of a padded batch: content counts from `start` in each row, padding gets `pad_value`
/// (transformers 5 writes 0, 4.x wrote 1). mask [B, T], 1 = token; out [B, T]. The mask may have holes.
void masked_positions(View<const std::int64_t, 2> mask, std::int64_t start, std::int64_t pad_value,
                      View<std::int64_t, 2> out);

/// Ids and mask of uneven rows as one padded batch of width max(row length).
struct PaddedBatch {
  std::int64_t width = 0;
  std::vector<std::int64_t> ids;        ///< [B, width]
  std::vector<std::int64_t> mask;       ///< [B, width], 1 = token
  std::vector<std::int64_t> positions;  ///< [B, width]
};
/// Padding::none needs rows of equal length, else SpecError. starts: one per row, or empty for 0.
[[nodiscard]] PaddedBatch pad_batch(std::span<const std::vector<std::int64_t>> rows, Padding padding,
                                    std::int64_t pad_id, std::int64_t pad_value,
                                    std::span<const std::int64_t> starts = {});

/// Positions of the next `tokens` of a row whose cache stands at `last` (the largest position seen).
[[nodiscard]] std::vector<std::int64_t> continued_positions(std::int64_t last, std::int64_t tokens);

}  // namespace locant
