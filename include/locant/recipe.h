// SPDX-License-Identifier: Apache-2.0
// A recipe says whose meaning a config is read under, and in which numbers the tables are built.
// `exact` is the published formula in f64; every other recipe is a small table of deviations.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/core.h"

namespace locant {

/// How an angle is formed from a position and a frequency.
enum class AngleNumerics : std::uint8_t {
  f64,          ///< position * inv_freq in double
  f32_product,  ///< f32(position) * f32(inv_freq), rounded once (transformers, vLLM)
  f32_running,  ///< running product of f32 factors over the pairs (ggml on the CPU)
};

/// The arithmetic that a runtime's tables go through.
struct Numerics {
  DType frequency = DType::f64;  ///< f64 or f32: the dtype inv_freq is computed in
  AngleNumerics angle = AngleNumerics::f64;
  DType table = DType::f32;      ///< what cos, sin and sinusoids are rounded to: f64, f32, f16, bf16
  DType run_dtype = DType::f32;  ///< the dtype whose rounding of constants (Gemma's sqrt d) is imitated
};

/// What a deviation of a recipe touches.
enum class Touches : std::uint8_t { positions, scale, head, position_ids };

/// What a recipe does differently by rule, not by rounding. A mechanism asks the recipe for it, so that a row
/// of the table of deviations and its effect are one thing. The last group acts outside the mechanisms.
enum class Quirk : std::uint8_t {
  none,                           ///< only numbers differ
  yarn_ignores_attention_factor,  ///< a stated amplitude is not read
  yarn_ignores_mscale_pair,       ///< mscale and mscale_all_dim are not read
  yarn_mscale_defaults,           ///< the ratio is always taken, with mscale 1 and mscale_all_dim 0 if absent
  yarn_mscale_is_mscale_all_dim,  ///< mscale_all_dim alone is kept and mscale taken to equal it
  yarn_mscale_alone_is_amplitude,    ///< mscale without mscale_all_dim is the amplitude itself
  yarn_always_truncates,             ///< `truncate` is not read
  yarn_never_truncates,              ///< `truncate` is not read
  yarn_original_is_1024,             ///< where the original length is not stated
  yarn_original_is_4096,             ///< where the original length is not stated
  yarn_sections_quadruple_original,  ///< four times the original length when there are sections
  yarn_reads_grok_original,          ///< the declared type "original" is scaled as YaRN
  yarn_plain_telechat_magnitude,     ///< the declared type "telechat3-yarn" takes 0.1 for its 0.07
  yarn_refused,                      ///< no such schedule
  dynamic_ntk_from_start,            ///< the base of factor times the trained length, at every length
  dynamic_ntk_never,                 ///< the base is never changed
  dynamic_ntk_refused,               ///< no such schedule
  longrope_by_capacity,              ///< long factors by the length the runtime was opened for
  longrope_by_table,          ///< long factors when the table, grown by 2048 rows, is past the original
  longrope_one_later,         ///< long factors when a position, not a length, is past the original
  longrope_always_long,       ///< short factors are not read
  longrope_pair_keeps_short,  ///< with the mscale pair (PhiMoE) the factors stay short
  longrope_ignores_attention_factor,  ///< the amplitude follows from the lengths alone
  proportional_ignores_factor,        ///< `factor` is not read
  proportional_refused,               ///< no such schedule
  sections_fourth_axis,               ///< pairs left over by interleaved sections follow a fourth axis
  sections_rescaled,                  ///< sections that do not fill the pairs are stretched
  temperature_needs_own_block,        ///< not read from inside rope_parameters
  table_in_run_dtype,                 ///< cos and sin are kept in the dtype the model runs in
  // Asked for outside the mechanisms:
  embedding_scale_unrounded,          ///< spec: Gemma's sqrt(hidden) is not rounded to the run dtype
  partial_factor_ignored_by_default,  ///< spec: partial_rotary_factor is not read without a schedule
  next_position_ignores_time,  ///< position ids: text after a video continues from its rows and columns
  padding_counted,             ///< position ids: XGLM counts from the left edge of a padded row
  sinusoid_whole_half,         ///< sinusoidal tables of Marian: the ladder is divided by h, not h - 1
  sinusoid_starts_at_one,      ///< sinusoidal tables made at run time start at position 1
};

/// One difference of a recipe from `exact`.
struct Deviation {
  Touches touches = Touches::positions;
  std::string_view what{};      ///< one sentence
  std::string_view evidence{};  ///< project, version or commit, file, issue
  bool tested_live = false;     ///< run against the package in our tests; otherwise read in its source
  Quirk quirk = Quirk::none;    ///< what mechanisms ask the recipe for
};

struct Recipe {
  std::string_view name{};     ///< "exact", "hf", ...
  std::string_view summary{};  ///< one sentence for `locant list recipes`
  Numerics numerics{};
  std::span<const Deviation> deviations{};

  /// Whether a deviation of this recipe has the quirk; never for Quirk::none.
  [[nodiscard]] bool has(Quirk quirk) const noexcept;
};

/// All recipes, in the order `locant list recipes` prints.
[[nodiscard]] std::span<const Recipe> recipes() noexcept;

/// The recipe of that name. Throws SpecError with the nearest name ("did you mean") otherwise.
[[nodiscard]] const Recipe& find_recipe(std::string_view name);

/// The numerics of a recipe when the model runs in a dtype (f32, f16 or bf16; else SpecError): constants are
/// rounded to it, and tables too where the recipe has Quirk::table_in_run_dtype.
[[nodiscard]] Numerics numerics_of(const Recipe& recipe, DType run_dtype);

/// The lengths a plan depends on: LongRoPE and dynamic NTK choose by one or the other.
struct Extent {
  std::int64_t seen = 0;      ///< tokens seen so far, the ones of this call included
  std::int64_t capacity = 0;  ///< tokens the runtime was opened for; 0 = not stated
};

}  // namespace locant
