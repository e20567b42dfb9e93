// SPDX-License-Identifier: Apache-2.0
// The parts that read_gguf() puts together.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/gguf_architecture.h"

namespace locant {

/// What the layers of one model have that a spec keeps once.
struct GgufHeads {
  std::vector<std::int64_t> queries;  ///< [layers]
  std::vector<std::int64_t> keys;     ///< [layers], 0 = the layer holds no attention
};

/// Layers, widths, heads and their width.
[[nodiscard]] GgufHeads read_gguf_sizes(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec);
/// Vocabulary, ids, lengths, norm and head; sizes first.
void read_gguf_ends(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec);
/// What each layer attends to and how it marks positions; what is added to the token state; sizes first.
void read_gguf_layers(GgufKeys& keys, const GgufArchitecture& row, const GgufHeads& heads, ModelSpec& spec);

/// How layers are put together, biases, experts, ranks; everything else first.
void read_gguf_block(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec);
void read_gguf_experts(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec);
/// What stands before the index of a layer of the main stack: "blk.".
[[nodiscard]] std::string_view gguf_layers_at(std::string_view architecture) noexcept;

/// Refuses a table whose rows are not of embedding_length.
void check_columns(const GgufKeys& keys, const GgufTensor& table, std::int64_t columns);

}  // namespace locant
