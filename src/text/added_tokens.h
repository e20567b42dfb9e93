// SPDX-License-Identifier: Apache-2.0
// Tokens that a tokenizer finds in the text before its vocabulary sees it ("<s>"), as Hugging Face
// tokenizers does: at each place the longest one, from left to right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace locant {

struct AddedToken {
  std::int64_t id = 0;
  std::string content;
  bool special = false;
  /// Why a match cannot be followed ("takes the spaces around it"); empty = it can.
  std::string unsupported;
};

/// A stretch of text, or the added token that stands there.
struct TextPart {
  std::string_view text;
  const AddedToken* token = nullptr;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);
  /// The parts of a text in order, none of them empty. Throws SpecError for a token that is unsupported.
  [[nodiscard]] std::vector<TextPart> split(std::string_view text) const;
  [[nodiscard]] const AddedToken* find(std::int64_t id) const noexcept;
  [[nodiscard]] const std::vector<AddedToken>& tokens() const noexcept { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;  ///< longest content first
};

}  // namespace locant
