// SPDX-License-Identifier: Apache-2.0
// The recipes: `exact`, and what each runtime does differently.
#include "locant/recipe.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/nearest.h"
#include "positions/deviations.h"

namespace locant {
namespace {

constexpr Numerics kF32 = {.frequency = DType::f32,
                           .angle = AngleNumerics::f32_product,
                           .table = DType::f32,
                           .run_dtype = DType::f32};
constexpr Numerics kTransformers = {.frequency = DType::f32,
                                    .angle = AngleNumerics::f32_product,
                                    .table = DType::f32,
                                    .run_dtype = DType::f32,
                                    .bias = DType::f32,
                                    .bias_before_scale = DType::bf16};
// ggml has no frequencies: its running product starts from the f32 ratio of two of them, taken exactly here.
constexpr Numerics kRunning = {.frequency = DType::f64,
                               .angle = AngleNumerics::f32_running,
                               .table = DType::f32,
                               .run_dtype = DType::f32};

constexpr std::array<Recipe, 9> kRecipes = {{
    {.name = "exact",
     .summary = "the published formulas in f64, each table value rounded once to f32",
     .numerics = {},
     .deviations = {}},
    {.name = "hf",
     .summary = "Hugging Face transformers with dtype=float32: f32 frequencies, f32 angles",
     .numerics = kTransformers,
     .deviations = deviations::kHf},
    {.name = "vllm",
     .summary = "vLLM: f32 tables, lengths decided when the server starts",
     .numerics = kF32,
     .deviations = deviations::kVllm},
    {.name = "sglang",
     .summary = "SGLang: f32 tables, dynamic NTK for the longest text at once",
     .numerics = kF32,
     .deviations = deviations::kSglang},
    {.name = "llama.cpp",
     .summary = "llama.cpp on the CPU: angles as a running f32 product, lengths decided when it is opened",
     .numerics = kRunning,
     .deviations = deviations::kLlamaCpp},
    {.name = "mlx",
     .summary = "mlx-lm: f32 angles, long factors at every length",
     .numerics = kF32,
     .deviations = deviations::kMlx},
    {.name = "tensorrt-llm",
     .summary = "TensorRT-LLM: f32 tables, lengths decided when the engine is built",
     .numerics = kF32,
     .deviations = deviations::kTensorrtLlm},
    {.name = "ctranslate2",
     .summary = "CTranslate2: f32 tables that grow by 2048 rows; few schedules",
     .numerics = kF32,
     .deviations = deviations::kCtranslate2},
    {.name = "onnxruntime",
     .summary = "onnxruntime-genai: f32 tables made when the graph is built",
     .numerics = kF32,
     .deviations = deviations::kOnnxruntime},
}};

}  // namespace

std::string_view name_of(Touches touches) noexcept {
  switch (touches) {
    case Touches::positions:
      return "positions";
    case Touches::scale:
      return "scale";
    case Touches::head:
      return "head";
    case Touches::position_ids:
      return "position_ids";
    case Touches::mlp:
      return "mlp";
  }
  return "";
}

bool Recipe::has(Quirk quirk) const noexcept {
  return quirk != Quirk::none && std::any_of(deviations.begin(), deviations.end(),
                                             [&](const Deviation& one) { return one.quirk == quirk; });
}

Numerics numerics_of(const Recipe& recipe, DType run_dtype) {
  if (run_dtype != DType::f32 && run_dtype != DType::f16 && run_dtype != DType::bf16) {
    throw SpecError(fmt::format("numerics_of: a model runs in f32, f16 or bf16, got {}", name_of(run_dtype)));
  }
  Numerics numerics = recipe.numerics;
  numerics.run_dtype = run_dtype;
  if (recipe.has(Quirk::table_in_run_dtype)) numerics.table = run_dtype;
  if (recipe.has(Quirk::bias_in_run_dtype)) numerics.bias = run_dtype;
  return numerics;
}

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
