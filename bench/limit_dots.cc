// SPDX-License-Identifier: Apache-2.0
#include "limit_dots.h"

#include "kernels/amx.h"
#include "kernels/amx_tiles.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace locant::bench {

#if defined(__x86_64__)
DotSupport dot_support() noexcept {
  DotSupport found;
  unsigned a = 0, b = 0, c = 0, d = 0;
  found.vpmaddubsw = __builtin_cpu_supports("avx2") != 0;
  const bool wide = __builtin_cpu_supports("avx512bw") != 0;
  if (wide && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    found.vpdpbusd = (c >> 11 & 1U) != 0;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) found.vdpbf16ps = (a >> 5 & 1U) != 0;
  }
  return found;
}

// Independent chains hide the latency of two pipes. Whole loops in fixed registers: left to the compiler,
// sums go through memory.
constexpr int kChains = 10, kWideChains = 24;

__attribute__((target("avx2"))) double vpmaddubsw_work(std::int64_t rounds, float* sink) noexcept {
  asm volatile(
      "vpcmpeqd %%ymm15, %%ymm15, %%ymm15\n\t"
      "vpabsw %%ymm15, %%ymm14\n\t"
      "vpabsb %%ymm15, %%ymm13" ::
          : "xmm13", "xmm14", "xmm15");
  for (std::int64_t i = 0; i < rounds; ++i) {
    asm volatile(
        "vpmaddubsw %%ymm13, %%ymm13, %%ymm12; vpmaddwd %%ymm14, %%ymm12, %%ymm12; vpaddd %%ymm12, %%ymm0, "
        "%%ymm0\n\t"
        "vpmaddubsw %%ymm13, %%ymm13, %%ymm12; vpmaddwd %%ymm14, %%ymm12, %%ymm12; vpaddd %%ymm12, %%ymm1, "
        "%%ymm1\n\t"
        "vpmaddubsw %%ymm13, %%ymm13, %%ymm12; vpmaddwd %%ymm14, %%ymm12, %%ymm12; vpaddd %%ymm12, %%ymm2, "
        "%%ymm2\n\t"
        "vpmaddubsw %%ymm13, %%ymm13, %%ymm12; vpmaddwd %%ymm14, %%ymm12, %%ymm12; vpaddd %%ymm12, %%ymm3, "
        "%%ymm3\n\t"
        "vpmaddubsw %%ymm13, %%ymm13, %%ymm12; vpmaddwd %%ymm14, %%ymm12, %%ymm12; vpaddd %%ymm12, %%ymm4, "
        "%%ymm4\n\t"
        "vpmaddubsw %%ymm13, %%ymm13, %%ymm12; vpmaddwd %%ymm14, %%ymm12, %%ymm12; vpaddd %%ymm12, %%ymm5, "
        "%%ymm5\n\t"
        "vpmaddubsw %%ymm13, %%ymm13, %%ymm12; vpmaddwd %%ymm14, %%ymm12, %%ymm12; vpaddd %%ymm12, %%ymm6, "
        "%%ymm6\n\t"
        "vpmaddubsw %%ymm13, %%ymm13, %%ymm12; vpmaddwd %%ymm14, %%ymm12, %%ymm12; vpaddd %%ymm12, %%ymm7, "
        "%%ymm7\n\t"
        "vpmaddubsw %%ymm13, %%ymm13, %%ymm12; vpmaddwd %%ymm14, %%ymm12, %%ymm12; vpaddd %%ymm12, %%ymm8, "
        "%%ymm8\n\t"
        "vpmaddubsw %%ymm13, %%ymm13, %%ymm12; vpmaddwd %%ymm14, %%ymm12, %%ymm12; vpaddd %%ymm12, %%ymm9, "
        "%%ymm9" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
              "xmm11", "xmm12", "xmm13", "xmm14");
  }
  *sink += static_cast<float>(rounds);
  return static_cast<double>(rounds) * kChains * 2 * 32;
}

