// SPDX-License-Identifier: Apache-2.0
// The size of the cache: 2 * kv_heads * head_dim elements a layer and token, for layers that keep their own.
#include <algorithm>

#include "core/checked.h"
#include "facts/parts.h"

namespace locant {
namespace {

const Rotation* rotation_at(const std::vector<PositionFacts>& positions, Stack stack, std::int64_t layer) {
  for (const PositionFacts& entry : positions) {
    if (entry.stack != stack || !entry.plan) continue;
    const auto* const rotation = std::get_if<Rotation>(&*entry.plan);
    if (rotation != nullptr && std::binary_search(entry.layers.begin(), entry.layers.end(), layer))
      return rotation;
  }
  return nullptr;
}

/// Latent attention keeps one compressed row for all heads; its rotated slice stands behind the rest.
bool latent(const ModelSpec& spec, const std::vector<PositionFacts>& positions) {
  if (spec.family == "kimi_linear") return true;
  return std::any_of(positions.begin(), positions.end(), [](const PositionFacts& entry) {
    const auto* const rotation = entry.plan ? std::get_if<Rotation>(&*entry.plan) : nullptr;
    return rotation != nullptr && (rotation->shared_key || rotation->offset > 0);
  });
}

std::string why_not(const ModelSpec& spec, const std::vector<PositionFacts>& positions) {
  if (spec.layers == 0 || spec.kv_heads == 0 || spec.head_dim == 0)
    return "layers, heads or their width are not stated";
  if (latent(spec, positions)) return "latent attention keeps compressed rows, not keys and values";
  const bool caches = std::any_of(
      spec.attention.begin(), spec.attention.end(),
      [](const AttentionSpec& attention) { return attention.attends && !attention.bidirectional; });
  return caches ? "" : "an encoder reads the whole text at once and keeps no cache";
}

}  // namespace

MemoryFacts memory_facts(const ModelSpec& spec, const std::vector<PositionFacts>& positions) {
  MemoryFacts memory;
  memory.why_not = why_not(spec, positions);
  if (!memory.why_not.empty()) return memory;
  std::optional<std::int64_t> a_token = 0;
  std::optional<std::int64_t> at_configured;
  if (spec.lengths.configured) at_configured = 0;
  for (std::int64_t layer = 0; layer < spec.layers && a_token; ++layer) {
    const AttentionSpec& attention = spec.attention[static_cast<std::size_t>(layer)];
    if (!attention.attends) continue;
    // Layers of one model may have heads of different widths; a rotation knows its own.
    const Rotation* const rotation = rotation_at(positions, spec.positions.stack, layer);
    const std::int64_t head_dim = rotation == nullptr ? spec.head_dim : rotation->head_dim;
    const std::int64_t factors[] = {2, spec.kv_heads, head_dim,
                                    static_cast<std::int64_t>(size_of(memory.dtype))};
    const std::optional<std::int64_t> bytes = checked_product(factors);
    a_token = bytes ? checked_add(*a_token, *bytes) : std::nullopt;
    if (!bytes || !at_configured) continue;
    const bool bounded = attention.kind != AttentionKind::full && attention.window > 0;
    const std::int64_t kept =
        bounded ? std::min(attention.window, *spec.lengths.configured) : *spec.lengths.configured;
    const std::optional<std::int64_t> of_layer = checked_mul(*bytes, kept);
    at_configured = of_layer ? checked_add(*at_configured, *of_layer) : std::nullopt;
  }
  if (!a_token) {
    memory.why_not = "the size does not fit in 64 bits";
    return memory;
  }
  memory.kv_bytes_per_token = a_token;
  memory.at_configured = at_configured;
  return memory;
}

}  // namespace locant
