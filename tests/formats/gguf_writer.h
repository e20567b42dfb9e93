// SPDX-License-Identifier: Apache-2.0
// A small GGUF file by its keys and tensors, for tests of what reads one. Bytes of any content are those of
// gguf_files.h.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/gguf_files.h"

namespace locant::tests {

/// A value with its type: numbers as they stand, text, and arrays of one type.
struct GgufStored {
  GgufType type;
  std::string bytes;

  GgufStored(int value) : GgufStored(static_cast<std::uint32_t>(value)) {}  // NOLINT: written as {"key", 4}
  GgufStored(std::uint32_t value) : type(GgufType::u32), bytes(raw(value)) {}               // NOLINT
  GgufStored(std::uint64_t value) : type(GgufType::u64), bytes(raw(value)) {}               // NOLINT
  GgufStored(double value) : type(GgufType::f32), bytes(raw(static_cast<float>(value))) {}  // NOLINT
  GgufStored(bool value) : type(GgufType::boolean), bytes(raw(std::uint8_t{value})) {}      // NOLINT
  GgufStored(const char* value) : type(GgufType::string), bytes(text(value)) {}             // NOLINT
  GgufStored(const std::string& value) : type(GgufType::string), bytes(text(value)) {}      // NOLINT
  GgufStored(const std::vector<int>& values) : type(GgufType::array) {                      // NOLINT
    std::string elements;
    for (const std::int32_t value : values) elements += raw(value);
    bytes = array(GgufType::i32, values.size(), elements);
  }
  GgufStored(const std::vector<float>& values) : type(GgufType::array) {  // NOLINT
    std::string elements;
    for (const float value : values) elements += raw(value);
    bytes = array(GgufType::f32, values.size(), elements);
  }
  GgufStored(const std::vector<bool>& values) : type(GgufType::array) {  // NOLINT
    std::string elements;
    for (const bool value : values) elements += raw(std::uint8_t{value});
    bytes = array(GgufType::boolean, values.size(), elements);
  }
  GgufStored(const std::vector<std::string>& values) : type(GgufType::array) {  // NOLINT
    std::string elements;
    for (const std::string& value : values) elements += text(value);
    bytes = array(GgufType::string, values.size(), elements);
  }
};

class GgufModel {
 public:
  /// Later values replace earlier ones.
  GgufModel& set(const std::string& key, GgufStored value) {
    values_.insert_or_assign(key, std::move(value));
    return *this;
  }
  GgufModel& drop(const std::string& key) {
    values_.erase(key);
    return *this;
  }
  GgufModel& floats(const std::string& name, const std::vector<float>& row) {
    std::string bytes;
    for (const float value : row) bytes += raw(value);
    tensors_[name] = {{.name = name, .extents = {row.size()}, .type = 0}, bytes};
    return *this;
  }
  /// In f32; `shape` counts rows first.
  GgufModel& values(const std::string& name, const std::vector<std::int64_t>& shape,
                    const std::vector<float>& elements) {
    std::string bytes;
    for (const float value : elements) bytes += raw(value);
    tensors_[name] = {{.name = name, .extents = {shape.rbegin(), shape.rend()}, .type = 0}, bytes};
    return *this;
  }
  /// Zeros; `shape` counts rows first.
  GgufModel& zeros(const std::string& name, const std::vector<std::int64_t>& shape,
                   GgmlType type = GgmlType::f32) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) elements *= extent;
    const auto size = static_cast<std::size_t>(elements / block_elements(type) * block_bytes(type));
    tensors_[name] = {
        {.name = name, .extents = {shape.rbegin(), shape.rend()}, .type = static_cast<std::uint32_t>(type)},
        std::string(size, '\0')};
    return *this;
  }
  GgufModel& drop_tensor(const std::string& name) {
    tensors_.erase(name);
    return *this;
  }

  [[nodiscard]] std::string bytes() const {
    Gguf parts{.tensors = tensors_.size(), .pairs = values_.size()};
    for (const auto& [key, value] : values_) parts.body += pair(key, value.type, value.bytes);
    for (const auto& [name, tensor] : tensors_) {
      Info placed = tensor.first;
      placed.offset = parts.data.size();
      parts.body += info(placed);
      parts.data += tensor.second;
      parts.data.resize((parts.data.size() + 31) / 32 * 32);
    }
    return gguf(parts);
  }

 private:
  std::map<std::string, GgufStored> values_;
  std::map<std::string, std::pair<Info, std::string>> tensors_;
};

/// The keys that every decoder of llama.cpp has: 4 layers of 4 heads of 16, 2 for keys, 48 tokens of 64.
inline GgufModel gguf_model(const std::string& architecture) {
  GgufModel model;
  const std::string at = architecture + ".";
  model.set("general.architecture", architecture)
      .set(at + "context_length", 4096)
      .set(at + "embedding_length", 64)
      .set(at + "block_count", 4)
      .set(at + "feed_forward_length", 96)
      .set(at + "attention.head_count", 4)
      .set(at + "attention.head_count_kv", 2)
      .set(at + "attention.layer_norm_epsilon", 1e-6)
      .set(at + "attention.layer_norm_rms_epsilon", 1e-6)
      .zeros("token_embd.weight", {48, 64})
      .zeros("output_norm.weight", {64})
      .zeros("output.weight", {48, 64});
  return model;
}

}  // namespace locant::tests
