// SPDX-License-Identifier: Apache-2.0
// Lines of rows to come, asked for a few at every step of the present ones in the order they lie in memory:
// spans of many rows are too short for the machine to see them coming, and more lines than it can wait for
// stop it. What is asked for need not exist: asking is no access.
#if defined(LOCANT_KERNELS_AHEAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_AHEAD_INL_H_
#undef LOCANT_KERNELS_AHEAD_INL_H_
#else
#define LOCANT_KERNELS_AHEAD_INL_H_
#endif

#include "hwy/cache_control.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// The same columns of some rows.
struct Ahead {
  const std::uint8_t* row = nullptr;
  std::int64_t stride = 0;  // bytes
  std::int64_t bytes = 0;   // of a row
  std::int64_t rows = 0;    // left
  std::int64_t each = 1;    // lines a step
  std::int64_t at = 0;

  // Members stay in registers meanwhile.
  HWY_INLINE void ask() {
    Ahead now = *this;
    for (std::int64_t i = 0; i < each && now.rows > 0; ++i) {
      hwy::Prefetch(now.row + now.at);
      now.at += 64;
      if (now.at >= bytes) {
        now.at = 0;
        now.row += stride;
        --now.rows;
      }
    }
    row = now.row;
    rows = now.rows;
    at = now.at;
  }
  template <std::size_t Bytes>
  HWY_INLINE void ask() {
    ask();
  }
  HWY_INLINE void ask_all() {
    while (rows > 0) ask();
  }
};
// The same of rows that lie one after the other: what a step asks for is known to the compiler.
struct LinesAhead {
  const std::uint8_t* at;

  template <std::size_t Bytes>
  HWY_INLINE void ask() {
    for (std::size_t i = 0; i < Bytes; i += 64) hwy::Prefetch(at + i);
    at += Bytes;
  }
};

HWY_INLINE Ahead in_steps(Ahead ahead, std::int64_t steps) {
  const std::int64_t lines = ahead.rows * ((ahead.bytes + 63) / 64);
  ahead.each = steps > 1 ? (lines + steps - 1) / steps : HWY_MAX(lines, std::int64_t{1});
  return ahead;
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