__attribute__((target("avx512f,avx512vnni"))) double vpdpbusd_work(std::int64_t rounds,
                                                                   float* sink) noexcept {
  for (std::int64_t i = 0; i < rounds; ++i) {
    asm volatile(
        "vpdpbusd %%zmm31, %%zmm30, %%zmm0\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm1\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm2\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm3\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm4\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm5\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm6\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm7\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm8\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm9\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm10\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm11\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm12\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm13\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm14\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm15\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm16\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm17\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm18\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm19\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm20\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm21\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm22\n\t"
        "vpdpbusd %%zmm31, %%zmm30, %%zmm23" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
              "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20",
              "xmm21", "xmm22", "xmm23", "xmm30", "xmm31");
  }
  *sink += static_cast<float>(rounds);
  return static_cast<double>(rounds) * kWideChains * 2 * 64;
}

__attribute__((target("avx512f,avx512bw,avx512bf16"))) double vdpbf16ps_work(std::int64_t rounds,
                                                                             float* sink) noexcept {
  // ordinary numbers: what lies in the registers may be NaN or subnormal
  asm volatile(
      "vpternlogd $255, %%zmm31, %%zmm31, %%zmm31\n\t"
      "vpsrlw $9, %%zmm31, %%zmm31\n\t"
      "vpsllw $7, %%zmm31, %%zmm31" ::
          : "xmm31");
  for (std::int64_t i = 0; i < rounds; ++i) {
    asm volatile(
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm0\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm1\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm2\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm3\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm4\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm5\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm6\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm7\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm8\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm9\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm10\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm11\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm12\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm13\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm14\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm15\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm16\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm17\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm18\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm19\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm20\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm21\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm22\n\t"
        "vdpbf16ps %%zmm31, %%zmm31, %%zmm23" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
              "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20",
              "xmm21", "xmm22", "xmm23", "xmm31");
  }
  *sink += static_cast<float>(rounds);
  return static_cast<double>(rounds) * kWideChains * 2 * 32;
}

namespace {

// Four products a round, multiply(tiles), with the loads of their four operands.
template <class Multiply>
double tile_work(std::int64_t rounds, std::int64_t columns, float* sink, Multiply multiply) noexcept {
  constexpr std::size_t kTileBytes = 1024, kRowBytes = 64;
  alignas(64) const std::uint8_t operands[4][kTileBytes] = {};
  kernels::HardwareTiles tiles;
  tiles.configure(kernels::whole_tiles());
  tiles.zero<0>();
  tiles.zero<1>();
  tiles.zero<2>();
  tiles.zero<3>();
  for (std::int64_t i = 0; i < rounds; ++i) {
    tiles.load<4>(operands[0], kRowBytes);
    tiles.load<5>(operands[1], kRowBytes);
    tiles.load<6>(operands[2], kRowBytes);
    tiles.load<7>(operands[3], kRowBytes);
    multiply(tiles);
  }
  tiles.release();
  *sink += static_cast<float>(rounds);
  return static_cast<double>(rounds * 4 * 2 * 16 * 16 * columns);
}

}  // namespace

double amx_bf16_work(std::int64_t rounds, float* sink) noexcept {
  return tile_work(rounds, 32, sink, [](kernels::HardwareTiles& tiles) {
    tiles.add_bf16<0, 4, 6>();
    tiles.add_bf16<1, 4, 7>();
    tiles.add_bf16<2, 5, 6>();
    tiles.add_bf16<3, 5, 7>();
  });
}

double amx_int8_work(std::int64_t rounds, float* sink) noexcept {
  return tile_work(rounds, 64, sink, [](kernels::HardwareTiles& tiles) {
    tiles.add_bytes<0, 4, 6>();
    tiles.add_bytes<1, 4, 7>();
    tiles.add_bytes<2, 5, 6>();
    tiles.add_bytes<3, 5, 7>();
  });
}

#else

DotSupport dot_support() noexcept {
  return {};
}
double vpmaddubsw_work(std::int64_t, float*) noexcept {
  return 0;
}
double vpdpbusd_work(std::int64_t, float*) noexcept {
  return 0;
}
double vdpbf16ps_work(std::int64_t, float*) noexcept {
  return 0;
}
double amx_bf16_work(std::int64_t, float*) noexcept {
  return 0;
}
double amx_int8_work(std::int64_t, float*) noexcept {
  return 0;
}

#endif

}  // namespace locant::bench
