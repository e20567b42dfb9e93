// SPDX-License-Identifier: Apache-2.0
// A SentencePiece model put together from a list of pieces, as other files hold one: the message ModelProto
// of sentencepiece_model.proto, serialised.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace locant {

/// Types of pieces; the numbers are those of both SentencePiece and GGUF.
enum class PieceType : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

struct Piece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;
};

enum class PieceAlgorithm : std::uint8_t { unigram = 1, merges = 2 };

struct PieceList {
  std::vector<Piece> pieces;
  PieceAlgorithm algorithm = PieceAlgorithm::merges;
  std::string charsmap;  ///< compiled normalisation rules; "" = none
  bool leading_space = true;
  bool single_spaces = false;  ///< runs of spaces become one, those at the ends go
};

[[nodiscard]] std::string piece_proto(const PieceList& list);

}  // namespace locant
