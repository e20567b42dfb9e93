// SPDX-License-Identifier: Apache-2.0
// Where the heads of q, k and v stand in the rows of one fused matrix.
#pragma once

#include <cstdint>

#include "model/family.h"

namespace locant {

/// First rows of q, k and v heads inside a fused row.
struct FusedRows {
  QkvLayout layout;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t width;

  [[nodiscard]] std::int64_t q(std::int64_t head) const noexcept {
    if (layout == QkvLayout::per_head) return head * 3 * width;
    if (layout == QkvLayout::quarters) return quarter(head) + (head % part()) * width;
    const std::int64_t group = heads / kv_heads;
    return head / group * (group + 2) * width + head % group * width;
  }
  [[nodiscard]] std::int64_t k(std::int64_t head) const noexcept {
    if (layout == QkvLayout::per_head) return (head * 3 + 1) * width;
    if (layout == QkvLayout::quarters) return quarter(head) + (2 * part() + head % part()) * width;
    const std::int64_t group = heads / kv_heads;
    return (head * (group + 2) + group) * width;
  }
  [[nodiscard]] std::int64_t v(std::int64_t head) const noexcept {
    if (layout == QkvLayout::per_head) return (head * 3 + 2) * width;
    if (layout == QkvLayout::quarters) return quarter(head) + (part() + head % part()) * width;
    const std::int64_t group = heads / kv_heads;
    return (head * (group + 2) + group + 1) * width;
  }

 private:
  [[nodiscard]] std::int64_t part() const noexcept { return heads / 4; }
  [[nodiscard]] std::int64_t quarter(std::int64_t head) const noexcept {
    return head / part() * 3 * part() * width;
  }
};

}  // namespace locant
