// SPDX-License-Identifier: Apache-2.0
#include "model/cache.h"

#include <cstring>
#include <initializer_list>

#include "core/checked.h"

namespace locant {

namespace {

std::int64_t product(std::initializer_list<std::int64_t> sizes) {
  const auto bytes = checked_product({sizes.begin(), sizes.size()});
  if (!bytes) throw SpecError("run: the cache must be addressable, its size overflows 2^63 bytes");
  return *bytes;
}

std::int64_t kept_layers(const CacheShape& shape) noexcept {
  return shape.shared_by_layers ? 1 : shape.layers;
}

}  // namespace

std::int64_t Cache::bytes(const CacheShape& shape, const SessionOptions& options) {
  return product({options.rows, kept_layers(shape), shape.heads, options.capacity,
                  shape.key_width + shape.value_width, static_cast<std::int64_t>(size_of(options.cache))});
}

Cache::Cache(const CacheShape& shape, const SessionOptions& options)
    : shape_(shape),
      capacity_(options.capacity),
      dtype_(options.cache),
      data_(static_cast<std::size_t>(bytes(shape, options))),
      positions_(static_cast<std::size_t>(product({options.rows, options.capacity, 8}))),
      tokens_(static_cast<std::size_t>(options.rows), 0) {}

std::byte* Cache::layer(std::int64_t row, std::int64_t layer) const noexcept {
  const std::int64_t index = shape_.shared_by_layers ? row : row * shape_.layers + layer;
  const std::int64_t offset = index * shape_.heads * capacity_ * (shape_.key_width + shape_.value_width);
  return data_.as<std::byte>() + static_cast<std::size_t>(offset) * size_of(dtype_);
}

CacheTensor Cache::keys(std::int64_t row, std::int64_t layer) const noexcept {
  return {.data = this->layer(row, layer),
          .dtype = dtype_,
          .heads = shape_.heads,
          .capacity = capacity_,
          .width = shape_.key_width};
}
CacheTensor Cache::values(std::int64_t row, std::int64_t layer) const noexcept {
  const std::int64_t keys = shape_.heads * capacity_ * shape_.key_width;
  return {.data = this->layer(row, layer) + static_cast<std::size_t>(keys) * size_of(dtype_),
          .dtype = dtype_,
          .heads = shape_.heads,
          .capacity = capacity_,
          .width = shape_.value_width};
}

View<std::int64_t, 1> Cache::positions(std::int64_t row) const noexcept {
  return {positions_.as<std::int64_t>() + row * capacity_, {capacity_}};
}

void Cache::copy_from(const Cache& other) {
  std::memcpy(data_.data(), other.data_.data(), data_.bytes());
  std::memcpy(positions_.data(), other.positions_.data(), positions_.bytes());
  tokens_ = other.tokens_;
}

}  // namespace locant
