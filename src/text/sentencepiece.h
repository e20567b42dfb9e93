// SPDX-License-Identifier: Apache-2.0
// tokenizer.model through libsentencepiece (Kudo and Richardson 2018), with the added tokens, the special
// tokens and the leading space that the files beside it ask for.
#pragma once

#include <string>
#include <vector>

#include "locant/text.h"
#include "text/added_tokens.h"
#include "text/tokenizer_json.h"

namespace locant {

/// Which stretches of text between added tokens get the model's leading space.
enum class LeadingSpace : std::uint8_t { every, first, never };

struct SentencePieceFiles {
  std::string model;  ///< bytes of tokenizer.model
  std::string model_path;
  Json tokenizer;  ///< tokenizer.json, or null
  std::string tokenizer_path;
  Json config;  ///< tokenizer_config.json, or null
  std::string config_path;
};

/// A model whose special tokens and spaces are known already.
struct PieceModel {
  std::string proto;  ///< serialised
  std::string path;
  std::vector<AddedToken> added;
  SpecialFrame frame;
  LeadingSpace space = LeadingSpace::every;
};
/// Throws FileError for a model that libsentencepiece refuses.
[[nodiscard]] OpenedTokenizer make_piece_model(PieceModel model);

/// Special tokens: what tokenizer_config.json states, else what tokenizer.json's post-processor does, else
/// the beginning-of-sequence token in front. Throws FileError for a model that libsentencepiece refuses.
[[nodiscard]] OpenedTokenizer make_sentencepiece(const SentencePieceFiles& files);

}  // namespace locant
