// SPDX-License-Identifier: Apache-2.0
// Which names of a trace stand for [B, heads, T, S].
#pragma once

#include <string_view>

namespace locant {

/// "layers.N.attn.scores", ".probs", ".bias"; also of an encoder, of cross-attention and behind a step.
[[nodiscard]] inline bool is_score_shaped(std::string_view name) noexcept {
  if (name.find("layers.") == std::string_view::npos) return false;
  for (const std::string_view site : {".attn", ".cross"}) {
    for (const std::string_view tensor : {".scores", ".probs", ".bias"}) {
      if (name.ends_with(tensor) && name.substr(0, name.size() - tensor.size()).ends_with(site)) return true;
    }
  }
  return false;
}

}  // namespace locant
