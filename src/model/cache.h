// SPDX-License-Identifier: Apache-2.0
// Keys, values and positions of a batch of rows: [row][layer] -> [kv_heads, capacity, head_dim]. Allocated
// and touched once; slots fill from 0, padding never enters.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "locant/model.h"
#include "locant/ops.h"
#include "locant/spec.h"
#include "locant/threads.h"

namespace locant {

class Cache {
 public:
  Cache(const ModelSpec& spec, const SessionOptions& options);

  [[nodiscard]] static std::int64_t bytes(const ModelSpec& spec, const SessionOptions& options);
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
  [[nodiscard]] CacheTensor tensor(std::int64_t row, std::int64_t layer, std::int64_t half) const noexcept;
  std::int64_t layers_ = 0;
  std::int64_t heads_ = 0;
  std::int64_t width_ = 0;
  std::int64_t capacity_ = 0;
  DType dtype_ = DType::f32;
  Buffer data_;
  Buffer positions_;
  std::vector<std::int64_t> tokens_;
};

}  // namespace locant
