// SPDX-License-Identifier: Apache-2.0
#include "text/sentencepiece.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/quote.h"
#include "locant/core.h"
#include "text/model_proto.h"
#include "text/utf8.h"

namespace locant {
namespace {

using Processor = sentencepiece::SentencePieceProcessor;

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, how pieces write a space

std::unique_ptr<Processor> load(const std::string& bytes, const std::string& path) {
  auto processor = std::make_unique<Processor>();
  if (const auto status = processor->LoadFromSerializedProto(bytes); !status.ok()) {
    throw FileError(path, fmt::format("not a SentencePiece model ({})", status.ToString()));
  }
  return processor;
}

class SentencePiece final : public Tokenizer {
 public:
  struct Parts {
    std::unique_ptr<Processor> first;  ///< for the first stretch of text
    std::unique_ptr<Processor> later;  ///< for those behind an added token; null = as `first`
    AddedTokens added;
    SpecialFrame frame;
    bool leading_space = true;  ///< one was put in front of the text: decode() takes it away
  };
  explicit SentencePiece(Parts parts) : parts_(std::move(parts)), pieces_(parts_.first->GetPieceSize()) {
    vocab_ = pieces_;
    for (const AddedToken& token : parts_.added.tokens()) vocab_ = std::max(vocab_, token.id + 1);
  }

  [[nodiscard]] std::string kind() const override { return "sentencepiece"; }
  [[nodiscard]] std::int64_t vocab() const override { return vocab_; }

  [[nodiscard]] std::vector<std::int64_t> encode(std::string_view text) const override {
    if (const std::size_t at = find_invalid_utf8(text); at != std::string_view::npos) {
      throw SpecError(fmt::format("text: byte 0x{:02x} at byte {} of the text is not UTF-8",
                                  static_cast<unsigned char>(text[at]), at));
    }
    std::vector<std::int64_t> ids = parts_.frame.front;
    bool first = true;
    for (const TextPart& part : parts_.added.split(text)) {
      if (part.token != nullptr) {
        ids.push_back(part.token->id);
      } else {
        const Processor& processor = first || !parts_.later ? *parts_.first : *parts_.later;
        std::vector<int> of_part;
        if (const auto status = processor.Encode({part.text.data(), part.text.size()}, &of_part);
            !status.ok()) {
          throw SpecError(fmt::format("text: SentencePiece cannot encode it ({})", status.ToString()));
        }
        ids.insert(ids.end(), of_part.begin(), of_part.end());
      }
      first = false;
    }
    ids.insert(ids.end(), parts_.frame.back.begin(), parts_.frame.back.end());
    return ids;
  }

  [[nodiscard]] std::string decode(std::span<const std::int64_t> ids) const override {
    std::string text;
    bool first = parts_.leading_space;
    for (const std::int64_t id : ids) {
      const AddedToken* token = parts_.added.find(id);
      std::string of_id;
      if (token != nullptr) {
        if (!token->special) of_id = token->content;
      } else if (id >= 0 && id < pieces_) {
        of_id = bytes_of(static_cast<int>(id));
      }
      const bool drop_space = first && of_id.starts_with(' ');
      text += drop_space ? of_id.substr(1) : of_id;
      first = first && of_id.empty();
    }
    return text;
  }

  [[nodiscard]] std::string piece(std::int64_t id) const override {
    if (const AddedToken* token = parts_.added.find(id)) return token->content;
    if (id < 0 || id >= pieces_) return fmt::format("<id {}>", id);
    return valid_utf8(parts_.first->IdToPiece(static_cast<int>(id)));
  }

 private:
  /// What a piece stands for. Not through the library's own decoding, which replaces the bytes of a character
  /// that is not complete yet and drops every leading space instead of the one it added.
  [[nodiscard]] std::string bytes_of(int id) const {
    const Processor& model = *parts_.first;
    if (model.IsControl(id) || model.IsUnknown(id)) return {};
    const std::string& piece = model.IdToPiece(id);
    if (model.IsByte(id)) {  // "<0x0A>"; the library has checked the form
      return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};
    }
    std::string text;
    for (std::size_t at = 0; at < piece.size();) {
      const bool space = std::string_view(piece).substr(at).starts_with(kSpace);
      text += space ? ' ' : piece[at];
      at += space ? kSpace.size() : 1;
    }
    return text;
  }

