// SPDX-License-Identifier: Apache-2.0
// The dtype that a config says its model is run in: "torch_dtype" of transformers 4, "dtype" of 5.
#include <array>
#include <filesystem>
#include <utility>

#include "formats/json.h"
#include "locant/compare.h"
#include "locant/formats.h"

namespace locant {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 3> kNames = {
    {{"float32", DType::f32}, {"float16", DType::f16}, {"bfloat16", DType::bf16}}};

std::optional<DType> named(const Json& object) {
  for (const char* const key : {"dtype", "torch_dtype"}) {
    if (!object.contains(key) || !object[key].is_string()) continue;
    const auto word = object[key].get<std::string>();
    for (const auto& [name, dtype] : kNames) {
      const bool ends = word.ends_with(name);
      if (ends && (word.size() == name.size() || word[word.size() - name.size() - 1] == '.')) return dtype;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<DType> stated_dtype(const std::string& path) {
  std::error_code error;
  const std::filesystem::path given(path);
  const std::filesystem::path file =
      std::filesystem::is_directory(given, error) ? given / "config.json" : given;
  Json config;
  try {
    config = read_json(file.string());
  } catch (const FileError&) {
    return std::nullopt;
  }
  if (!config.is_object()) return std::nullopt;
  for (const char* const inside : {"", "text_config", "llm_config", "language_config"}) {
    const bool whole = *inside == '\0';
    if (!whole && (!config.contains(inside) || !config[inside].is_object())) continue;
    if (const std::optional<DType> dtype = named(whole ? config : config[inside])) return dtype;
  }
  return std::nullopt;
}

}  // namespace locant
