// SPDX-License-Identifier: Apache-2.0
// Rows into a cache.
#include "ops/keep.h"

#include <algorithm>

#include "kernels/keep.h"
#include "kernels/rows.h"

namespace locant::keep_ops {

using namespace check_ops;

namespace {

std::int64_t norms_of_head(const CacheTensor& c) noexcept {
  return ceil_div(c.capacity, kNormSlots);
}

Extent extent_of_floats(const float* data, std::int64_t count) noexcept {
  return extent_of(View<const float, 1>(data, {count}));
}

}  // namespace

KeptMemory memory_of(const CacheTensor& c) noexcept {
  KeptMemory memory{.parts = {attend_ops::extent_of_cache(c)}, .count = 1};
  if (c.scales != nullptr) memory.parts[memory.count++] = extent_of_floats(c.scales, c.heads * c.capacity);
  if (c.norms != nullptr)
    memory.parts[memory.count++] = extent_of_floats(c.norms, c.heads * norms_of_head(c));
  return memory;
}

bool overlap(const KeptMemory& kept, const Extent& other) noexcept {
  for (std::size_t i = 0; i < kept.count; ++i) {
    if (check_ops::overlap(kept.parts[i], other)) return true;
  }
  return false;
}

std::byte* row_at(const CacheTensor& c, std::int64_t head, std::int64_t slot) noexcept {
  return attend_ops::head_of(c, head) + slot * c.width * static_cast<std::int64_t>(size_of(c.dtype));
}

void keep_row(const CacheTensor& c, std::int64_t head, std::int64_t slot, const float* x) noexcept {
  std::byte* const row = row_at(c, head, slot);
  if (c.dtype == DType::i8) {
    c.scales[head * c.capacity + slot] =
        kernels::write_int8_row(x, c.width, reinterpret_cast<std::int8_t*>(row));
  } else {
    kernels::write_row(x, c.width, row, c.dtype);
  }
  if (c.norms != nullptr) keep_norm(c, head, slot);
}

void keep_norm(const CacheTensor& c, std::int64_t head, std::int64_t slot) noexcept {
  const float scale = c.dtype == DType::i8 ? c.scales[head * c.capacity + slot] : 1;
  const float norm = kernels::norm_bound(row_at(c, head, slot), c.dtype, c.width, scale);
  float& entry = c.norms[head * norms_of_head(c) + slot / kNormSlots];
  entry = slot % kNormSlots == 0 ? norm : std::max(entry, norm);
}

std::int64_t SlotCuts::begin(std::int64_t piece) const noexcept {
  return std::clamp<std::int64_t>((first / slots + piece) * slots - first, 0, tokens);
}

SlotCuts cuts_of(std::int64_t first, std::int64_t tokens, std::int64_t elements_of_token) noexcept {
  const std::int64_t blocks = std::max<std::int64_t>(1, 16384 / (elements_of_token * kNormSlots));
  return {.first = first, .tokens = tokens, .slots = blocks * kNormSlots};
}

}  // namespace locant::keep_ops
