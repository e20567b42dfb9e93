// SPDX-License-Identifier: Apache-2.0
// The tile registers of AMX: whether they may be used, and products in them (amx-inl.h).
#include "kernels/amx.h"

#include "kernels/targets-inl.h"
#include "kernels/targets.h"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/amx.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/amx-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// Never called on the other targets: amx_units() is empty there.
template <int Parts>
HWY_INLINE void project_in_unit(const ProjectBlock& b) {
#if HWY_TARGET == HWY_AVX3
  HardwareTiles tiles;
  project_in_tiles<Parts>(b, tiles);
#else
  project(b);
#endif
}

void ProjectAmx(const ProjectBlock& b) {
  project_in_unit<3>(b);
}
void ProjectAmxRounded(const ProjectBlock& b) {
  project_in_unit<1>(b);
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
namespace {

#if defined(__x86_64__) && defined(__linux__)
struct Cpuid {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
Cpuid cpuid(unsigned leaf) noexcept {
  Cpuid got;
  asm volatile("cpuid" : "=a"(got.a), "=b"(got.b), "=c"(got.c), "=d"(got.d) : "a"(leaf), "c"(0));
  return got;
}

AmxUnits permitted_units() noexcept {
  if (cpuid(0).a < 7 || (cpuid(1).c & (1U << 27)) == 0) return {};  // OSXSAVE
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileState = 3U << 17;
  if ((low & kTileState) != kTileState) return {};
  const unsigned offered = cpuid(7).d;
  if ((offered & (1U << 24)) == 0) return {};
  constexpr long kRequest = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  if (syscall(SYS_arch_prctl, kRequest, kTileData) != 0) return {};
  return {.bf16 = (offered & (1U << 22)) != 0, .bytes = (offered & (1U << 25)) != 0};
}
#else
AmxUnits permitted_units() noexcept {
  return {};
}
#endif

}  // namespace

AmxUnits amx_units() noexcept {
  static const AmxUnits units = permitted_units();
  // CPUs with tiles have byte dots, which the best target alone offers.
  return has_byte_dots() ? units : AmxUnits{};
}

HWY_EXPORT(ProjectAmx);
HWY_EXPORT(ProjectAmxRounded);
void project_amx(const ProjectBlock& block) noexcept {
  HWY_DYNAMIC_DISPATCH(ProjectAmx)(block);
}
void project_amx_rounded(const ProjectBlock& block) noexcept {
  HWY_DYNAMIC_DISPATCH(ProjectAmxRounded)(block);
}

}  // namespace locant::kernels
#endif
