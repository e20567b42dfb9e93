// SPDX-License-Identifier: Apache-2.0
// The parts of tokenizer.json and tokenizer_config.json that both tokenizers need: added tokens, and the
// special tokens that a post-processor puts around a prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "text/added_tokens.h"

namespace locant {

/// Ids put in front of and behind a prompt.
struct SpecialFrame {
  std::vector<std::int64_t> front;
  std::vector<std::int64_t> back;
};

/// "type" of a component, "" for null.
[[nodiscard]] std::string_view component_type(const Json* component);
/// A flag with its default. FileError when it is there and no boolean.
[[nodiscard]] bool flag_or(const Json& object, std::string_view key, bool otherwise, const std::string& path);
/// `added_tokens` of tokenizer.json, or the objects of `added_tokens_decoder` of tokenizer_config.json.
[[nodiscard]] std::vector<AddedToken> read_added_tokens(const Json& file, const std::string& path);
/// What the post-processor puts around a single prompt; nothing when it is one that Locant does not know.
/// No post-processor, and those that only move offsets, add nothing. Throws FileError.
[[nodiscard]] std::optional<SpecialFrame> read_frame(const Json* post_processor, const std::string& path);
/// FileError for an id past the end of a vocabulary.
void check_frame(const SpecialFrame& frame, std::int64_t vocab, const std::string& path);

}  // namespace locant
