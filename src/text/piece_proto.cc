// SPDX-License-Identifier: Apache-2.0
// ModelProto: pieces = 1 {piece = 1, score = 2, type = 3}, trainer_spec = 2 {model_type = 3, byte_fallback =
// 35}, normalizer_spec = 3 {name = 1, precompiled_charsmap = 2, add_dummy_prefix = 3,
// remove_extra_whitespaces = 4, escape_whitespaces = 5}.
#include "text/piece_proto.h"

#include <algorithm>
#include <bit>
#include <string_view>

namespace locant {
namespace {

class Message {
 public:
  void number(unsigned field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3);
    varint(value);
  }
  void real(unsigned field, float value) {
    varint(std::uint64_t{field} << 3 | 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (unsigned shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>((bits >> shift) & 0xFF);
  }
  void bytes(unsigned field, std::string_view value) {
    varint(std::uint64_t{field} << 3 | 2);
    varint(value.size());
    bytes_ += value;
  }
  void flag(unsigned field, bool value) { number(field, value ? 1 : 0); }
  [[nodiscard]] const std::string& text() const noexcept { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

}  // namespace

std::string piece_proto(const PieceList& list) {
  Message model;
  for (const Piece& piece : list.pieces) {
    Message one;
    one.bytes(1, piece.text);
    one.real(2, piece.score);
    one.number(3, static_cast<std::uint64_t>(piece.type));
    model.bytes(1, one.text());
  }
  Message trainer;
  trainer.number(3, static_cast<std::uint64_t>(list.algorithm));
  trainer.flag(35, std::any_of(list.pieces.begin(), list.pieces.end(),
                               [](const Piece& piece) { return piece.type == PieceType::byte; }));
  model.bytes(2, trainer.text());
  Message normalizer;
  normalizer.bytes(1, list.charsmap.empty() ? "identity" : "user_defined");
  normalizer.bytes(2, list.charsmap);
  normalizer.flag(3, list.leading_space);
  normalizer.flag(4, list.single_spaces);
  normalizer.flag(5, true);
  model.bytes(3, normalizer.text());
  return model.text();
}

}  // namespace locant
