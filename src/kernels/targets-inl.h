// SPDX-License-Identifier: Apache-2.0
// Included before any Highway header: register tiles are arrays of vectors, which targets with vectors of
// unknown size cannot have, so these are left out. On x86, SSSE3 adds nothing beside SSE4 to what the kernels
// use; each target left out is a fifth of the time to compile. AVX3_DL: see targets.cc.
#ifndef LOCANT_KERNELS_TARGETS_INL_H_
#define LOCANT_KERNELS_TARGETS_INL_H_
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL)
#endif
