// SPDX-License-Identifier: Apache-2.0
// The order in which data flows through a forward pass, by the canonical names of its tensors, and what the
// axes of each stand for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

namespace locant::check_room {

/// How the tensors of two traces are laid beside each other.
enum class Axes : std::uint8_t {
  aligned,     ///< input_ids, attention_mask: they say which tokens belong together
  tokens,      ///< [B, T, ...] floats
  last_token,  ///< logits: [B, T, V], or [B, 1, V] of the last column
  integers,    ///< [B, T], [1, T], [axes, B, T] or [T]
  table,       ///< [T, r], [B, T, r] or [axes, B, T, r]
  slots,       ///< [B, S, ...] of a cache
  scores,      ///< [B, heads, T, S], leading axes may be 1
  rows,        ///< [B, hidden]
  whole,       ///< one shape for both
  unknown,     ///< tokens where it looks like it, else whole
};

/// Where a tensor stands in one pass of one stack; tuples compare in the order of the flow.
struct FlowName {
  std::string bare;  ///< without step and stack: "layers.3.attn.q"
  Axes axes = Axes::unknown;
  std::int64_t layer = -1;  ///< of layers.N.*
  bool cross = false;       ///< cross-attention: keys are the encoder's tokens
  std::string part;         ///< "q_pre", "cache.k", "out" of layers.N.*; else the name itself
  std::tuple<int, std::int64_t, int, std::string> order;
};
[[nodiscard]] FlowName flow_of(std::string_view bare);

/// q_pre, q and their like: whole heads of [.., heads, head_dim].
[[nodiscard]] bool has_heads(const FlowName& name) noexcept;

}  // namespace locant::check_room
