// SPDX-License-Identifier: Apache-2.0
// Where a tensor stands in a model, whatever its file calls it. The words are GGUF's ("attn_q", "ffn_up").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace locant::check_room {

struct Place {
  std::string role{};       ///< "token_embd", "attn_q", ...
  std::string ending{};     ///< "weight", "bias", or "" for what has neither
  std::int64_t layer = -1;  ///< -1 = outside the layers

  /// "blk.3.attn_q.weight"
  [[nodiscard]] std::string text() const;
};

/// The number of a layer in a name of either format, and what stands before and behind it.
struct Layered {
  std::string_view before{};
  std::int64_t layer = -1;
  std::string_view behind{};
};
[[nodiscard]] std::optional<Layered> layered(std::string_view name);

[[nodiscard]] std::optional<Place> place_in_gguf(std::string_view name);
/// Of names as transformers and Meta write them, `all` of one checkpoint; in their order.
[[nodiscard]] std::vector<std::optional<Place>> places_in_checkpoint(
    const std::vector<std::string_view>& all);

/// Masks, tables of frequencies and counters that checkpoints and converters write beside the weights.
[[nodiscard]] bool is_no_weight(std::string_view name);
/// Families whose norms multiply by 1 + weight, which GGUF stores as one number.
[[nodiscard]] bool adds_one_to_norms(std::string_view family);

}  // namespace locant::check_room
