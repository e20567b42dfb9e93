// SPDX-License-Identifier: Apache-2.0
// Where two readings differ: one config under two recipes, or two models. Differences in words and numbers,
// measured on the tables that each recipe's arithmetic builds, and the rows of the recipes that they rest on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locant/core.h"
#include "locant/plan.h"
#include "locant/spec.h"

namespace locant {

/// One reading of what a model says.
struct CompareSide {
  std::string name{};               ///< as sentences name it: the recipe, or "A" and "B"
  const ModelSpec* spec = nullptr;  ///< as published; must outlive the call
  std::string recipe{};             ///< empty = "llama.cpp" for GGUF, else "hf"
  std::optional<DType> dtype{};     ///< that the model says it is run in, stated_dtype()
  std::string weights{};            ///< as FactsQuery::weights; two models are compared by their headers
};

struct CompareQuery {
  /// Tokens compared, >= 1; none = the configured length, or where none is stated kDefaultDistance.
  std::optional<std::int64_t> distance{};
  std::optional<std::int64_t> capacity{};  ///< tokens the runtime was opened for; none = distance
  std::optional<DType> run_dtype{};        ///< f32, f16 or bf16; none = the first side's own, else f32
};
inline constexpr std::int64_t kDefaultDistance = 2048;

enum class DifferenceKind : std::uint8_t {
  rule,        ///< the config means something else
  arithmetic,  ///< the same rule in other numbers: dtypes, products, roundings
};
[[nodiscard]] std::string_view name_of(DifferenceKind kind) noexcept;

/// How far the readings are apart at one position.
struct Gap {
  std::int64_t position = 0;
  std::int64_t index = -1;  ///< pair, head or column where it is largest; -1 = no single one
  /// Angle between the two rotated pairs in radians, not wrapped where the frequencies differ; none where
  /// nothing turns.
  std::optional<double> radians{};
  /// Largest difference of an element: of cos and sin with their amplitude (rotation), of a score's bias
  /// relative to the query's own (bias), of the factor on a query, of a row's element (embedding).
  double difference = 0;
  double magnitude = 0;  ///< of what is compared there: amplitude, bias, factor, scale
};

/// A row of a recipe that a difference rests on.
struct DifferenceEvidence {
  std::string recipe{};
  std::string what{};
  std::string evidence{};
  bool tested_live = false;
};

struct Difference {
  DifferenceKind kind = DifferenceKind::rule;
  std::string what{};  ///< in a word: "inv_freq", "amplitude", "slopes", "refused", "activation", ...
  std::string site{};  ///< a Site's name, or "scale", "head", "mlp", "experts", "attention", "block", ...
  std::optional<Stack> stack{};        ///< none = not of one stack
  std::vector<std::int64_t> layers{};  ///< ascending; empty = outside the layers, or all of them
  std::vector<std::int64_t> pairs{};  ///< pairs or heads that differ, ascending; empty = all, or none has one
  std::string message{};              ///< one sentence that names both sides
  std::optional<double> a{};          ///< the value, where it is one number
  std::optional<double> b{};
  std::optional<Gap> at_distance{};  ///< at the last position compared
  /// First position at which the difference exceeds half a step of the dtype at its magnitude; none: at no
  /// position compared, or nothing that positions measure. Positions past kDense are looked at every kStride.
  std::optional<std::int64_t> first_bf16{};
  std::optional<std::int64_t> first_f32{};
  /// Tokens seen while the readings differ, where a schedule follows the length: from .. to, both included.
  std::optional<std::int64_t> seen_from{};
  std::optional<std::int64_t> seen_to{};
  bool inside = true;  ///< beyond rounding inside the tokens compared
  std::vector<DifferenceEvidence> evidence{};

  static constexpr std::int64_t kDense = std::int64_t{1} << 18;
  static constexpr std::int64_t kStride = 64;
};

struct Comparison {
  std::string a{};
  std::string b{};
  std::int64_t distance = 0;
  std::string distance_basis{};  ///< the key it was read from, "given", or "assumed"
  std::int64_t capacity = 0;
  DType run_dtype = DType::f32;
  std::string run_dtype_basis{};  ///< "config", "given" or "assumed"
  std::vector<Difference> differences{};
  std::vector<Difference> within_rounding{};  ///< arithmetic that stays below half a step of bf16
  std::vector<std::string> notes{};           ///< what depends on the caller
};
/// The dtype that a config.json (or its directory) says the model is run in, "dtype" or "torch_dtype": f32,
/// f16 or bf16; nothing where it says none, or is no JSON.
[[nodiscard]] std::optional<DType> stated_dtype(const std::string& path);

/// Some difference is beyond rounding inside the tokens compared.
[[nodiscard]] bool differs(const Comparison& comparison) noexcept;

/// Throws SpecError: a distance or capacity below 1, a capacity below the distance, a distance past the end
/// of a position table, an unknown recipe, a family that no recipe knows, a mechanism that both refuse.
[[nodiscard]] Comparison compare(const CompareSide& a, const CompareSide& b, const CompareQuery& query = {});

/// The order of first position, layers and stack in words: "layers 0-31 of the encoder", "" = nowhere.
[[nodiscard]] std::string layers_text(const Difference& difference);

// ---------------------------------------------------------------------------------------------
// What a difference does to a model

/// Two runs of the same tokens, token by token. Sums are double.
struct LogitChange {
  std::string a{};
  std::string b{};
  std::int64_t tokens = 0;      ///< whose logits (or states) were compared
  double largest = 0;           ///< |b - a| of a logit, or of a state where there is no head
  double largest_relative = 0;  ///< of the largest |a|
  std::int64_t row = 0;         ///< where the largest is
  std::int64_t token = 0;
  std::optional<double> kl{};      ///< mean KL(a || b), nats per token
  std::optional<double> top1{};    ///< share of tokens with the same largest logit
  std::optional<double> loss_a{};  ///< mean negative log-likelihood of the next token, nats
  std::optional<double> loss_b{};  ///< of the same tokens
  std::int64_t loss_tokens = 0;    ///< tokens that have a next one
};

struct CompareEffect {
  std::string text{};  ///< where the tokens are from: "bundled", "given", "ids", "seeded"
  std::string of{};    ///< "logits" or "states"
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::int64_t capacity = 0;  ///< tokens the runtimes were opened for
  std::vector<LogitChange> pairs{};
  std::string why_not{};  ///< a sentence where nothing was run
};

/// What `locant compare` answers.
struct CompareReport {
  std::string model{};  ///< path; of A where there are two
  std::string other{};  ///< path of B; empty under recipes
  std::string family{};
  std::vector<std::string> recipes{};  ///< of the sides
  std::vector<std::string> sides{};    ///< names, the first is what others are compared with
  std::vector<Comparison> pairs{};     ///< every two sides, the first's ones first
  std::optional<CompareEffect> effect{};
  std::optional<bool> same_tokenizer{};  ///< two models: the same ids for the text
};

}  // namespace locant
