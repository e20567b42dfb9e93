// SPDX-License-Identifier: Apache-2.0
// Names of the compiled instruction sets. AVX3_DL stands for AVX3 with dot products of bytes: no kernel is
// compiled for it (Highway 1.0.3 would let the compiler use AVX-VNNI there, which CPUs with AVX-512 may
// lack), those that gain from it ask has_byte_dots().
#include "kernels/targets.h"

#define HWY_WANT_AVX3_DL
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)
#include "hwy/highway.h"

namespace locant::kernels {

std::vector<Target> targets() {
  std::vector<Target> all;
  // Lower bits are better targets.
  for (const std::int64_t bit : hwy::SupportedAndGeneratedTargets())
    all.push_back({bit, hwy::TargetName(bit)});
  return all;
}

void use_only_target(const Target& target) {
  hwy::SetSupportedTargetsForTest(target.bit == HWY_AVX3_DL ? HWY_AVX3_DL | HWY_AVX3 : target.bit);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

void use_best_target() {
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

bool has_byte_dots() noexcept {
#if HWY_ARCH_X86 && (HWY_TARGETS & HWY_AVX3_DL)
  constexpr auto kIndex = static_cast<std::uint64_t>(HWY_CHOSEN_TARGET_SHIFT(HWY_AVX3_DL));
  return hwy::GetChosenTarget().GetIndex() == hwy::Num0BitsBelowLS1Bit_Nonzero64(kIndex);
#else
  return false;
#endif
}

bool has_pair_dots() noexcept {
#if HWY_ARCH_X86
  return has_byte_dots() && __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace locant::kernels
