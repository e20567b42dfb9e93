// SPDX-License-Identifier: Apache-2.0
// Rows of a cache: rounding to 8 bits with a scale for the row, and bounds of norms for passing over keys.
#include "kernels/keep.h"

#include <cmath>
#include <limits>

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/keep.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// Bits of the largest |x|: their order is that of sizes, with NaN on top.
HWY_INLINE std::int32_t largest_bits(const float* x, std::size_t n) {
  const F d;
  const hn::RebindToSigned<F> di;
  auto most = hn::Zero(di);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) most = hn::Max(most, hn::BitCast(di, hn::Abs(hn::LoadU(d, x + i))));
  if (i < n) most = hn::Max(most, hn::BitCast(di, hn::Abs(load_n(d, x + i, n - i))));
  std::int32_t lanes[kLanes];
  hn::StoreU(most, di, lanes);
  std::int32_t top = lanes[0];
  for (std::size_t j = 1; j < kLanes; ++j) top = HWY_MAX(top, lanes[j]);
  return top;
}

float WriteInt8Row(const float* x, std::int64_t count, std::int8_t* q) {
  const F d;
  const hn::Rebind<std::int8_t, F> d8;
  const std::size_t n = index(count);
  const std::int32_t bits = largest_bits(x, n);
  float most;
  std::memcpy(&most, &bits, sizeof(most));
  if (!(most >= 0x1p-119F) || most > std::numeric_limits<float>::max()) {
    if (n > 0) std::memset(q, 0, n);
    return most < 1 ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  const V by = hn::Set(d, 127 / most);
  const auto rounded = [&](V v) HWY_ATTR { return hn::DemoteTo(d8, hn::NearestInt(hn::Mul(v, by))); };
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(rounded(hn::LoadU(d, x + i)), d8, q + i);
  if (i < n) {
    std::int8_t part[kLanes];
    hn::StoreU(rounded(load_n(d, x + i, n - i)), d8, part);
    std::memcpy(q + i, part, n - i);
  }
  return most / 127;
}

template <class T>
HWY_INLINE float sum_of_squares(const T* row, std::size_t n) {
  const F d;
  V sum[2] = {hn::Zero(d), hn::Zero(d)};
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    for (std::size_t j = 0; j < 2; ++j) {
      const V v = load(d, row + i + j * kLanes);
      sum[j] = hn::MulAdd(v, v, sum[j]);
    }
  }
  for (; i < n; i += kLanes) {
    T part[kLanes] = {};
    std::memcpy(part, row + i, HWY_MIN(n - i, kLanes) * sizeof(T));
    const V v = load(d, part);
    sum[0] = hn::MulAdd(v, v, sum[0]);
  }
  float lanes[kLanes];
  hn::StoreU(hn::Add(sum[0], sum[1]), d, lanes);
  float all = 0;
  for (const float lane : lanes) all += lane;
  return all;
}

// A sum of n squares in any order, their root and its product with a scale are off by less than
// (n + 6) 2^-24 of themselves; squares below the smallest number are less than it.
float NormBound(const void* row, DType dtype, std::int64_t count, float scale) {
  const std::size_t n = index(count);
  const float above = static_cast<float>(count);
  float sum = above * std::numeric_limits<float>::min();
  if (dtype == DType::f16) {
    sum += sum_of_squares(static_cast<const Half*>(row), n);
  } else if (dtype == DType::bf16) {
    sum += sum_of_squares(static_cast<const BFloat16*>(row), n);
  } else if (dtype == DType::i8) {
    sum += sum_of_squares(static_cast<const std::int8_t*>(row), n);
  } else {
    sum += sum_of_squares(static_cast<const float*>(row), n);
  }
  const float norm = std::sqrt(sum) * (1 + (above + 8) * 0x1p-24F) * (dtype == DType::i8 ? scale : 1.0F);
  return norm >= 0 ? norm : std::numeric_limits<float>::infinity();
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(WriteInt8Row);
HWY_EXPORT(NormBound);
float write_int8_row(const float* x, std::int64_t count, std::int8_t* q) noexcept {
  return HWY_DYNAMIC_DISPATCH(WriteInt8Row)(x, count, q);
}
float norm_bound(const void* row, DType dtype, std::int64_t count, float scale) noexcept {
  return HWY_DYNAMIC_DISPATCH(NormBound)(row, dtype, count, scale);
}
}  // namespace locant::kernels
#endif
