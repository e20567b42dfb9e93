// SPDX-License-Identifier: Apache-2.0
// The facts of a model: what its embedding, positions, attention and head are, in numbers, and where its
// lengths end. Plain data; nothing is measured and no weight is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locant/core.h"
#include "locant/plan.h"
#include "locant/positions.h"
#include "locant/spec.h"

namespace locant {

struct FactsQuery {
  std::string recipe{};                    ///< whose meaning; empty = "llama.cpp" for GGUF, else "hf"
  std::optional<std::int64_t> distance{};  ///< tokens seen, >= 0
  std::optional<std::int64_t> capacity{};  ///< tokens the runtime was opened for, >= 1
  /// A .safetensors or .gguf file, an index, or a directory that may hold one: only headers are read. Empty =
  /// none.
  std::string weights{};
};

struct ModelFacts {
  std::string path{};
  std::string format{};
  std::string family{};
  bool generic = false;  ///< the family is not known: its keys are read as most families mean them
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::optional<std::int64_t> parameters{};  ///< elements of all tensors, where the weights are there
};

/// Where the factor on looked-up rows is rounded.
enum class ScaleRounding : std::uint8_t { none, run_dtype };
[[nodiscard]] std::string_view name_of(ScaleRounding rounding) noexcept;

struct EmbeddingFacts {
  std::string tensor{};  ///< its name in the weights; empty = not known
  std::optional<DType> dtype{};
  std::string block_type{};  ///< GGUF's name where the rows are blocks and have no dtype ("Q8_0")
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double scale = 1;
  ScaleRounding scale_rounding = ScaleRounding::none;
  std::optional<NormKind> norm{};
  std::int64_t factorised_width = 0;
  std::int64_t token_types = 0;
  std::optional<std::int64_t> padding_id{};
};

struct HeadFacts {
  std::string tensor{};  ///< its name in the weights, the embedding's when tied; empty = not known
  bool tied = false;
  std::string tied_key{};  ///< empty = the family's default
  std::int64_t rows = 0;
  bool bias = false;
  double scale = 1;
  double softcap = 0;   ///< 0 = none
  bool absent = false;  ///< the weights are there and hold none: a bare encoder
};

/// Which length a plan follows.
enum class LengthRule : std::uint8_t { none, seen, capacity, both };
[[nodiscard]] std::string_view name_of(LengthRule rule) noexcept;

/// One distinct plan at one site of a stack. Each layer stands in one entry per site that it holds, or in the
/// one entry without a plan.
struct PositionFacts {
  Stack stack = Stack::decoder;
  std::vector<std::int64_t> layers{};  ///< ascending; empty at the embedding, which acts before layer 0
  std::string mechanism{};             ///< "none" without a plan
  std::optional<SitePlan> plan{};      ///< none = these layers mark no positions
  std::vector<Parameter> parameters{};
  std::optional<double> theta{};  ///< base of a rotation's ladder, as stated or by default
  LengthRule length_rule = LengthRule::none;
  std::string refused{};  ///< why the recipe has no plan for this mechanism; empty = it has one
};
/// "rotation", "bias", "query_scale", "embedding" or "none".
[[nodiscard]] std::string_view site_of(const PositionFacts& facts) noexcept;

/// Layers of a stack that attend in the same way. Layers without attention stand in no entry.
struct AttentionFacts {
  Stack stack = Stack::decoder;
  std::vector<std::int64_t> layers{};  ///< ascending
  AttentionSpec attention{};
};

/// What the angles of one rotation do inside a length L (LimitFacts::angle_length). Pairs that stand still
/// are not counted as pairs here.
struct AngleFacts {
  Stack stack = Stack::decoder;
  std::vector<std::int64_t> layers{};
  std::int64_t pairs = 0;
  double shortest_wavelength = 0;                  ///< tokens a turn, 2 pi / inv_freq; 0 = no pair turns
  double longest_wavelength = 0;                   ///< tokens a turn
  std::optional<std::int64_t> incomplete_pairs{};  ///< no full turn at positions < L
  /// First position at which an incomplete pair is past every angle that the plain ladder of the same theta
  /// gives it inside L: no sooner than L, later where a schedule slows the pair.
  std::optional<std::int64_t> leaves_from{};
  /// Pairs past that angle at the last position of the horizon (LimitFacts::horizon).
  std::optional<std::int64_t> leaving_pairs{};
};

/// Keys and values of the main stack, one sequence.
struct MemoryFacts {
  DType dtype = DType::f16;
  std::optional<std::int64_t> kv_bytes_per_token{};  ///< all layers; nothing when the config does not tell
  /// Bytes at the configured length; windows and chunks keep no more than their width.
  std::optional<std::int64_t> at_configured{};
  std::string why_not{};  ///< a sentence where kv_bytes_per_token is missing
};

struct LimitFacts {
  LengthSpec lengths{};
  std::optional<std::int64_t> hard{};           ///< rows of the shortest table that ends
  std::optional<std::int64_t> last_position{};  ///< the last one that such tables have a row for
  std::optional<std::int64_t> angle_length{};   ///< the trained length, else the configured one
  std::string angle_basis{};                    ///< "trained", "configured" or ""
  std::optional<std::int64_t> horizon{};        ///< the distance asked for, else the configured length
  std::vector<AngleFacts> angles{};             ///< one per rotation entry, in their order
  MemoryFacts memory{};
};

struct Facts {
  ModelFacts model{};
  EmbeddingFacts embedding{};
  HeadFacts head{};
  std::vector<PositionFacts> positions{};
  std::vector<AttentionFacts> attention{};
  LimitFacts limits{};
  std::string recipe{};
  std::optional<std::int64_t> distance{};
  std::optional<std::int64_t> capacity{};
  std::vector<Note> notes{};
};

/// Throws SpecError: an unknown recipe, a distance below 0, a capacity below 1, a mechanism that refuses its
/// parameters; FileError: weights whose headers are damaged.
[[nodiscard]] Facts facts_of(const ModelSpec& spec, const FactsQuery& query = {});

}  // namespace locant
