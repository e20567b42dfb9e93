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
  // What slope * position of ALiBi is rounded to where it counts from the sequence's start.
  DType bias = DType::f32;               ///< added after the scale (BLOOM)
  DType bias_before_scale = DType::f32;  ///< added before it (Falcon)
};

/// What a deviation of a recipe touches.
enum class Touches : std::uint8_t { positions, scale, head, position_ids, mlp };
[[nodiscard]] std::string_view name_of(Touches touches) noexcept;

/// What a recipe does differently by rule, not by rounding. A mechanism asks the recipe for it, so that a row
/// of the table of deviations and its effect are one thing. The last group acts outside plan().
enum class Quirk : std::uint8_t {
  none,                           ///< only numbers differ
  yarn_ignores_attention_factor,  ///< a stated amplitude is not read
  yarn_ignores_mscale_pair,       ///< mscale and mscale_all_dim are not read
  yarn_mscale_defaults,           ///< the ratio is always taken, with mscale 1 and mscale_all_dim 0 if absent
  yarn_mscale_is_mscale_all_dim,  ///< mscale_all_dim alone is kept, mscale taken to equal it (DeepSeek) or 1
  yarn_mscale_alone_is_amplitude,     ///< mscale without mscale_all_dim is the amplitude itself
  yarn_always_truncates,              ///< `truncate` is not read
  yarn_never_truncates,               ///< `truncate` is not read
  yarn_truncates_layer_types,         ///< `truncate` is not read from the block of one layer type
  yarn_ignores_extrapolation_factor,  ///< `extrapolation_factor` is not read
  yarn_original_is_1024,              ///< where the original length is not stated
  yarn_original_is_4096,              ///< where the original length is not stated
  yarn_sections_quadruple_original,   ///< four times the original length when there are sections
  yarn_reads_grok_original,           ///< the declared type "original" is scaled as YaRN
  yarn_plain_telechat_magnitude,      ///< the declared type "telechat3-yarn" takes 0.1 for its 0.07
  yarn_refused,                       ///< no such schedule
  dynamic_ntk_from_start,             ///< the base of factor times the trained length, at every length
  dynamic_ntk_never,                  ///< the base is never changed
  dynamic_ntk_refused,                ///< no such schedule
  longrope_by_capacity,               ///< long factors by the length the runtime was opened for
  longrope_by_table,          ///< long factors when the table, of 2048 rows or more, is past the original
  longrope_one_later,         ///< long factors when a position, not a length, is past the original
  longrope_always_long,       ///< short factors are not read
  longrope_pair_keeps_short,  ///< with the mscale pair (PhiMoE) the factors stay short
  longrope_ignores_attention_factor,  ///< the amplitude follows from the lengths alone
  longrope_whole_ratio,               ///< the ratio of the lengths is rounded down to a whole number
  llama3_ignores_factor,              ///< `factor` is not read: nothing is scaled
  proportional_ignores_factor,        ///< `factor` is not read
  proportional_refused,               ///< no such schedule
  sections_fourth_axis,               ///< pairs left over by interleaved sections follow a fourth axis
  sections_rescaled,                  ///< sections that do not fill the pairs are stretched
  sections_ignored,                   ///< every pair follows the first axis
  base_taken_for_width,               ///< rotary_emb_base is taken for rotary_dim
  partial_factor_ignored_by_default,  ///< some classes read partial_rotary_factor only beside a schedule
  temperature_needs_own_block,        ///< not read from inside rope_parameters
  slopes_bf16_before_scale,  ///< slopes added before the scale (Falcon), and their products, are bf16
  sinusoid_whole_half,       ///< the ladder of Marian's tables is divided by h, not h - 1
  sinusoid_starts_at_one,    ///< sinusoidal tables made at run time start at position 1
  // Asked for outside plan():
  table_in_run_dtype,              ///< numerics_of: cos and sin are kept in the dtype the model runs in
  bias_in_run_dtype,               ///< numerics_of: BLOOM's ALiBi is rounded to it
  embedding_scale_unrounded,       ///< facts: Gemma's sqrt(hidden) is not rounded to the run dtype
  head_scale_inverted_by_default,  ///< under_recipe: a MiniCPM file without logit_scale multiplies for
                                   ///< dividing
  head_unscaled_when_tied,         ///< under_recipe: T5's tied head is not multiplied by 1/sqrt(hidden)
  gelu_by_tanh,                    ///< under_recipe: the erf form of GELU is computed in its tanh form
  expert_groups_by_pairs,          ///< under_recipe: every group of experts counts by its two best
  head_tied_whatever_stated,       ///< facts: T5's head is the embedding, a stated false only unscales it
  next_position_ignores_time,      ///< mrope_rules: text goes on behind a video's rows and columns
  padding_counted,                 ///< padding_rule: a call without positions counts padding too
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
