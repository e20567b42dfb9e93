// SPDX-License-Identifier: Apache-2.0
// Tensors of either format as rows of f32. Largest errors of storage, per element: f32, f16, bf16 half a unit
// in the last place; blocks: block_error().
#include "check/weight.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "check/block_error.h"

namespace locant::check_room {
namespace {

constexpr std::int64_t kMostBlock = 256;
constexpr double kLeastHalf = 0x1p-25;  // half of f16's smallest step

double square(double x) {
  return x * x;
}

}  // namespace

Weight::Weight(const StoredTensor& stored)
    : name_(stored.name),
      path_(stored.path),
      shape_(stored.tensor.shape.begin(),
             stored.tensor.shape.begin() + static_cast<std::ptrdiff_t>(stored.tensor.rank)),
      data_(static_cast<const std::byte*>(stored.tensor.data)),
      bytes_(static_cast<std::size_t>(stored.tensor.size()) * size_of(stored.tensor.dtype)),
      type_text_(name_of(stored.tensor.dtype)) {
  if (is_float(stored.tensor.dtype)) {
    known_ = true;
    type_ = *ggml_type_of(stored.tensor.dtype);
  }
  shape_up();
}

Weight::Weight(const GgufTensor& stored)
    : name_(stored.name),
      path_(stored.path),
      shape_(stored.shape),
      data_(stored.bytes.data()),
      bytes_(stored.bytes.size()),
      known_(can_dequantize(stored.type) || stored.type == GgmlType::f64),
      type_(stored.type),
      type_text_(name_of(stored.type)) {
  shape_up();
}

void Weight::shape_up() {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape_) elements *= extent;
  columns_ = shape_.size() < 2 ? 1 : shape_.back();
  rows_ = columns_ > 0 ? elements / columns_ : 0;
}

std::string Weight::shape_text() const {
  return fmt::format("[{}]", fmt::join(shape_, ","));
}

std::string Weight::type_text() const {
  return type_text_;
}

bool Weight::readable() const noexcept {
  return known_ && block_elements(type_) <= kMostBlock;
}

void Weight::read(std::int64_t first, std::int64_t count, float* out) const {
  if (type_ == GgmlType::f64) {
    for (std::int64_t i = 0; i < count; ++i) {
      double value = 0;
      std::memcpy(&value, data_ + static_cast<std::size_t>(first + i) * sizeof(value), sizeof(value));
      out[i] = static_cast<float>(value);
    }
    return;
  }
  const std::int64_t block = block_elements(type_);
  const auto at = [&](std::int64_t element) {
    return data_ + static_cast<std::size_t>(element / block * block_bytes(type_));
  };
  std::array<float, kMostBlock> whole{};
  while (count > 0) {
    const std::int64_t inside = first % block;
    std::int64_t piece = count / block * block;
    if (inside == 0 && piece > 0) {
      dequantize(type_, at(first), piece, out);
    } else {
      piece = std::min(count, block - inside);
      dequantize(type_, at(first), block, whole.data());
      std::copy_n(whole.begin() + inside, piece, out);
    }
    first += piece;
    count -= piece;
    out += piece;
  }
}

void Weight::read_strided(std::int64_t first, std::int64_t step, std::int64_t count, float* out) const {
  if (step == 1) return read(first, count, out);
  for (std::int64_t i = 0; i < count; ++i) read(first + i * step, 1, out + i);
}

double Weight::rounding(std::int64_t first, std::int64_t count, const float* values) const {
  double relative = 0x1p-24;
  double least = 0;
  if (type_ == GgmlType::f16) {
    relative = 0x1p-11;
    least = kLeastHalf;
  } else if (type_ == GgmlType::bf16) {
    relative = 0x1p-9;
  }
  double sum = 0;
  if (block_elements(type_) == 1) {
    for (std::int64_t i = 0; i < count; ++i)
      sum += square(std::max(std::abs(static_cast<double>(values[i])) * relative, least));
    return sum;
  }
  const std::int64_t block = block_elements(type_);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t element = first + done;
    const std::int64_t piece = std::min(count - done, kErrorGroup - element % kErrorGroup);
    const std::byte* const at = data_ + static_cast<std::size_t>(element / block * block_bytes(type_));
    sum += static_cast<double>(piece) * square(block_error(type_, at, static_cast<int>(element % block)));
    done += piece;
  }
  return sum;
}

bool Weight::equals(const Weight& other) const noexcept {
  return known_ == other.known_ && type_text_ == other.type_text_ && shape_ == other.shape_ &&
         bytes_ == other.bytes_ && std::memcmp(data_, other.data_, bytes_) == 0;
}

}  // namespace locant::check_room