  Parts parts_;
  std::int64_t pieces_;
  std::int64_t vocab_ = 0;
};

/// The same model without the space in front of a text. Serialised messages that stand one behind the other
/// are merged: normalizer_spec (field 3) gets add_dummy_prefix (field 3) = false.
std::string without_leading_space(const std::string& model) {
  return model + std::string("\x1A\x02\x18\x00", 4);
}

LeadingSpace leading_space(const SentencePieceFiles& files) {
  if (files.tokenizer.is_null()) {
    return flag_or(files.config, "legacy", true, files.config_path) ? LeadingSpace::every
                                                                    : LeadingSpace::first;
  }
  const Json* normalizer = find_member(files.tokenizer, "normalizer");
  if (component_type(normalizer) == "Prepend") return LeadingSpace::every;
  if (const Json* list = normalizer == nullptr ? nullptr : find_member(*normalizer, "normalizers")) {
    for (const Json& part : *list) {
      if (component_type(&part) == "Prepend") return LeadingSpace::every;
    }
  }
  const Json* pre = find_member(files.tokenizer, "pre_tokenizer");
  if (component_type(pre) != "Metaspace") return LeadingSpace::never;
  const Json* scheme = find_member(*pre, "prepend_scheme");
  if (scheme != nullptr && *scheme == "first") return LeadingSpace::first;
  if (scheme != nullptr && *scheme == "never") return LeadingSpace::never;
  return LeadingSpace::every;
}

SpecialFrame frame_of(const SentencePieceFiles& files, const Processor& processor) {
  const bool has_bos = processor.bos_id() >= 0;
  const bool has_eos = processor.eos_id() >= 0;
  SpecialFrame frame;
  if (has_bos) frame.front.push_back(processor.bos_id());
  if (const Json* post = find_member(files.tokenizer, "post_processor");
      post != nullptr && !post->is_null()) {
    frame = read_frame(post, files.tokenizer_path).value_or(frame);
  }
  if (const Json* stated = find_member(files.config, "add_bos_token");
      stated != nullptr && !stated->is_null()) {
    frame.front.clear();
    if (flag_or(files.config, "add_bos_token", true, files.config_path) && has_bos) {
      frame.front.push_back(processor.bos_id());
    }
  }
  if (const Json* stated = find_member(files.config, "add_eos_token");
      stated != nullptr && !stated->is_null()) {
    frame.back.clear();
    if (flag_or(files.config, "add_eos_token", false, files.config_path) && has_eos) {
      frame.back.push_back(processor.eos_id());
    }
  }
  return frame;
}

/// The added tokens that the files list; without a list, the model's own special pieces, as LlamaTokenizer
/// has them.
std::vector<AddedToken> added_tokens(const SentencePieceFiles& files, const Processor& processor) {
  std::vector<AddedToken> tokens = read_added_tokens(files.tokenizer, files.tokenizer_path);
  if (tokens.empty()) tokens = read_added_tokens(files.config, files.config_path);
  if (!tokens.empty()) return tokens;
  for (const int id : {processor.unk_id(), processor.bos_id(), processor.eos_id()}) {
    if (id >= 0) tokens.push_back({id, valid_utf8(processor.IdToPiece(id)), true, ""});
  }
  return tokens;
}

/// A piece that stands at another id in tokenizer.json, or not at all; empty when the two agree.
std::string disagreement(const Json& tokenizer, const Processor& processor) {
  const Json* model = find_member(tokenizer, "model");
  const Json* vocab = model == nullptr ? nullptr : find_member(*model, "vocab");
  if (vocab == nullptr) return {};
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    const std::string& piece = processor.IdToPiece(id);
    bool same = false;
    if (vocab->is_object()) {
      const Json* other = find_member(*vocab, piece);
      same = other != nullptr && *other == id;
    } else if (vocab->is_array() && static_cast<std::size_t>(id) < vocab->size()) {
      const Json& entry = (*vocab)[static_cast<std::size_t>(id)];
      same = entry.is_array() && !entry.empty() && entry[0] == piece;
    }
    if (!same) return fmt::format("id {}, {} in tokenizer.model", id, quote(piece));
  }
  return {};
}

}  // namespace

OpenedTokenizer make_piece_model(PieceModel model) {
  check_model_proto(model.proto, model.path);
  SentencePiece::Parts parts;
  const bool never = model.space == LeadingSpace::never;
  parts.first = load(never ? without_leading_space(model.proto) : model.proto, model.path);
  if (model.space == LeadingSpace::first) parts.later = load(without_leading_space(model.proto), model.path);
  parts.added = AddedTokens(std::move(model.added));
  parts.frame = std::move(model.frame);
  parts.leading_space = !never;
  return {std::make_unique<SentencePiece>(std::move(parts)), ""};
}

OpenedTokenizer make_sentencepiece(const SentencePieceFiles& files) {
  check_model_proto(files.model, files.model_path);
  std::unique_ptr<Processor> own = load(files.model, files.model_path);
  if (const std::string where = disagreement(files.tokenizer, *own); !where.empty()) {
    return {nullptr,
            fmt::format("text: tokenizer.json and tokenizer.model disagree on {}; use --ids", where)};
  }
  const LeadingSpace space = leading_space(files);
  SentencePiece::Parts parts;
  parts.frame = frame_of(files, *own);
  parts.added = AddedTokens(added_tokens(files, *own));
  if (space != LeadingSpace::every) {
    std::unique_ptr<Processor> bare = load(without_leading_space(files.model), files.model_path);
    (space == LeadingSpace::first ? parts.later : own) = std::move(bare);
  }
  parts.leading_space = space != LeadingSpace::never;
  parts.first = std::move(own);
  const SpecialFrame frame = parts.frame;
  auto tokenizer = std::make_unique<SentencePiece>(std::move(parts));
  check_frame(frame, tokenizer->vocab(), files.tokenizer_path);
  return {std::move(tokenizer), ""};
}

}  // namespace locant
