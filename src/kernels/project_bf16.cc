// SPDX-License-Identifier: Apache-2.0
// Products of x rounded to bf16 (nearest, ties to even) with a weight of bf16, summed in f32: in pairs where
// the CPU has vdpbf16ps, else as project() sums them.
#include "kernels/project.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/project_bf16.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/dense-inl.h"
#include "kernels/targets.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

HWY_INLINE V rounded(V x) {
  const hn::RebindToUnsigned<F> du;
  return hn::BitCast(F(), hn::ShiftLeft<16>(hn::BitCast(du, to_bfloat_bits(F(), x))));
}

HWY_INLINE void round_to(const float* from, std::size_t n, float* to) {
  const F d;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(rounded(hn::LoadU(d, from + i)), d, to + i);
  if (i < n) store_n(d, rounded(load_n(d, from + i, n - i)), to + i, n - i);
}

[[maybe_unused]] HWY_INLINE void round_to(const float* from, std::size_t n, BFloat16* to) {
  const F d;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(d, hn::LoadU(d, from + i), to + i);
  if (i < n) store_n(d, load_n(d, from + i, n - i), to + i, n - i);
}

void ProjectBf16(const ProjectBlock& b) {
  const auto pack = [](const float* from, std::size_t n, auto* to) HWY_ATTR { round_to(from, n, to); };
#if HWY_TARGET == HWY_AVX3
  if (has_pair_dots()) return dense<PairProducts, BFloat16>(b, pack);
#endif
  dense<FloatProducts<BFloat16>, BFloat16>(b, pack);
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(ProjectBf16);
void project_bf16(const ProjectBlock& block) noexcept {
  HWY_DYNAMIC_DISPATCH(ProjectBf16)(block);
}
}  // namespace locant::kernels
#endif
