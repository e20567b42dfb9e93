// SPDX-License-Identifier: Apache-2.0
// Ids of a byte-level vocabulary with merges (GPT-2) to text: each character of a token stands for a byte.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "locant/text.h"

namespace locant {

struct BytePairToken {
  enum class Kind : std::uint8_t { bytes, literal, special };
  std::string piece;
  Kind kind = Kind::bytes;
};
struct BytePairTokens {
  std::vector<BytePairToken> tokens;  ///< by id
};

/// Decodes; encode() throws SpecError.
[[nodiscard]] std::unique_ptr<Tokenizer> make_byte_pairs(BytePairTokens tokens);

}  // namespace locant
