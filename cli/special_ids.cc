// SPDX-License-Identifier: Apache-2.0
#include "cli/special_ids.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/models.h"
#include "locant/formats.h"

namespace locant::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

void add(std::vector<std::int64_t>& ids, std::int64_t id) {
  if (id >= 0 && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

std::optional<Json> object_in(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  Json json = Json::parse(read_file(path.string()), nullptr, false);
  if (!json.is_object()) throw FileError(path.string(), "must hold a JSON object");
  return json;
}

/// The line of [MASK] in a WordPiece list, counted from 0.
std::optional<std::int64_t> mask_in_list(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  std::istringstream lines(read_file(path.string()));
  std::int64_t id = 0;
  for (std::string line; std::getline(lines, line); ++id) {
    if (line == "[MASK]" || line == "[MASK]\r") return id;
  }
  return std::nullopt;
}

void read_folder(const fs::path& folder, SpecialIds& ids) {
  if (const auto config = object_in(folder / "generation_config.json");
      config && config->contains("eos_token_id")) {
    const Json& eos = (*config)["eos_token_id"];
    for (const Json& one : eos.is_array() ? eos : Json::array({eos})) {
      if (one.is_number_integer()) add(ids.end, one.get<std::int64_t>());
    }
  }
  const auto tokenizer = object_in(folder / "tokenizer.json");
  if (!tokenizer) ids.mask = mask_in_list(folder / "vocab.txt");
  if (!tokenizer || !tokenizer->contains("added_tokens") || !(*tokenizer)["added_tokens"].is_array()) return;
  for (const Json& token : (*tokenizer)["added_tokens"]) {
    if (!token.is_object() || !token.contains("content") || !token.contains("id")) continue;
    const Json& content = token["content"];
    if ((content == "[MASK]" || content == "<mask>") && token["id"].is_number_integer())
      ids.mask = token["id"].get<std::int64_t>();
  }
}

void read_gguf_keys(const std::string& path, SpecialIds& ids) {
  const GgufFile file(path);
  for (const char* const key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const GgufValue* value = file.find_value(key)) add(ids.end, value->as_int64());
  }
  if (const GgufValue* value = file.find_value("tokenizer.ggml.mask_token_id")) ids.mask = value->as_int64();
}

}  // namespace

SpecialIds special_ids(const std::string& path, const ModelSpec& spec) {
  SpecialIds ids;
  for (const std::int64_t id : spec.eos) add(ids.end, id);
  if (spec.format == "gguf") {
    read_gguf_keys(path, ids);
  } else if (spec.format == "hf") {
    read_folder(directory_of(path), ids);
  }
  return ids;
}

}  // namespace locant::cli
