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

// Floats of one head beside its rows: two scales a slot, one norm for kNormSlots of them.
std::int64_t scales_of_head(const SessionOptions& options) {
  return options.cache == DType::i8 ? product({2, options.capacity}) : 0;
}
std::int64_t norms_of_head(const CacheShape& shape, std::int64_t capacity) noexcept {
  return shape.keeps_norms ? (capacity - 1) / kNormSlots + 1 : 0;
}

std::int64_t row_bytes(const CacheShape& shape, const SessionOptions& options) {
  return product({options.rows, kept_layers(shape), shape.heads, options.capacity,
                  shape.key_width + shape.value_width, static_cast<std::int64_t>(size_of(options.cache))});
}
std::int64_t float_bytes(const CacheShape& shape, const SessionOptions& options) {
  return product({options.rows, kept_layers(shape), shape.heads, 4,
                  scales_of_head(options) + norms_of_head(shape, options.capacity)});
}

}  // namespace

std::int64_t Cache::bytes(const CacheShape& shape, const SessionOptions& options) {
  const auto all = checked_add(row_bytes(shape, options), float_bytes(shape, options));
  if (!all) throw SpecError("run: the cache must be addressable, its size overflows 2^63 bytes");
  return *all;
}

Cache::Cache(const CacheShape& shape, const SessionOptions& options)
    : shape_(shape),
      capacity_(options.capacity),
      dtype_(options.cache),
      data_(static_cast<std::size_t>(row_bytes(shape, options))),
      floats_(static_cast<std::size_t>(float_bytes(shape, options))),
      positions_(static_cast<std::size_t>(product({options.rows, options.capacity, 8}))),
      tokens_(static_cast<std::size_t>(options.rows), 0) {}

std::int64_t Cache::place(std::int64_t row, std::int64_t layer) const noexcept {
  return shape_.shared_by_layers ? row : row * shape_.layers + layer;
}

float* Cache::scales(std::int64_t place) const noexcept {
  const std::int64_t scales = dtype_ == DType::i8 ? 2 * capacity_ : 0;
  return floats_.as<float>() + place * shape_.heads * (scales + norms_of_head(shape_, capacity_));
}

CacheTensor Cache::keys(std::int64_t row, std::int64_t layer) const noexcept {
  const std::int64_t at = place(row, layer);
  const std::int64_t rows = at * shape_.heads * capacity_;
  const std::int64_t bytes = rows * (shape_.key_width + shape_.value_width) * size_of_element();
  CacheTensor keys{.data = data_.as<std::byte>() + bytes,
                   .dtype = dtype_,
                   .heads = shape_.heads,
                   .capacity = capacity_,
                   .width = shape_.key_width};
  const bool scaled = dtype_ == DType::i8;
  if (scaled) keys.scales = scales(at);
  if (shape_.keeps_norms) keys.norms = scales(at) + (scaled ? 2 * shape_.heads * capacity_ : 0);
  return keys;
}

CacheTensor Cache::values(std::int64_t row, std::int64_t layer) const noexcept {
  CacheTensor values = keys(row, layer);
  const std::int64_t rows = shape_.heads * capacity_;
  values.data = static_cast<std::byte*>(values.data) + rows * shape_.key_width * size_of_element();
  values.width = shape_.value_width;
  values.norms = nullptr;
  if (values.scales != nullptr) values.scales += rows;
  return values;
}

View<std::int64_t, 1> Cache::positions(std::int64_t row) const noexcept {
  return {positions_.as<std::int64_t>() + row * capacity_, {capacity_}};
}

void Cache::copy_from(const Cache& other) {
  std::memcpy(data_.data(), other.data_.data(), data_.bytes());
  if (floats_.bytes() > 0) std::memcpy(floats_.data(), other.floats_.data(), floats_.bytes());
  std::memcpy(positions_.data(), other.positions_.data(), positions_.bytes());
  tokens_ = other.tokens_;
}

}  // namespace locant
