// SPDX-License-Identifier: Apache-2.0
#include "formats/row_major.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/checked.h"

namespace locant {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 18;

/// Walks the outer axes like an odometer; `offset` is the element at which the innermost row begins.
class Rows {
 public:
  explicit Rows(const TensorRef& tensor) : tensor_(tensor) {}
  [[nodiscard]] std::int64_t offset() const noexcept { return offset_; }
  bool next() noexcept {
    for (std::size_t axis = tensor_.rank - 1; axis-- > 0;) {
      offset_ += tensor_.strides[axis];
      if (++at_[axis] < tensor_.shape[axis]) return true;
      offset_ -= tensor_.strides[axis] * tensor_.shape[axis];
      at_[axis] = 0;
    }
    return false;
  }

 private:
  const TensorRef& tensor_;
  std::array<std::int64_t, TensorRef::kMaxRank> at_{};
  std::int64_t offset_ = 0;
};

}  // namespace

std::int64_t checked_bytes(std::string_view who, const TensorRef& tensor) {
  if (tensor.rank > TensorRef::kMaxRank) {
    throw SpecError(
        fmt::format("{}: a tensor has at most {} axes, got {}", who, TensorRef::kMaxRank, tensor.rank));
  }
  const std::span<const std::int64_t> shape(tensor.shape.data(), tensor.rank);
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent < 0; })) {
    throw SpecError(fmt::format("{}: extents are not negative, got {}", who, tensor.shape_text()));
  }
  const auto elements = checked_product(shape);
  const auto bytes =
      elements ? checked_mul(*elements, static_cast<std::int64_t>(size_of(tensor.dtype))) : std::nullopt;
  if (!bytes) throw SpecError(fmt::format("{}: shape {} is too large to count", who, tensor.shape_text()));
  if (*bytes > 0 && tensor.data == nullptr) {
    throw SpecError(fmt::format("{}: shape {} has no data", who, tensor.shape_text()));
  }
  return *bytes;
}

void for_each_block(const TensorRef& tensor, const std::function<void(std::span<const std::byte>)>& sink) {
  const auto* const data = static_cast<const std::byte*>(tensor.data);
  const std::size_t width = size_of(tensor.dtype);
  const auto elements = static_cast<std::size_t>(tensor.size());
  if (elements == 0) return;
  if (tensor.is_contiguous()) {
    sink({data, elements * width});
    return;
  }
  // not contiguous: rank >= 1
  const std::int64_t row = tensor.shape[tensor.rank - 1];
  const std::int64_t step = tensor.strides[tensor.rank - 1];
  std::vector<std::byte> block(std::min(elements * width, kBlock));
  std::size_t filled = 0;
  Rows rows(tensor);
  do {
    for (std::int64_t i = 0; i < row; ++i) {
      const std::ptrdiff_t from = (rows.offset() + i * step) * static_cast<std::ptrdiff_t>(width);
      std::memcpy(block.data() + filled, data + from, width);
      filled += width;
      if (filled + width > block.size()) {
        sink(std::span<const std::byte>(block).first(filled));
        filled = 0;
      }
    }
  } while (rows.next());
  if (filled != 0) sink(std::span<const std::byte>(block).first(filled));
}

}  // namespace locant
