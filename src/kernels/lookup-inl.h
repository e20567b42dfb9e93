// SPDX-License-Identifier: Apache-2.0
// The walk over rows of a table by id. Short rows are asked for some ids ahead, since the machine does not
// see them coming; long ones it does. An out that the caches do not hold is written around them, where its
// rows are aligned.
#if defined(LOCANT_KERNELS_LOOKUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_LOOKUP_INL_H_
#undef LOCANT_KERNELS_LOOKUP_INL_H_
#else
#define LOCANT_KERNELS_LOOKUP_INL_H_
#endif

#include "hwy/cache_control.h"
#include "kernels/lanes-inl.h"
#include "kernels/rows.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

template <RowStores kStores>
HWY_INLINE void put_row(V v, float* out) {
  if constexpr (kStores == RowStores::around) {
    hn::Stream(v, F(), out);
  } else {
    hn::StoreU(v, F(), out);
  }
}

// A row, and the next one for a reader that asks for it as it goes along, or null.
struct RowAt {
  const std::byte* at;
  const std::byte* next;
};
HWY_INLINE void ask_next(const RowAt& row, std::size_t byte) {
  if (row.next != nullptr) hwy::Prefetch(row.next + byte);
}

inline constexpr std::int64_t kLine = 64;
inline constexpr std::int64_t kShortRow = 2048;    // bytes
inline constexpr std::int64_t kAskedBytes = 8192;  // of short rows ahead

template <RowStores kStores, class Read>
HWY_INLINE void walk_rows(const RowsBlock& b, std::int64_t bytes, Read read) {
  const bool is_short = bytes <= kShortRow;
  const std::int64_t ahead = is_short ? kAskedBytes / HWY_MAX(bytes, kLine) : 1;
  const auto row_of = [&](std::int64_t t) { return b.table + b.ids[t * b.ids_step] * b.row_bytes; };
  const auto ask = [&](std::int64_t t) {
    const std::byte* const row = row_of(t);
    for (std::int64_t at = 0; at < bytes; at += kLine) hwy::Prefetch(row + at);
  };
  if (is_short) {
    for (std::int64_t t = 0; t < HWY_MIN(ahead, b.tokens); ++t) ask(t);
  }
  for (std::int64_t t = 0; t < b.tokens; ++t) {
    const bool more = t + ahead < b.ids_left;
    if (is_short && more) ask(t + ahead);
    const RowAt row{row_of(t), !is_short && more ? row_of(t + 1) : nullptr};
    read(row, b.out + t * b.out_token, std::integral_constant<RowStores, kStores>());
  }
}

// read(row, out, stores) for every id.
template <class Read>
HWY_INLINE void each_row(const RowsBlock& b, std::int64_t bytes, Read read) {
  constexpr std::uintptr_t kUnit = kLanes * sizeof(float);
  const std::uintptr_t step = static_cast<std::uintptr_t>(b.out_token) * sizeof(float);
  const bool aligned = (reinterpret_cast<std::uintptr_t>(b.out) | step) % kUnit == 0;
  if (b.stores == RowStores::around && aligned) {
    walk_rows<RowStores::around>(b, bytes, read);
    hwy::FlushStream();
  } else {
    walk_rows<RowStores::cached>(b, bytes, read);
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
