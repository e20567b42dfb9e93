// SPDX-License-Identifier: Apache-2.0
#include "text/byte_level.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "core/quote.h"
#include "locant/core.h"
#include "text/added_tokens.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace locant {
namespace {

constexpr std::int64_t kNone = -1;

struct ByteVocabulary {
  std::array<std::int64_t, 256> id_of{};  ///< kNone = missing
  std::map<std::int64_t, unsigned char> byte_of;
  std::map<std::int64_t, std::string> piece_of;  ///< the vocabulary as written
  std::int64_t size = 0;                         ///< largest id + 1
};

class ByteLevel final : public Tokenizer {
 public:
  ByteLevel(ByteVocabulary vocabulary, AddedTokens added, SpecialFrame frame)
      : vocabulary_(std::move(vocabulary)), added_(std::move(added)), frame_(std::move(frame)) {}

  [[nodiscard]] std::string kind() const override { return "byte-level"; }
  [[nodiscard]] std::int64_t vocab() const override { return vocabulary_.size; }

  [[nodiscard]] std::vector<std::int64_t> encode(std::string_view text) const override {
    std::vector<std::int64_t> ids = frame_.front;
    for (const TextPart& part : added_.split(text)) {
      if (part.token != nullptr) {
        ids.push_back(part.token->id);
        continue;
      }
      for (const char& c : part.text) {
        const auto byte = static_cast<unsigned char>(c);
        if (vocabulary_.id_of[byte] == kNone) {
          throw SpecError(fmt::format("text: byte 0x{:02x} at byte {} of the text is not in the vocabulary",
                                      byte, &c - text.data()));
        }
        ids.push_back(vocabulary_.id_of[byte]);
      }
    }
    ids.insert(ids.end(), frame_.back.begin(), frame_.back.end());
    return ids;
  }

  [[nodiscard]] std::string decode(std::span<const std::int64_t> ids) const override {
    std::string text;
    for (const std::int64_t id : ids) {
      if (const AddedToken* token = added_.find(id)) {
        if (!token->special) text += token->content;
      } else if (const auto byte = vocabulary_.byte_of.find(id); byte != vocabulary_.byte_of.end()) {
        text += static_cast<char>(byte->second);
      }
    }
    return text;
  }

  [[nodiscard]] std::string piece(std::int64_t id) const override {
    if (const AddedToken* token = added_.find(id)) return token->content;
    const auto piece = vocabulary_.piece_of.find(id);
    return piece == vocabulary_.piece_of.end() ? fmt::format("<id {}>", id) : piece->second;
  }

 private:
  ByteVocabulary vocabulary_;
  AddedTokens added_;
  SpecialFrame frame_;
};

ByteVocabulary read_vocabulary(const Json& vocab, const std::string& path) {
  ByteVocabulary vocabulary;
  for (const auto& [piece, value] : vocab.items()) {
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0 ||
        value.get<std::int64_t>() > INT32_MAX) {
      throw FileError(
          path, fmt::format("the id of {} must be 0 ... 2^31 - 1, got {}", quote(piece), json_text(value)));
    }
    const auto id = value.get<std::int64_t>();
    if (const auto [other, fresh] = vocabulary.piece_of.emplace(id, piece); !fresh) {
      throw FileError(path,
                      fmt::format("id {} stands for both {} and {}", id, quote(other->second), quote(piece)));
    }
    vocabulary.size = std::max(vocabulary.size, id + 1);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const Json* id = find_member(vocab, byte_character(static_cast<unsigned char>(byte)));
    vocabulary.id_of[static_cast<std::size_t>(byte)] = id == nullptr ? kNone : id->get<std::int64_t>();
    if (id != nullptr) vocabulary.byte_of.emplace(id->get<std::int64_t>(), static_cast<unsigned char>(byte));
  }
  return vocabulary;
}

/// Why the file's steps are not "bytes to ids, nothing else"; empty when they are.
std::string other_kind(const Json& file, const Json& model) {
  const auto is_null = [](const Json* value) { return value == nullptr || value->is_null(); };
  const Json* pre = find_member(file, "pre_tokenizer");
  const Json* type = find_member(model, "type");
  const Json* merges = find_member(model, "merges");
  const std::string_view kind = component_type(&model);
  if (kind != "BPE" && !(type == nullptr && merges != nullptr))
    return fmt::format("is {}", kind.empty() ? "of no known type" : kind);
  if (merges != nullptr && !merges->empty()) return fmt::format("is BPE with {} merges", merges->size());
  if (!is_null(find_member(file, "normalizer"))) return "has a normalizer";
  if (component_type(pre) != "ByteLevel") return "has no ByteLevel pre-tokenizer";
  if (const Json* prefix = find_member(*pre, "add_prefix_space"); is_null(prefix) || *prefix != false) {
    return "puts a space in front of the text";
  }
  if (component_type(find_member(file, "decoder")) != "ByteLevel") return "has no ByteLevel decoder";
  for (const std::string_view key : {"ignore_merges", "byte_fallback"}) {
    if (const Json* flag = find_member(model, key); !is_null(flag) && *flag != false)
      return fmt::format("sets {}", key);
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const Json* word = find_member(model, key); !is_null(word) && *word != Json(std::string()))
      return fmt::format("sets {}", key);
  }
  return {};
}

}  // namespace

std::string byte_character(unsigned char byte) {
  const auto printable = [](unsigned b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD); };
  if (printable(byte)) return utf8_of(byte);
  char32_t next = 0x100;
  for (unsigned b = 0; b < byte; ++b) next += printable(b) ? 0 : 1;
  return utf8_of(next);
}

OpenedTokenizer make_byte_level(const Json& file, const std::string& path) {
  const auto not_this = [](std::string_view why) {
    return OpenedTokenizer{
        nullptr, fmt::format("text: tokenizer.json {}; Locant reads byte-level vocabularies without "
                             "merges and SentencePiece, use --ids",
                             why)};
  };
  const Json* model = find_member(file, "model");
  if (model == nullptr || !model->is_object()) throw FileError(path, "a tokenizer needs an object `model`");
  if (const std::string why = other_kind(file, *model); !why.empty()) return not_this(why);
  const Json* vocab = find_member(*model, "vocab");
  if (vocab == nullptr || !vocab->is_object()) throw FileError(path, "a BPE model needs an object `vocab`");
  ByteVocabulary vocabulary = read_vocabulary(*vocab, path);
  const bool complete =
      std::find(vocabulary.id_of.begin(), vocabulary.id_of.end(), kNone) == vocabulary.id_of.end();
  if (const Json* unknown = find_member(*model, "unk_token");
      !complete && unknown != nullptr && !unknown->is_null()) {
    return not_this("has an unknown token for bytes that it lacks");
  }
  const std::optional<SpecialFrame> frame = read_frame(find_member(file, "post_processor"), path);
  if (!frame) {
    return not_this(
        fmt::format("has the post-processor {}", component_type(find_member(file, "post_processor"))));
  }
  std::vector<AddedToken> added = read_added_tokens(file, path);
  for (const AddedToken& token : added) vocabulary.size = std::max(vocabulary.size, token.id + 1);
  check_frame(*frame, vocabulary.size, path);
  return {std::make_unique<ByteLevel>(std::move(vocabulary), AddedTokens(std::move(added)), *frame), ""};
}

}  // namespace locant
