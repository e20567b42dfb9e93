// SPDX-License-Identifier: Apache-2.0
// Loops of dot products beyond what the kernels' targets name. Each returns the operations done, two for
// every product that is added.
#pragma once

#include <cstdint>

namespace locant::bench {

struct DotSupport {
  bool vpmaddubsw = false;
  bool vpdpbusd = false;
  bool vdpbf16ps = false;
  bool amx_bf16 = false;
  bool amx_int8 = false;
};
/// What CPU and kernel offer; asks the kernel for the tiles' memory.
[[nodiscard]] DotSupport dot_support() noexcept;

[[nodiscard]] double vpmaddubsw_work(std::int64_t rounds, float* sink) noexcept;
[[nodiscard]] double vpdpbusd_work(std::int64_t rounds, float* sink) noexcept;
[[nodiscard]] double vdpbf16ps_work(std::int64_t rounds, float* sink) noexcept;
/// Four tile loads from the first cache for four tile products, as a kernel needs them.
[[nodiscard]] double amx_bf16_work(std::int64_t rounds, float* sink) noexcept;
[[nodiscard]] double amx_int8_work(std::int64_t rounds, float* sink) noexcept;

}  // namespace locant::bench
