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

/// One difference of a recipe from `exact`.
struct Deviation {
  Touches touches = Touches::positions;
  std::string_view what;      ///< one sentence
  std::string_view evidence;  ///< project, version or commit, file, issue
  bool tested_live = false;   ///< run against the package in our tests; otherwise read in its source
};

struct Recipe {
  std::string_view name;     ///< "exact", "hf", ...
  std::string_view summary;  ///< one sentence for `locant list recipes`
  Numerics numerics;
  std::span<const Deviation> deviations;
};

/// All recipes, in the order `locant list recipes` prints.
[[nodiscard]] std::span<const Recipe> recipes() noexcept;

/// The recipe of that name. Throws SpecError with the nearest name ("did you mean") otherwise.
[[nodiscard]] const Recipe& find_recipe(std::string_view name);

/// The lengths a plan depends on: LongRoPE and dynamic NTK choose by one or the other.
struct Extent {
  std::int64_t seen = 0;      ///< tokens seen so far, the ones of this call included
  std::int64_t capacity = 0;  ///< tokens the runtime was opened for; 0 = not stated
};

}  // namespace locant
