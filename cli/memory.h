// SPDX-License-Identifier: Apache-2.0
// What a run needs of memory and what there is, told before it is taken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "locant/model.h"

namespace locant::cli {

/// "812 bytes", "1.2 GB"; decimal units.
[[nodiscard]] std::string bytes_text(std::int64_t bytes);

/// Where the system tells of its memory; a test may give another folder.
struct MemorySources {
  std::string meminfo = "/proc/meminfo";
  std::string own_group = "/proc/self/cgroup";
  std::string groups = "/sys/fs/cgroup";
};
/// Bytes that can be taken: MemAvailable, and what every control group above the process leaves (its limit
/// without what it holds, pages of files apart). Nothing where the system does not tell.
[[nodiscard]] std::optional<std::int64_t> available_memory(const MemorySources& sources = {});

struct MemoryNeed {
  std::int64_t weights = 0;  ///< mapped and copied
  std::int64_t cache = 0;
  std::int64_t tokens = 0;  ///< of the cache, all rows
  std::int64_t workspace = 0;
  std::int64_t answer = 0;  ///< logits that are kept to be written
};
/// "needs 1.2 GB for weights, 340 MB for 8192 tokens of cache, 12 MB beside them; 3 GB free".
[[nodiscard]] std::string memory_sentence(const MemoryNeed& need, std::optional<std::int64_t> available);
/// Mapped weights can be dropped and read again, the rest cannot: SpecError where that does not fit.
void require_memory(const MemoryNeed& need, std::optional<std::int64_t> available);
/// Bytes that a conversion of the weights at `path` would take before they are used; 0 for weights as they
/// are stored.
[[nodiscard]] std::int64_t copied_weights(const std::string& path, WeightStorage storage);
/// SpecError where such copies do not fit.
void require_copies(std::int64_t bytes, std::optional<std::int64_t> available);

}  // namespace locant::cli
