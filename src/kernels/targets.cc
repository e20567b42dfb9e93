// SPDX-License-Identifier: Apache-2.0
// Names of the compiled instruction sets. AVX3_DL stands for AVX3 with dot products of bytes: no kernel is
// compiled for it (Highway 1.0.3 would let the compiler use AVX-VNNI there, which CPUs with AVX-512 may
// lack), those that gain from it ask has_byte_dots().
#include "kernels/targets.h"

#define HWY_WANT_AVX3_DL
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)
#include "hwy/highway.h"

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

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
  static const bool has = [] {
    constexpr unsigned kFeatures = 7;
    constexpr unsigned kAvx512Bf16 = 1U << 5;  // EAX of subleaf 1
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid_count(kFeatures, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvx512Bf16) != 0;
  }();
  return has && has_byte_dots();
#else
  return false;
#endif
}

}  // namespace locant::kernels
