// SPDX-License-Identifier: Apache-2.0
#include "cli/stream.h"

#include <fmt/format.h>

#include <algorithm>

namespace locant::cli {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::size_t kContext = 8;                        // tokens of context that a token is decoded with
constexpr std::size_t kWindow = 128;                       // tokens decoded at once, at most

struct Character {
  std::size_t bytes = 1;
  enum class State : std::uint8_t { good, bad, cut_off } state = State::good;
};

/// The character at the front (RFC 3629, section 4).
Character character_at(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  std::size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead < 0x80) return {};
  if (lead >= 0xC2 && lead <= 0xDF) length = 2;
  if (lead >= 0xE0 && lead <= 0xEF) length = 3;
  if (lead >= 0xF0 && lead <= 0xF4) length = 4;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;  // no surrogates
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  if (length == 0) return {1, Character::State::bad};
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, Character::State::cut_off};
    if (byte(i) < low || byte(i) > high) return {1, Character::State::bad};
    low = 0x80;
    high = 0xBF;
  }
  return {length, Character::State::good};
}

}  // namespace

std::string take_text(std::string& bytes, Take take) {
  std::string text;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::string_view rest = std::string_view(bytes).substr(at);
    const Character character = character_at(rest);
    if (character.state == Character::State::cut_off && take == Take::complete) break;
    // Tokenizers of other hosts write U+FFFD where the last character is not complete.
    if (take == Take::complete && rest == kReplacement) break;
    text += character.state == Character::State::good ? rest.substr(0, character.bytes) : kReplacement;
    at += character.bytes;
  }
  bytes.erase(0, at);
  return text;
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
    out += control ? kReplacement : std::string_view(&c, 1);
  }
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const std::int64_t> prompt)
    : tokenizer_(tokenizer), window_(prompt.begin(), prompt.end()) {
  restart(kContext);
}

void TextStream::restart(std::size_t context) {
  if (window_.size() > context)
    window_.erase(window_.begin(), window_.end() - static_cast<std::ptrdiff_t>(context));
  decoded_ = tokenizer_.decode(window_).size();
}

std::string TextStream::add(std::int64_t id) {
  window_.push_back(id);
  const std::string text = tokenizer_.decode(window_);
  // A held-back U+FFFD of another host's tokenizer turns into the character itself.
  const std::size_t from = decoded_ - std::min(decoded_, pending_.size());
  if (from <= text.size()) pending_ = text.substr(from);
  decoded_ = text.size();
  std::string certain = take_text(pending_, Take::complete);
  if (window_.size() >= kWindow && pending_.empty()) restart(kContext);
  return certain;
}

std::string TextStream::finish() {
  return take_text(pending_, Take::everything);
}

}  // namespace locant::cli
