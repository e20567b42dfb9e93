// SPDX-License-Identifier: Apache-2.0
// Rows of f32, f16 and bf16: read with a scale, added, written with one rounding.
#include "kernels/rows.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE void read_typed(const T* row, std::size_t n, float scale, float* out) {
  const F d;
  const V s = hn::Set(d, scale);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::Mul(load(d, row + i), s), d, out + i);
  if (i < n) store_n(d, hn::Mul(load_n(d, row + i, n - i), s), out + i, n - i);
}

template <class T>
HWY_INLINE void add_typed(const T* row, std::size_t n, float* out) {
  const F d;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    hn::StoreU(hn::Add(hn::LoadU(d, out + i), load(d, row + i)), d, out + i);
  if (i < n) store_n(d, hn::Add(load_n(d, out + i, n - i), load_n(d, row + i, n - i)), out + i, n - i);
}

template <class T>
HWY_INLINE void write_typed(const float* x, std::size_t n, T* out) {
  const F d;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(d, hn::LoadU(d, x + i), out + i);
  if (i < n) store_n(d, load_n(d, x + i, n - i), out + i, n - i);
}

void ReadRow(const void* row, DType dtype, std::int64_t count, float scale, float* out) {
  if (dtype == DType::f16) {
    read_typed(static_cast<const Half*>(row), index(count), scale, out);
  } else if (dtype == DType::bf16) {
    read_typed(static_cast<const BFloat16*>(row), index(count), scale, out);
  } else if (scale == 1) {
    if (count > 0) std::memcpy(out, row, index(count) * sizeof(float));
  } else {
    read_typed(static_cast<const float*>(row), index(count), scale, out);
  }
}

void AddRow(const void* row, DType dtype, std::int64_t count, float* out) {
  if (dtype == DType::f16) {
    add_typed(static_cast<const Half*>(row), index(count), out);
  } else if (dtype == DType::bf16) {
    add_typed(static_cast<const BFloat16*>(row), index(count), out);
  } else {
    add_typed(static_cast<const float*>(row), index(count), out);
  }
}

void WriteRow(const float* x, std::int64_t count, void* out, DType dtype) {
  if (dtype == DType::f16) {
    write_typed(x, index(count), static_cast<Half*>(out));
  } else if (dtype == DType::bf16) {
    write_typed(x, index(count), static_cast<BFloat16*>(out));
  } else if (count > 0) {
    std::memcpy(out, x, index(count) * sizeof(float));
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(ReadRow);
HWY_EXPORT(AddRow);
HWY_EXPORT(WriteRow);
void read_row(const void* row, DType dtype, std::int64_t count, float scale, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(ReadRow)(row, dtype, count, scale, out);
}
void add_row(const void* row, DType dtype, std::int64_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(AddRow)(row, dtype, count, out);
}
void write_row(const float* x, std::int64_t count, void* out, DType dtype) noexcept {
  HWY_DYNAMIC_DISPATCH(WriteRow)(x, count, out, dtype);
}
}  // namespace locant::kernels
#endif
