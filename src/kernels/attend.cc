// SPDX-License-Identifier: Apache-2.0
// softmax(scores) v in one pass over chunks of slots, with a running maximum and sum (Milakov and Gimelshein
// 2018; Dao et al. 2022). Rows are queries x heads of one key-value head, so keys are read once for the
// group. Values of unseen slots are never multiplied, and chunks that no row sees are not looked at.
#include "kernels/attend.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attend.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/amx.h"
#include "kernels/attend-amx-inl.h"
#include "kernels/attend-few-inl.h"
#include "kernels/attend-panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

HWY_INLINE float lane_exp(float x) {
  const hn::CappedTag<float, 1> d1;
  return hn::GetLane(exp(d1, hn::Set(d1, x)));
}

void Attend(const AttendBlock& b) {
#if HWY_TARGET != HWY_SCALAR
  if (b.rows <= kFewRows) return attend_few(b);
#endif
#if HWY_TARGET == HWY_AVX3
  if (fits_tiles(b) && amx_units().bf16) {
    HardwareTiles tiles;
    return attend_in_tiles(b, tiles);
  }
#endif
  attend_panels(b);
}

void AttendMerge(const float* partial, std::int64_t spans, std::int64_t span_stride, std::int64_t value_width,
                 float* out) {
  float top = kNever;
  for (std::int64_t i = 0; i < spans; ++i) {
    const float maximum = partial[i * span_stride];
    top = maximum > top ? maximum : top;
  }
  float sum = 0;
  for (std::int64_t i = 0; i < spans; ++i) {
    const float* part = partial + i * span_stride;
    const float weight = part[0] == top ? 1.0f : lane_exp(part[0] - top);
    sum += weight * part[1];
    for (std::int64_t c = 0; c < value_width; ++c) {
      out[c] = i == 0 ? weight * part[2 + c] : out[c] + weight * part[2 + c];
    }
  }
  for (std::int64_t c = 0; c < value_width; ++c) out[c] /= sum;
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(Attend);
HWY_EXPORT(AttendMerge);
void attend(const AttendBlock& block) noexcept {
  HWY_DYNAMIC_DISPATCH(Attend)(block);
}
void attend_merge(const float* partial, std::int64_t spans, std::int64_t span_stride,
                  std::int64_t value_width, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(AttendMerge)(partial, spans, span_stride, value_width, out);
}
}  // namespace locant::kernels
#endif
