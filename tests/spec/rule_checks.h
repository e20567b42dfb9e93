// SPDX-License-Identifier: Apache-2.0
// Which rules speak on a small config.
#pragma once

#include <string>
#include <vector>

#include "spec/configs.h"

namespace locant::tests {

/// Ids of the rules that speak, each once a note, in their order.
inline std::vector<std::string> ids_of(const ModelSpec& spec) {
  std::vector<std::string> ids;
  for (const Note& note : spec.notes) {
    if (!note.rule.empty()) ids.push_back(note.rule);
  }
  return ids;
}

inline std::vector<std::string> rules(const Json& config) {
  return ids_of(looked_at(config));
}

/// The first note of a rule; an empty one where it is silent.
inline Note note_of(const Json& config, const std::string& rule) {
  for (const Note& note : looked_at(config).notes) {
    if (note.rule == rule) return note;
  }
  return {};
}

inline const PositionSpec& rotation(const ModelSpec& spec) {
  return spec.positions.layers.at(0).at(0);
}

inline Json scaled(const Json& block) {
  return with(llama_v4(), {{"max_position_embeddings", 4096}, {"rope_scaling", block}});
}

inline Json yarn() {
  return {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}};
}

/// A text model of Qwen2-VL's kind inside another one; three axes, 4 pairs.
inline Json nested() {
  return {{"model_type", "qwen2_vl"},
          {"text_config", with(without(llama_v4(), "rope_scaling"), {{"model_type", "qwen2_vl_text"}})}};
}

}  // namespace locant::tests
