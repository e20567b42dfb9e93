// SPDX-License-Identifier: Apache-2.0
// One small config a family in the words of transformers v4 and v5, and a reader of edited ones.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "locant/spec.h"

namespace locant::tests {

using Json = nlohmann::json;

/// The sentences of notes.
inline std::vector<std::string> texts_of(const std::vector<Note>& notes) {
  std::vector<std::string> texts;
  for (const Note& note : notes) texts.push_back(note.text);
  return texts;
}

/// Read for looking, not for running.
inline ModelSpec looked_at(const Json& config) {
  const TempDir dir;
  return read_hf_config(dir.write("config.json", config.dump()), Reading::facts);
}

inline std::int64_t integer(const PositionSpec& spec, std::string_view name) {
  return std::get<std::int64_t>(spec.find(name)->value);
}
inline std::string word(const PositionSpec& spec, std::string_view name) {
  return std::get<std::string>(spec.find(name)->value);
}

/// transformers v5: the rotation in one block.
inline Json llama_v5() {
  return {{"model_type", "llama"},
          {"vocab_size", 320},
          {"hidden_size", 72},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 9},
          {"num_key_value_heads", 3},
          {"head_dim", 10},
          {"intermediate_size", 100},
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 123456.0}}}};
}

/// transformers v4: theta beside a null rope_scaling, no head_dim.
inline Json llama_v4() {
  Json config = llama_v5();
  config.erase("rope_parameters");
  config.erase("head_dim");
  config["rope_theta"] = 123456.0;
  config["rope_scaling"] = nullptr;
  config["torch_dtype"] = "float16";
  return config;
}

inline Json gpt2() {
  return {{"model_type", "gpt2"}, {"vocab_size", 320}, {"n_embd", 60},
          {"n_layer", 3},         {"n_head", 5},       {"n_positions", 40}};
}

inline Json bloom() {
  return {{"model_type", "bloom"}, {"vocab_size", 320}, {"hidden_size", 56}, {"n_layer", 3}, {"n_head", 7}};
}

inline Json xglm() {
  return {{"model_type", "xglm"},
          {"vocab_size", 320},
          {"d_model", 52},
          {"num_layers", 3},
          {"attention_heads", 4},
          {"ffn_dim", 90},
          {"max_position_embeddings", 48}};
}

/// `base` with the members of `changes` in it.
inline Json with(Json base, const Json& changes) {
  base.update(changes);
  return base;
}

inline Json without(Json base, const std::string& key) {
  base.erase(key);
  return base;
}

inline ModelSpec read_text(const std::string& text) {
  const TempDir dir;
  return read_hf_config(dir.write("config.json", text));
}

inline ModelSpec read(const Json& config) {
  return read_text(config.dump());
}

/// What reading says when it refuses with Error; "" when it reads.
template <class Error = SpecError>
std::string refusal(const Json& config) {
  return message_of<Error>([&] { (void)read(config); });
}

}  // namespace locant::tests
