// SPDX-License-Identifier: Apache-2.0
// What a model says about positions (PositionSpec) and what follows from it (Plan): plain data,
// doubles, no code. A position acts at a site; a layer holds a set of sites, `none` is the empty set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "locant/core.h"

namespace locant {

enum class Site : std::uint8_t { embedding, rotation, bias, query_scale };
[[nodiscard]] std::string_view name_of(Site site) noexcept;

// ---------------------------------------------------------------------------------------------
// Spec: what the model says

/// A parameter value; lists serve per-pair factors, section sizes and explicit slopes.
using ParameterValue = std::variant<std::int64_t, double, std::string, std::vector<double>>;

/// One stated parameter and the key it was read from ("rope_parameters.rope_theta"; empty = a
/// default of the family or of the mechanism).
struct Parameter {
  std::string name{};
  ParameterValue value{};
  std::string key{};
};

/// One mechanism with its parameters, as the model states it. Validated by plan().
struct PositionSpec {
  std::string mechanism{};  ///< registry name: "rope", "alibi", "sinusoidal", "learned", ...
  std::vector<Parameter> parameters{};

  [[nodiscard]] const Parameter* find(std::string_view name) const noexcept;
  /// A stated whole number or fraction; nothing when it is absent, a word or a list.
  [[nodiscard]] std::optional<double> number(std::string_view name) const noexcept;
  /// Replaces or appends.
  void set(std::string name, ParameterValue value, std::string key = {});
};

// ---------------------------------------------------------------------------------------------
// Plan: what follows from it

/// `half` pairs channel i with i + width/2; `interleaved` pairs 2i with 2i + 1.
enum class Pairing : std::uint8_t { half, interleaved };
[[nodiscard]] std::string_view name_of(Pairing pairing) noexcept;

/// xPos: pair i of a query is multiplied by zeta[i]^((position - center) / scale_base), of a key by
/// the inverse (Sun et al. 2022, eq. 12).
struct XposGrowth {
  std::vector<double> zeta{};  ///< [P]
  double scale_base = 512;     ///< tokens
  double center = 0;           ///< tokens

  bool operator==(const XposGrowth&) const = default;
};

/// Which tensors a rotation acts on. `output_inverse`: the attention output is rotated back at the
/// query's position (DeepSeek-V4).
struct ActsOn {
  bool q = true;
  bool k = true;
  bool v = false;
  bool output_inverse = false;

  bool operator==(const ActsOn&) const = default;
};

/// Rotation of P = width/2 pairs of channels: (a, b) -> amplitude * (a cos - b sin, b cos + a sin) with
/// angle = sign * position[axis] * inv_freq (Su et al. 2021, eq. 34).
struct Rotation {
  std::vector<double> inv_freq{};    ///< [P] rad/token; 0 = the pair stays (still times amplitude)
  std::vector<std::int64_t> axis{};  ///< [P] which position axis drives a pair; empty = axis 0 for all
  double amplitude = 1;              ///< factor on cos and sin (`attention_factor`)
  std::optional<XposGrowth> growth{};
  Pairing read = Pairing::half;   ///< how input channels are paired
  Pairing write = Pairing::half;  ///< how output channels are laid out (differs in DeepSeek-V3)
  std::int64_t head_dim = 0;      ///< elements of one head
  std::int64_t offset = 0;        ///< first rotated channel
  std::int64_t width = 0;         ///< rotated channels, 2P (`rotary_dim`)
  double sign = 1;                ///< -1 rotates the other way (NanoChat)
  ActsOn acts_on{};
  bool shared_key = false;  ///< one rotated key for all heads (MLA)

