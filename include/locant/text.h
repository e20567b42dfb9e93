// SPDX-License-Identifier: Apache-2.0
// Ids <-> text. One small interface: native for byte-level vocabularies without merges and for SentencePiece;
// a Host may bring others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace locant {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  [[nodiscard]] virtual std::string kind() const = 0;    ///< "byte-level", "sentencepiece", ...
  [[nodiscard]] virtual std::int64_t vocab() const = 0;  ///< ids it can make, special ones included
  /// The ids of a prompt, with the special tokens that the model's own tokenizer puts in front.
  /// SpecError when the text has something the vocabulary cannot say.
  [[nodiscard]] virtual std::vector<std::int64_t> encode(std::string_view text) const = 0;
  /// The text of ids, special tokens left out; invalid UTF-8 is passed through.
  [[nodiscard]] virtual std::string decode(std::span<const std::int64_t> ids) const = 0;
  /// One token as a person would recognise it ("\xe2\x96\x81the", "<s>"), "<id N>" for an id it does not
  /// know; always valid UTF-8.
  [[nodiscard]] virtual std::string piece(std::int64_t id) const = 0;
};

/// A tokenizer, or the sentence that says why there is none. Both: the tokenizer only decodes, and the
/// sentence says why it does not encode.
struct OpenedTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string why_not;
};
/// Looks in a Hugging Face directory (or that of a file): tokenizer.json when it is byte-level without
/// merges, else tokenizer.model; in a .gguf file: SentencePiece vocabularies ("llama", "t5"), and byte-level
/// ones with merges ("gpt2") to decode; beside a llama2.c .bin file: its tokenizer.bin or tokenizer.model.
/// Throws FileError for files that are there and damaged.
[[nodiscard]] OpenedTokenizer open_tokenizer(const std::string& model);

/// Text that arrives in pieces, given out in whole characters: bytes that may still become one are kept back.
class Utf8Stream {
 public:
  /// What is complete now; bytes that can never become a character come out as they are.
  [[nodiscard]] std::string add(std::string_view bytes);
  [[nodiscard]] std::string finish();  ///< what was kept back

 private:
  std::string kept_;
};

}  // namespace locant
