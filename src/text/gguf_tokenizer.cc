// SPDX-License-Identifier: Apache-2.0
#include "text/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "locant/core.h"
#include "locant/formats.h"
#include "text/byte_pairs.h"
#include "text/piece_proto.h"
#include "text/sentencepiece.h"
#include "text/utf8.h"

namespace locant {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, how pieces write a space

class Keys {
 public:
  explicit Keys(const GgufFile& file) : file_(file) {}
  [[nodiscard]] const GgufValue* find(std::string_view key) const {
    return file_.find_value(fmt::format("tokenizer.ggml.{}", key));
  }
  [[nodiscard]] const GgufValue& at(std::string_view key) const {
    return file_.value(fmt::format("tokenizer.ggml.{}", key));
  }
  [[nodiscard]] bool flag_or(std::string_view key, bool otherwise) const {
    const GgufValue* value = find(key);
    return value == nullptr ? otherwise : value->as_bool();
  }
  /// An id of a special token: within the vocabulary, or none where the key is missing.
  [[nodiscard]] std::optional<std::int64_t> id(std::string_view key, std::optional<std::int64_t> otherwise,
                                               std::size_t vocab) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return otherwise;
    const std::int64_t id = value->as_int64();
    if (id == -1 || id == UINT32_MAX) return std::nullopt;  // how writers say "none"
    if (id < 0 || static_cast<std::size_t>(id) >= vocab) {
      throw FileError(value->path, fmt::format("{} is an id below {}, got {}", value->key, vocab, id),
                      value->file_offset);
    }
    return id;
  }

 private:
  const GgufFile& file_;
};

void require_size(const GgufValue& value, std::size_t got, std::size_t want) {
  if (got == want) return;
  throw FileError(value.path,
                  fmt::format("{} has one value for each of {} tokens, got {}", value.key, want, got),
                  value.file_offset);
}

std::vector<PieceType> types_of(const Keys& keys, std::size_t count) {
  const GgufValue* value = keys.find("token_type");
  if (value == nullptr) return std::vector<PieceType>(count, PieceType::normal);
  std::vector<PieceType> types;
  const std::vector<std::int64_t> numbers = value->as_int64s();
  require_size(*value, numbers.size(), count);
  for (const std::int64_t number : numbers) {
    // 0 is "undefined": never read as text, as a token that is unused
    const bool known = number >= 1 && number <= 6;
    if (!known && number != 0) {
      throw FileError(value->path, fmt::format("{} holds types 0 ... 6, got {}", value->key, number),
                      value->file_offset);
    }
    types.push_back(known ? static_cast<PieceType>(number) : PieceType::unused);
  }
  return types;
}

std::string with_spaces(std::string_view piece, std::string_view from, std::string_view to) {
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const bool found = piece.substr(at).starts_with(from);
    text += found ? to : piece.substr(at, 1);
    at += found ? from.size() : 1;
  }
  return text;
}

std::string charsmap_of(const Keys& keys) {
  const GgufValue* value = keys.find("precompiled_charsmap");
  if (value == nullptr) return {};
  std::string bytes;
  for (const std::int64_t byte : value->as_int64s()) bytes += static_cast<char>(byte & 0xFF);
  return bytes;
}

SpecialFrame frame_of(const Keys& keys, std::size_t vocab, const SpecialFrame& otherwise) {
  const std::optional<std::int64_t> bos = keys.id("bos_token_id", 1, vocab);
  const std::optional<std::int64_t> eos = keys.id("eos_token_id", 2, vocab);
  SpecialFrame frame;
  if (keys.flag_or("add_bos_token", !otherwise.front.empty()) && bos) frame.front.push_back(*bos);
  if (keys.flag_or("add_eos_token", !otherwise.back.empty()) && eos) frame.back.push_back(*eos);
  return frame;
}

OpenedTokenizer open_pieces(const Keys& keys, const std::string& path, PieceAlgorithm algorithm) {
  const std::vector<std::string>& tokens = keys.at("tokens").as_strings();
  const std::vector<PieceType> types = types_of(keys, tokens.size());
  const GgufValue& score_value = keys.at("scores");
  const std::vector<double> scores = score_value.as_doubles();
  require_size(score_value, scores.size(), tokens.size());
  const bool merges = algorithm == PieceAlgorithm::merges;
  const std::optional<std::int64_t> unknown = keys.id("unknown_token_id", merges ? 0 : 2, tokens.size());
  PieceList list;
  list.algorithm = algorithm;
  list.charsmap = charsmap_of(keys);
  list.leading_space = keys.flag_or("add_space_prefix", true);
  list.single_spaces = keys.flag_or("remove_extra_whitespaces", false);
  PieceModel model;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    PieceType type = types[id];
    const auto number = static_cast<std::int64_t>(id);
    // The library has one unknown piece; others of the type are fillers that no text reaches.
    if (type == PieceType::unknown && unknown && number != *unknown) type = PieceType::unused;
    if (unknown && number == *unknown) type = PieceType::unknown;
    list.pieces.push_back({with_spaces(tokens[id], " ", kSpace), static_cast<float>(scores[id]), type});
    const bool special = types[id] == PieceType::control || types[id] == PieceType::unknown;
    if (special || types[id] == PieceType::user_defined) {
      model.added.push_back({number, valid_utf8(with_spaces(tokens[id], kSpace, " ")), special, ""});
    }
  }
  model.space = list.leading_space ? LeadingSpace::every : LeadingSpace::never;
  SpecialFrame usual;
  if (merges) usual.front.push_back(0);
  if (!merges) usual.back.push_back(0);
  model.frame = frame_of(keys, tokens.size(), usual);
  model.proto = piece_proto(list);
  model.path = path;
  return make_piece_model(std::move(model));
}

OpenedTokenizer open_byte_pairs(const Keys& keys) {
  const std::vector<std::string>& tokens = keys.at("tokens").as_strings();
  const std::vector<PieceType> types = types_of(keys, tokens.size());
  BytePairTokens pairs;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const bool special = types[id] == PieceType::control || types[id] == PieceType::unknown;
    const bool literal = types[id] == PieceType::user_defined || types[id] == PieceType::unused;
    pairs.tokens.push_back({tokens[id], special   ? BytePairToken::Kind::special
                                        : literal ? BytePairToken::Kind::literal
                                                  : BytePairToken::Kind::bytes});
  }
  return {make_byte_pairs(std::move(pairs)),
          "text: this vocabulary is byte-level with merges, whose ids locant decodes and does not make; give "
          "--ids, or the text to the command that `pip install .` installs"};
}

}  // namespace

OpenedTokenizer open_gguf_tokenizer(const std::string& path) {
  const GgufFile file(path);
  const Keys keys(file);
  const GgufValue* kind = keys.find("model");
  if (kind == nullptr)
    return {nullptr, "text: the .gguf file holds no tokenizer (tokenizer.ggml.model); use --ids"};
  const std::string& name = kind->as_string();
  if (name == "llama") return open_pieces(keys, path, PieceAlgorithm::merges);
  if (name == "t5") return open_pieces(keys, path, PieceAlgorithm::unigram);
  if (name == "gpt2") return open_byte_pairs(keys);
  return {nullptr, fmt::format("text: tokenizer.ggml.model must be llama, t5 or gpt2, got {}; use --ids",
                               valid_utf8(name))};
}

}  // namespace locant
