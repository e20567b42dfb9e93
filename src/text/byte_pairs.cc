// SPDX-License-Identifier: Apache-2.0
#include "text/byte_pairs.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "locant/core.h"
#include "text/byte_level.h"
#include "text/utf8.h"

namespace locant {
namespace {

class BytePairs final : public Tokenizer {
 public:
  explicit BytePairs(BytePairTokens tokens) : tokens_(std::move(tokens.tokens)) {
    for (int byte = 0; byte < 256; ++byte)
      bytes_.emplace(byte_character(static_cast<unsigned char>(byte)), static_cast<char>(byte));
  }

  [[nodiscard]] std::string kind() const override { return "byte-level-merges"; }
  [[nodiscard]] std::int64_t vocab() const override { return static_cast<std::int64_t>(tokens_.size()); }

  [[nodiscard]] std::vector<std::int64_t> encode(std::string_view) const override {
    throw SpecError("text: a byte-level vocabulary with merges is decoded here and not encoded; use --ids");
  }

  [[nodiscard]] std::string decode(std::span<const std::int64_t> ids) const override {
    std::string text;
    for (const std::int64_t id : ids) {
      if (const BytePairToken* token = find(id)) append(*token, text);
    }
    return text;
  }

  [[nodiscard]] std::string piece(std::int64_t id) const override {
    const BytePairToken* token = find(id);
    return token == nullptr ? fmt::format("<id {}>", id) : valid_utf8(token->piece);
  }

 private:
  [[nodiscard]] const BytePairToken* find(std::int64_t id) const {
    const bool known = id >= 0 && id < vocab();
    return known ? &tokens_[static_cast<std::size_t>(id)] : nullptr;
  }
  void append(const BytePairToken& token, std::string& text) const {
    if (token.kind == BytePairToken::Kind::special) return;
    if (token.kind == BytePairToken::Kind::literal) {
      text += token.piece;
      return;
    }
    const std::string_view piece = token.piece;
    for (std::size_t at = 0; at < piece.size();) {
      std::size_t length = 1;
      while (at + length < piece.size() && (static_cast<unsigned char>(piece[at + length]) & 0xC0) == 0x80)
        ++length;
      const std::string_view character = piece.substr(at, length);
      const auto byte = bytes_.find(character);
      // what is no byte's character stands for itself
      text += byte == bytes_.end() ? character : std::string_view(&byte->second, 1);
      at += length;
    }
  }

  std::vector<BytePairToken> tokens_;
  std::map<std::string, char, std::less<>> bytes_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_pairs(BytePairTokens tokens) {
  return std::make_unique<BytePairs>(std::move(tokens));
}

}  // namespace locant
