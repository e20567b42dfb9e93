// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors_index.h"

#include <fmt/core.h>

#include "core/quote.h"
#include "formats/json.h"
#include "locant/core.h"

namespace locant {
namespace {

/// A name that stays in the index's own directory.
bool is_plain(std::string_view shard) {
  return !shard.empty() && shard != "." && shard != ".." &&
         shard.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

}  // namespace

std::map<std::string, std::string, std::less<>> parse_safetensors_index(std::string_view text,
                                                                        const std::string& path) {
  const Json json = parse_json(text, path);
  const Json* const weight_map = find_member(json, "weight_map");
  if (weight_map == nullptr) throw FileError(path, "an index has a weight_map, there is none");
  if (!weight_map->is_object() || weight_map->empty()) {
    throw FileError(path,
                    fmt::format("weight_map names tensors and their shards, got {}", json_text(*weight_map)));
  }
  std::map<std::string, std::string, std::less<>> shards;
  for (const auto& [name, shard] : weight_map->items()) {
    if (!shard.is_string()) {
      throw FileError(path, fmt::format("weight_map: the shard of {} is a string, got {}", quote(name),
                                        json_text(shard)));
    }
    const auto& file = shard.get_ref<const std::string&>();
    if (!is_plain(file)) {
      throw FileError(path, fmt::format("weight_map: a shard is a file beside the index, {} is in {}",
                                        quote(name), quote(file)));
    }
    shards.emplace(name, file);
  }
  return shards;
}

}  // namespace locant
