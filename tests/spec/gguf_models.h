// SPDX-License-Identifier: Apache-2.0
// Small GGUF models, read and asked.
#pragma once

#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "formats/gguf_writer.h"
#include "locant/positions.h"
#include "locant/spec.h"

namespace locant::tests {

inline ModelSpec read(const GgufModel& model) {
  const TempDir dir;
  return read_gguf(dir.write("model.gguf", model.bytes()));
}

inline const PositionSpec& rope_of(const ModelSpec& spec, std::size_t layer = 0) {
  return spec.positions.layers.at(layer).at(0);
}

inline std::string word_of(const PositionSpec& position, const char* name) {
  return std::get<std::string>(position.find(name)->value);
}

inline double number_of(const PositionSpec& position, const char* name) {
  return std::get<double>(position.find(name)->value);
}

inline std::int64_t whole_of(const PositionSpec& position, const char* name) {
  return std::get<std::int64_t>(position.find(name)->value);
}

inline Rotation planned(const PositionSpec& position, const Extent& extent = {}) {
  return std::get<Rotation>(
      find_mechanism(position.mechanism).plan(position, find_recipe("llama.cpp"), extent));
}

inline std::vector<std::string> texts(const ModelSpec& spec) {
  std::vector<std::string> all;
  for (const Note& note : spec.notes) all.push_back(note.text);
  return all;
}

/// Keys that only some architectures demand.
inline GgufModel complete(const std::string& name) {
  GgufModel model = gguf_model(name);
  const std::string at = name + ".";
  model.set(at + "logit_scale", 0.5)
      .set(at + "attention.sliding_window", 64)
      .set(at + "attention.sliding_window_pattern", std::vector<bool>{true, true, true, false})
      .set(at + "rope.dimension_sections", std::vector<int>{4, 2, 2, 0})
      .set(at + "attention.relative_buckets_count", 32)
      .set(at + "attention.compress_ratios", std::vector<int>{0, 4, 0, 4})
      .set(at + "attention.compress_rope_freq_base", 160000.0)
      .zeros("position_embd.weight", {20, 64});
  return model;
}

}  // namespace locant::tests