  bool operator==(const Rotation&) const = default;
};

enum class BiasForm : std::uint8_t {
  slopes,    ///< slope[head] * (key position - query position); bidirectional: -slope[head] * |distance|
  buckets,   ///< table[bucket(key - query)][head]                             (T5)
  function,  ///< a named function of the distance with learned parameters     (KERPLE, FIRE)
  content,   ///< depends on q and k through a relative table                  (DeBERTa, XLNet)
};
[[nodiscard]] std::string_view name_of(BiasForm form) noexcept;
/// Where a bias counts from: keys relative to the query, or absolute key positions (equal after softmax).
enum class CountsFrom : std::uint8_t { query, sequence_start, sequence_end };
[[nodiscard]] std::string_view name_of(CountsFrom from) noexcept;
/// Whether the bias is added to scaled scores or to q.k before the 1/sqrt(d) factor (Falcon).
enum class ScaleOrder : std::uint8_t { after_scale, before_scale };

/// Addition to the attention scores.
struct Bias {
  BiasForm form = BiasForm::slopes;
  std::int64_t heads = 0;
  std::vector<double> slopes{};      ///< [heads] 1/token, form slopes
  std::int64_t buckets = 0;          ///< form buckets: rows of the table; content: 0 = plain distances
  std::int64_t max_distance = 0;     ///< tokens, form buckets, content; content without buckets: 0 = any
  std::string function{};            ///< form function, content: its name ("log", "c2p|p2c")
  std::vector<std::string> roles{};  ///< weights it needs, by role ("relative_attention_bias")
  CountsFrom counts_from = CountsFrom::query;
  ScaleOrder scale_order = ScaleOrder::after_scale;
  bool bidirectional = false;
  /// Form content: the scores, bias included, are divided by sqrt(head_dim * terms) (DeBERTa: 1 + the
  /// number of position terms).
  std::int64_t terms = 1;
  /// [width/2] rad/token, form content: the relative table is a sinusoid and not learned (XLNet).
  std::vector<double> inv_freq{};

  bool operator==(const Bias&) const = default;
};

/// Factor on q as a function of its position ("attention temperature").
struct QueryScale {
  /// "log_floor": 1 + scale * ln(1 + floor((position + shift) / floor));
  /// "log_ratio": 1 + scale * max(0, ln(position + shift) / ln(floor) - 1)
  std::string form{};
  double scale = 0;
  double floor = 1;  ///< tokens
  double shift = 0;  ///< tokens (Llama 4: 1, Ministral 3: 0)

  bool operator==(const QueryScale&) const = default;
};

/// How the columns of a sinusoidal row are laid out.
enum class Columns : std::uint8_t { interleaved, halves };
[[nodiscard]] std::string_view name_of(Columns columns) noexcept;

enum class EmbeddingForm : std::uint8_t { table, sinusoid, token_types };
/// A position past the last row of a table: no row, or the last one (Marian's trained tables).
enum class PastEnd : std::uint8_t { refuse, last_row };
/// Whose numbers a sinusoid is computed in: those of the recipe, or f64 under every recipe (numpy tables).
enum class Arithmetic : std::uint8_t { recipe, f64 };

/// Addition to the token state.
struct PositionEmbedding {
  EmbeddingForm form = EmbeddingForm::table;
  std::int64_t rows = 0;            ///< of the table; 0 = a generator without end
  std::int64_t width = 0;           ///< elements of one row
  std::int64_t offset = 0;          ///< row = position + offset
  std::int64_t first_position = 0;  ///< position of a sequence's first token; its row is this + offset
  double scale = 1;
  std::string role{};  ///< form table, token_types: which weight ("positions")
  /// [width/2] rad/token, form sinusoid. An odd width: rounded down, the last column is 0; rounded up, the
  /// last frequency has a sine and no cosine.
  std::vector<double> inv_freq{};
  Columns columns = Columns::interleaved;
  bool cos_first = false;
  std::optional<std::int64_t> zero_row{};      ///< a row kept at zero (fairseq's padding row)
  PastEnd past_end = PastEnd::refuse;          ///< form table
  Arithmetic arithmetic = Arithmetic::recipe;  ///< form sinusoid

  bool operator==(const PositionEmbedding&) const = default;
};

/// The sites of one kind of layer. Nothing set = a layer without positions (NoPE).
struct LayerPositions {
  std::optional<Rotation> rotation{};
  std::optional<Bias> bias{};
  std::optional<QueryScale> query_scale{};

  bool operator==(const LayerPositions&) const = default;
};

enum class Stack : std::uint8_t { decoder, encoder, cross };
[[nodiscard]] std::string_view name_of(Stack stack) noexcept;

/// The positions of one stack. layers[l] indexes kinds.
struct Plan {
  Stack stack = Stack::decoder;
  std::vector<PositionEmbedding> embedding{};
  std::vector<std::int64_t> layers{};
  std::vector<LayerPositions> kinds{};

  bool operator==(const Plan&) const = default;
};

}  // namespace locant
