// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint whatever file holds them: name, shape and how they are stored, pointing into
// the mapping.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locant/core.h"
#include "locant/ops.h"
#include "locant/spec.h"

namespace locant {

struct SourceTensor {
  std::string name;
  std::string path;
  std::int64_t file_offset = 0;
  const void* data = nullptr;
  DType dtype = DType::f32;          ///< of plain elements
  std::optional<GgmlType> blocks{};  ///< of those in blocks
  std::vector<std::int64_t> shape;   ///< rows first

  [[nodiscard]] std::int64_t size() const noexcept;
  [[nodiscard]] std::int64_t bytes() const noexcept;
  [[nodiscard]] std::string stored_text() const;  ///< "bf16", "Q4_1"
  /// The tensor as rows of its last axis; of rank 1: one row.
  [[nodiscard]] Matrix matrix() const noexcept;
};

/// [2,3,4]
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);

struct WeightSource {
  std::vector<SourceTensor> tensors;  ///< sorted by name
  /// Files whose spec was read from the tensors that are there: biases follow their presence.
  bool describes_itself = false;
  std::shared_ptr<const void> keeper;  ///< of the mappings

  [[nodiscard]] const SourceTensor* find(std::string_view name) const noexcept;
};

/// model.safetensors or the shards of its index in a Hugging Face directory; a .gguf file; a llama2.c .bin of
/// version 0, whose tensors get the names of a Hugging Face llama. Throws FileError.
[[nodiscard]] WeightSource open_weights(const ModelSpec& spec, const std::string& path);

}  // namespace locant
