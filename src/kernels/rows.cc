// SPDX-License-Identifier: Apache-2.0
// Rows of f32, f16 and bf16: read by id with a scale, added, written with one rounding.
#include "kernels/rows.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lookup-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

template <RowStores kStores, class T>
HWY_INLINE void read_typed(const RowAt& from, std::size_t n, float scale, float* out) {
  const F d;
  const V s = hn::Set(d, scale);
  const T* row = reinterpret_cast<const T*>(from.at);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    ask_next(from, i * sizeof(T));
    put_row<kStores>(hn::Mul(load(d, row + i), s), out + i);
  }
  if (i < n) store_n(d, hn::Mul(load_n(d, row + i, n - i), s), out + i, n - i);
}

// Exact, NaN and all.
template <RowStores kStores>
HWY_INLINE void copy_row(const RowAt& from, std::size_t n, float* out) {
  const F d;
  const auto* row = reinterpret_cast<const float*>(from.at);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    ask_next(from, i * sizeof(float));
    put_row<kStores>(hn::LoadU(d, row + i), out + i);
  }
  if (i < n) std::memcpy(out + i, row + i, (n - i) * sizeof(float));
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

void ReadRows(const RowsBlock& b, DType dtype) {
  const std::size_t n = index(b.width);
  each_row(b, b.width * static_cast<std::int64_t>(size_of(dtype)),
           [&](const RowAt& row, float* out, auto stores) HWY_ATTR {
             constexpr RowStores kStores = stores();
             if (dtype == DType::f16) {
               read_typed<kStores, Half>(row, n, b.scale, out);
             } else if (dtype == DType::bf16) {
               read_typed<kStores, BFloat16>(row, n, b.scale, out);
             } else if (b.scale == 1) {
               copy_row<kStores>(row, n, out);
             } else {
               read_typed<kStores, float>(row, n, b.scale, out);
             }
           });
}

// An id is outside when it or its distance to the last row is below zero.
std::int64_t FirstOutside(const std::int64_t* ids, std::int64_t step, std::int64_t count, std::int64_t rows) {
  const auto outside = [rows](std::int64_t id) {
    return static_cast<std::uint64_t>(id) >= static_cast<std::uint64_t>(rows);
  };
  std::int64_t t = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  if (step == 1) {
    const hn::ScalableTag<std::int64_t> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto last = hn::Set(d, rows - 1);
    const auto zero = hn::Zero(d);
    for (; t + 4 * lanes <= count; t += 4 * lanes) {
      auto bad = zero;
      for (std::int64_t j = 0; j < 4; ++j) {
        const auto id = hn::LoadU(d, ids + t + j * lanes);
        bad = hn::Or(bad, hn::Or(id, hn::Sub(last, id)));
      }
      if (!hn::AllFalse(d, hn::Lt(bad, zero))) break;
    }
  }
#endif
  while (t < count && !outside(ids[t * step])) ++t;
  return t;
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
HWY_EXPORT(ReadRows);
HWY_EXPORT(FirstOutside);
HWY_EXPORT(AddRow);
HWY_EXPORT(WriteRow);
void read_rows(const RowsBlock& block, DType dtype) noexcept {
  HWY_DYNAMIC_DISPATCH(ReadRows)(block, dtype);
}
std::int64_t first_outside(const std::int64_t* ids, std::int64_t step, std::int64_t count,
                           std::int64_t rows) noexcept {
  return HWY_DYNAMIC_DISPATCH(FirstOutside)(ids, step, count, rows);
}
void add_row(const void* row, DType dtype, std::int64_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(AddRow)(row, dtype, count, out);
}
void write_row(const float* x, std::int64_t count, void* out, DType dtype) noexcept {
  HWY_DYNAMIC_DISPATCH(WriteRow)(x, count, out, dtype);
}
}  // namespace locant::kernels
#endif
