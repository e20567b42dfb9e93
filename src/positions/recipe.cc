// SPDX-License-Identifier: Apache-2.0
// The recipes: `exact`, and what each runtime does differently, with where that was read or tested.
#include "locant/recipe.h"

#include <array>

#include <fmt/format.h>

#include "core/nearest.h"

namespace locant {
namespace {

constexpr std::array<Deviation, 6> kHf = {{
    {.touches = Touches::positions,
     .what = "rope frequencies are 1 / theta^(2i/rotary_dim) with every step in f32",
     .evidence = "transformers 5.24.0, models/llama/modeling_llama.py, compute_default_rope_parameters",
     .tested_live = true},
    {.touches = Touches::positions,
     .what = "an angle is the f32 product of position and frequency: off by 1.4e-4 rad at position 4097 and "
             "5e-3 at 131071 (theta 500000, rotary_dim 128)",
     .evidence = "transformers 5.24.0, models/llama/modeling_llama.py, LlamaRotaryEmbedding.forward",
     .tested_live = true},
    {.touches = Touches::positions,
     .what = "sinusoidal tables in halves take frequencies, angles, sin and cos in f32",
     .evidence = "transformers 5.24.0, models/xglm/modeling_xglm.py and models/m2m_100/modeling_m2m_100.py, "
                 "get_embedding",
     .tested_live = true},
    {.touches = Touches::positions,
     .what = "sinusoidal tables of the paper take frequencies as exp(-2i ln(10000)/width), angles, sin and "
             "cos in f32",
     .evidence =
         "transformers 5.24.0, models/speecht5/modeling_speecht5.py, SpeechT5ScaledPositionalEncoding",
     .tested_live = true},
    {.touches = Touches::positions,
     .what = "alibi slopes are f32 powers of an f32 base",
     .evidence = "transformers 5.24.0, models/bloom/modeling_bloom.py, _get_alibi_slopes",
     .tested_live = true},
    {.touches = Touches::position_ids,
     .what = "generation counts positions over the ones of the mask and gives padding position 0",
     .evidence = "transformers 5.24.0, generation/utils.py, _prepare_position_ids_for_generation",
     .tested_live = true},
}};

constexpr std::array<Recipe, 2> kRecipes = {{
    {.name = "exact",
     .summary = "the published formulas in f64, each table value rounded once to f32",
     .numerics = {},
     .deviations = {}},
    {.name = "hf",
     .summary = "Hugging Face transformers with dtype=float32: f32 frequencies, f32 angles",
     .numerics = {.frequency = DType::f32,
                  .angle = AngleNumerics::f32_product,
                  .table = DType::f32,
                  .run_dtype = DType::f32},
     .deviations = kHf},
}};

}  // namespace

std::span<const Recipe> recipes() noexcept {
  return kRecipes;
}

const Recipe& find_recipe(std::string_view name) {
  std::array<std::string_view, kRecipes.size()> names;
  for (std::size_t i = 0; i < kRecipes.size(); ++i) {
    if (kRecipes[i].name == name) return kRecipes[i];
    names[i] = kRecipes[i].name;
  }
  const std::string near = nearest_name(name, names);
  throw SpecError(fmt::format("recipe: no recipe has this name, got \"{}\"{}", name,
                              near.empty() ? std::string() : fmt::format(", did you mean \"{}\"", near)));
}

}  // namespace locant
