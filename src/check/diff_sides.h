// SPDX-License-Identifier: Apache-2.0
// Two traces laid beside each other: which token of one is which token of the other. A token is known by its
// row and by how many tokens of content stand before it, over all passes, so that padding on either side and
// prompts fed in pieces mean the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check/evidence.h"

namespace locant::check_room {

inline constexpr std::int64_t kPadding = -1;

struct TokenPlace {
  std::size_t pass = 0;  ///< in Trace::passes
  std::int64_t token = 0;
};

struct Side {
  const Trace* trace = nullptr;
  std::vector<std::vector<TokenPlace>> tokens;   ///< [B][content tokens, all passes]
  std::vector<std::vector<std::int64_t>> index;  ///< [pass][B * T] content before the token, or kPadding

  [[nodiscard]] const Pass& pass(std::size_t at) const { return trace->passes[at]; }
  /// Content of the row before the token, or kPadding.
  [[nodiscard]] std::int64_t content_of(std::size_t pass, std::int64_t row, std::int64_t token) const {
    return index[pass][trace->passes[pass].at(row, token)];
  }
  /// Null for padding that was never fed, and past the end.
  [[nodiscard]] const TokenPlace* place(std::int64_t row, std::int64_t content) const;
};

/// One stack of both traces.
struct Pair {
  Side want;
  Side got;
  std::int64_t rows = 0;
  std::vector<std::int64_t> limit;       ///< [B] tokens of content that both have, equal in both
  bool same_passes = true;               ///< both were fed in the same pieces, padded alike
  std::vector<Divergence> other_tokens;  ///< generated tokens that differ; what follows is not compared
  const Pair* encoder = nullptr;         ///< whose tokens the keys of cross-attention are
};
/// Throws FileError when the two are of other tokens. Passes of traces may get each other's mask.
[[nodiscard]] Pair pair_up(Trace& want, Trace& got, std::vector<std::string>& notes);

}  // namespace locant::check_room
