// SPDX-License-Identifier: Apache-2.0
// Keys, values and positions of a batch of rows: [row][layer] -> [kv_heads, capacity, width], the scales of
// an i8 cache and norms of keys beside them. Allocated and touched once; slots fill from 0, padding never
// enters.
#pragma once

#include <cstdint>
#include <vector>

#include "locant/model.h"
#include "locant/ops.h"

namespace locant {

struct CacheShape {
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t key_width = 0;
  std::int64_t value_width = 0;
  /// Layers take turns in one place: what the last one stored is all that is needed (encoders).
  bool shared_by_layers = false;
  /// Norms of keys are kept: attention with slopes passes over what is too far to count.
  bool keeps_norms = false;
};

class Cache {
 public:
  Cache(const CacheShape& shape, const SessionOptions& options);

  [[nodiscard]] static std::int64_t bytes(const CacheShape& shape, const SessionOptions& options);
  [[nodiscard]] CacheTensor keys(std::int64_t row, std::int64_t layer) const noexcept;
  [[nodiscard]] CacheTensor values(std::int64_t row, std::int64_t layer) const noexcept;
  [[nodiscard]] std::int64_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return static_cast<std::int64_t>(tokens_.size()); }
  [[nodiscard]] std::int64_t tokens(std::int64_t row) const noexcept {
    return tokens_[static_cast<std::size_t>(row)];
  }
  void set_tokens(std::int64_t row, std::int64_t tokens) noexcept {
    tokens_[static_cast<std::size_t>(row)] = tokens;
  }
  /// [capacity] the position each slot stands at.
  [[nodiscard]] View<std::int64_t, 1> positions(std::int64_t row) const noexcept;
  void copy_from(const Cache& other);

 private:
  [[nodiscard]] std::int64_t place(std::int64_t row, std::int64_t layer) const noexcept;
  [[nodiscard]] float* scales(std::int64_t place) const noexcept;
  [[nodiscard]] std::int64_t size_of_element() const noexcept {
    return static_cast<std::int64_t>(size_of(dtype_));
  }
  CacheShape shape_;
  std::int64_t capacity_ = 0;
  DType dtype_ = DType::f32;
  Buffer data_;
  Buffer floats_;  ///< scales of keys and values of every place, then norms of its keys
  Buffer positions_;
  std::vector<std::int64_t> tokens_;
};

}  // namespace locant
