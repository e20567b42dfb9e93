// SPDX-License-Identifier: Apache-2.0
// Layers that attend in the same way, stack by stack.
#include <algorithm>
#include <tuple>

#include "facts/parts.h"

namespace locant {
namespace {

auto fields(const AttentionSpec& a) {
  return std::tie(a.scale, a.kind, a.window, a.softcap, a.sinks, a.bidirectional, a.attends);
}

}  // namespace

std::vector<AttentionFacts> attention_facts(const ModelSpec& spec) {
  std::vector<AttentionFacts> all;
  for (const StackView& stack : stacks_of(spec)) {
    const std::size_t first = all.size();
    for (std::size_t layer = 0; layer < stack.attention.size(); ++layer) {
      const AttentionSpec& attention = stack.attention[layer];
      if (!attention.attends) continue;
      const auto found = std::find_if(
          all.begin() + static_cast<std::ptrdiff_t>(first), all.end(),
          [&](const AttentionFacts& entry) { return fields(entry.attention) == fields(attention); });
      if (found != all.end()) {
        found->layers.push_back(static_cast<std::int64_t>(layer));
      } else {
        all.push_back({stack.positions.stack, {static_cast<std::int64_t>(layer)}, attention});
      }
    }
  }
  return all;
}

}  // namespace locant
