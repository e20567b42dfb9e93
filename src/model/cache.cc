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

}  // namespace

std::int64_t Cache::bytes(const ModelSpec& spec, const SessionOptions& options) {
  return product({options.rows, spec.layers, 2, spec.kv_heads, options.capacity, spec.head_dim,
                  static_cast<std::int64_t>(size_of(options.cache))});
}

Cache::Cache(const ModelSpec& spec, const SessionOptions& options)
    : layers_(spec.layers),
      heads_(spec.kv_heads),
      width_(spec.head_dim),
      capacity_(options.capacity),
      dtype_(options.cache),
      data_(static_cast<std::size_t>(bytes(spec, options))),
      positions_(static_cast<std::size_t>(product({options.rows, options.capacity, 8}))),
      tokens_(static_cast<std::size_t>(options.rows), 0) {}

CacheTensor Cache::tensor(std::int64_t row, std::int64_t layer, std::int64_t half) const noexcept {
  const std::int64_t index = (row * layers_ + layer) * 2 + half;
  const std::int64_t offset = index * heads_ * capacity_ * width_;
  return {.data = data_.as<std::byte>() + static_cast<std::size_t>(offset) * size_of(dtype_),
          .dtype = dtype_,
          .heads = heads_,
          .capacity = capacity_,
          .width = width_};
}

CacheTensor Cache::keys(std::int64_t row, std::int64_t layer) const noexcept {
  return tensor(row, layer, 0);
}
CacheTensor Cache::values(std::int64_t row, std::int64_t layer) const noexcept {
  return tensor(row, layer, 1);
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
