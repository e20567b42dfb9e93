// SPDX-License-Identifier: Apache-2.0
// A continuation as text while it grows: bytes of a character that is not complete yet are held back, and a
// token is decoded together with those before it, because tokenizers write a first token differently.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/text.h"

namespace locant::cli {

/// Takes the complete characters off the front of `bytes`; what is no UTF-8 becomes U+FFFD. A character that
/// is merely cut off at the end stays in `bytes` until `final_call`.
enum class Take : std::uint8_t { complete, everything };
[[nodiscard]] std::string take_text(std::string& bytes, Take take);

/// Control characters other than newline and tab as U+FFFD: a model must not steer the terminal.
[[nodiscard]] std::string printable(std::string_view text);
/// One line: newline, tab and other control characters as escapes.
[[nodiscard]] std::string one_line(std::string_view text);
/// Code points of valid UTF-8.
[[nodiscard]] std::size_t characters(std::string_view text);

class TextStream {
 public:
  /// `tokenizer` must outlive the stream.
  TextStream(const Tokenizer& tokenizer, std::span<const std::int64_t> prompt);
  /// The text that became certain with this token.
  [[nodiscard]] std::string add(std::int64_t id);
  /// What is left.
  [[nodiscard]] std::string finish();

 private:
  void restart(std::size_t context);

  const Tokenizer& tokenizer_;
  std::vector<std::int64_t> window_;
  std::size_t decoded_ = 0;  ///< bytes of the window's text already taken
  std::string pending_;
};

}  // namespace locant::cli
