// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_json.h"

#include <fmt/format.h>

#include <charconv>

#include "locant/core.h"

namespace locant {
namespace {

[[noreturn]] void damaged(const std::string& path, std::string_view what, const Json& got) {
  throw FileError(path, fmt::format("{}, got {}", what, json_text(got)));
}

std::int64_t id_of(const Json* value, const std::string& path) {
  if (value == nullptr || !value->is_number_integer()) {
    damaged(path, "an added token needs a whole number as id", value == nullptr ? Json() : *value);
  }
  const auto id = value->get<std::int64_t>();
  if (id < 0 || id > INT32_MAX) damaged(path, "ids of tokens are 0 ... 2^31 - 1", *value);
  return id;
}

AddedToken added_token(const Json& entry, std::int64_t id, const std::string& path) {
  const Json* content = find_member(entry, "content");
  if (content == nullptr || !content->is_string()) damaged(path, "an added token needs a content", entry);
  AddedToken token;
  token.id = id;
  token.content = content->get<std::string>();
  token.special = flag_or(entry, "special", false, path);
  if (flag_or(entry, "lstrip", false, path) || flag_or(entry, "rstrip", false, path)) {
    token.unsupported = "takes the spaces beside it";
  } else if (flag_or(entry, "single_word", false, path)) {
    token.unsupported = "counts only as a word of its own";
  }
  return token;
}

SpecialFrame read_template(const Json& processor, const std::string& path) {
  const Json* single = find_member(processor, "single");
  const Json* specials = find_member(processor, "special_tokens");
  if (single == nullptr || !single->is_array())
    damaged(path, "TemplateProcessing needs a list `single`", processor);
  SpecialFrame frame;
  bool after = false;
  for (const Json& piece : *single) {
    if (find_member(piece, "Sequence") != nullptr) {
      after = true;
      continue;
    }
    const Json* special = find_member(piece, "SpecialToken");
    const Json* name = special == nullptr ? nullptr : find_member(*special, "id");
    const Json* entry = name == nullptr || !name->is_string() || specials == nullptr
                            ? nullptr
                            : find_member(*specials, name->get_ref<const std::string&>());
    const Json* ids = entry == nullptr ? nullptr : find_member(*entry, "ids");
    if (ids == nullptr || !ids->is_array())
      damaged(path, "TemplateProcessing names an unknown special token", piece);
    for (const Json& id : *ids) (after ? frame.back : frame.front).push_back(id_of(&id, path));
  }
  return frame;
}

}  // namespace

std::string_view component_type(const Json* component) {
  const Json* type = component == nullptr ? nullptr : find_member(*component, "type");
  if (type == nullptr || !type->is_string()) return "";
  return type->get_ref<const std::string&>();
}

bool flag_or(const Json& object, std::string_view key, bool otherwise, const std::string& path) {
  const Json* value = find_member(object, key);
  if (value == nullptr || value->is_null()) return otherwise;
  if (!value->is_boolean()) damaged(path, fmt::format("{} must be true or false", key), *value);
  return value->get<bool>();
}

std::vector<AddedToken> read_added_tokens(const Json& file, const std::string& path) {
  std::vector<AddedToken> tokens;
  if (const Json* list = find_member(file, "added_tokens"); list != nullptr && !list->is_null()) {
    if (!list->is_array()) damaged(path, "added_tokens must be a list", *list);
    for (const Json& entry : *list)
      tokens.push_back(added_token(entry, id_of(find_member(entry, "id"), path), path));
  } else if (const Json* table = find_member(file, "added_tokens_decoder");
             table != nullptr && table->is_object()) {
    for (const auto& [key, entry] : table->items()) {
      std::int64_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size()) {
        damaged(path, "a key of added_tokens_decoder must be an id", Json(key));
      }
      const Json number = id;
      tokens.push_back(added_token(entry, id_of(&number, path), path));
    }
  }
  return tokens;
}

std::optional<SpecialFrame> read_frame(const Json* post_processor, const std::string& path) {
  if (post_processor == nullptr || post_processor->is_null()) return SpecialFrame{};
  const std::string_view type = component_type(post_processor);
  if (type == "ByteLevel") return SpecialFrame{};
  if (type == "TemplateProcessing") return read_template(*post_processor, path);
  if (type != "Sequence") return std::nullopt;
  const Json* parts = find_member(*post_processor, "processors");
  if (parts == nullptr || !parts->is_array()) {
    damaged(path, "a Sequence of post-processors needs a list `processors`", *post_processor);
  }
  // Each template wraps what the one before it made.
  SpecialFrame frame;
  for (const Json& part : *parts) {
    if (component_type(&part) == "Sequence") return std::nullopt;
    const std::optional<SpecialFrame> inner = read_frame(&part, path);
    if (!inner) return std::nullopt;
    frame.front.insert(frame.front.begin(), inner->front.begin(), inner->front.end());
    frame.back.insert(frame.back.end(), inner->back.begin(), inner->back.end());
  }
  return frame;
}

void check_frame(const SpecialFrame& frame, std::int64_t vocab, const std::string& path) {
  for (const std::vector<std::int64_t>& side : {frame.front, frame.back}) {
    for (const std::int64_t id : side) {
      if (id < vocab) continue;
      throw FileError(path, fmt::format("post_processor adds ids below {}, got {}", vocab, id));
    }
  }
}

}  // namespace locant
