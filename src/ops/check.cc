// SPDX-License-Identifier: Apache-2.0
// Rules that operations share.
#include "ops/check.h"

#include <algorithm>

namespace locant::check_ops {

Extent extent_of(const void* data, std::size_t item, const std::int64_t* shape, const std::int64_t* strides,
                 std::size_t rank) noexcept {
  Extent e;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (shape[axis] <= 0) return e;
  }
  const auto bytes = static_cast<std::int64_t>(item);
  std::int64_t low = 0;
  std::int64_t high = bytes;
  for (std::size_t axis = rank; axis-- > 0;) {
    if (axis == 0) e.row = static_cast<std::uintptr_t>(high - low);
    const std::int64_t reach = (shape[axis] - 1) * strides[axis] * bytes;
    (reach < 0 ? low : high) += reach;
  }
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  e.first = at + static_cast<std::uintptr_t>(low);
  e.last = at + static_cast<std::uintptr_t>(high);
  if (rank > 1 && shape[0] > 1 && strides[0] > 0) e.step = static_cast<std::uintptr_t>(strides[0] * bytes);
  return e;
}

std::int64_t bytes_of(const Matrix& m, std::int64_t elements) noexcept {
  if (m.blocks) return elements / block_elements(*m.blocks) * block_bytes(*m.blocks);
  return elements * static_cast<std::int64_t>(size_of(m.dtype));
}

Extent extent_of(const Matrix& m) noexcept {
  const std::array<std::int64_t, 2> shape{m.rows, bytes_of(m, m.columns)};
  const std::array<std::int64_t, 2> strides{bytes_of(m, m.row_stride), 1};
  return extent_of(m.data, 1, shape.data(), strides.data(), 2);
}

bool overlap(const Extent& a, const Extent& b) noexcept {
  if (a.first >= b.last || b.first >= a.last) return false;
  const std::uintptr_t step = a.step != 0 ? a.step : b.step;
  if (step == 0 || (a.step != 0 && b.step != 0 && a.step != b.step)) return true;
  // Rows of one step: they meet when their columns do, modulo the step.
  const std::uintptr_t ahead =
      b.first >= a.first ? (b.first - a.first) % step : (step - (a.first - b.first) % step) % step;
  return ahead < a.row || ahead + b.row > step;
}

bool is_storable(DType dtype) noexcept {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

namespace {

void whole_blocks(std::string_view who, std::string_view name, const Matrix& m) {
  const GgmlType type = *m.blocks;
  if (!can_multiply(type))
    fail("{}: {} is {}, expected blocks of Q4_0 to Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS or MXFP4", who, name,
         name_of(type));
  const std::int64_t block = block_elements(type);
  if (m.columns % block != 0)
    fail("{}: {} has rows of {} elements, {} stands in blocks of {}", who, name, m.columns, name_of(type),
         block);
  if (m.row_stride % block != 0)
    fail("{}: {} has rows {} elements apart, {} stands in blocks of {}", who, name, m.row_stride,
         name_of(type), block);
}

}  // namespace

void weight(std::string_view who, std::string_view name, const Matrix& m) {
  if (m.blocks) {
    whole_blocks(who, name, m);
  } else if (!is_storable(m.dtype)) {
    fail("{}: {} is {}, expected f32, f16 or bf16", who, name, name_of(m.dtype));
  }
  if (m.rows < 0 || m.columns < 0)
    fail("{}: {} is [{},{}], an extent is negative", who, name, m.rows, m.columns);
  if (m.rows == 0 || m.columns == 0) return;
  if (m.data == nullptr) fail("{}: {} is [{},{}] without data", who, name, m.rows, m.columns);
  if (m.rows > 1 && m.row_stride < m.columns)
    fail("{}: {} has rows of {} elements, stride {} is too small", who, name, m.columns, m.row_stride);
}

void vector(std::string_view who, std::string_view name, const View<const float, 1>& view, std::int64_t count,
            std::string_view unit) {
  if (view.extent(0) != count) fail("{}: {} is {}, expected [{}={}]", who, name, text(view), unit, count);
  readable(who, name, view);
}

const std::byte* row_of(const Matrix& m, std::int64_t row) noexcept {
  return static_cast<const std::byte*>(m.data) + row * bytes_of(m, m.row_stride);
}

}  // namespace locant::check_ops
