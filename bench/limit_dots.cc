// SPDX-License-Identifier: Apache-2.0
#include "limit_dots.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace locant::bench {

#if defined(__x86_64__)
namespace {

// ldtilecfg reads all 64 bytes: the operand is the whole struct, else the shapes may never be written.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14]{};
  std::uint16_t row_bytes[16]{64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16]{16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

constexpr std::int64_t kTileBytes = 1024;
struct alignas(64) Tiles {
  std::uint8_t bytes[4 * kTileBytes]{};
};

bool kernel_gives_tiles() noexcept {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

DotSupport dot_support() noexcept {
  DotSupport found;
  unsigned a = 0, b = 0, c = 0, d = 0;
  found.vpmaddubsw = __builtin_cpu_supports("avx2") != 0;
  const bool wide = __builtin_cpu_supports("avx512bw") != 0;
  if (wide && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    found.vpdpbusd = (c >> 11 & 1U) != 0;
    const bool tiles = (d >> 24 & 1U) != 0 && kernel_gives_tiles();
    found.amx_bf16 = tiles && (d >> 22 & 1U) != 0;
    found.amx_int8 = tiles && (d >> 25 & 1U) != 0;
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

__attribute__((target("amx-tile,amx-bf16"))) double amx_bf16_work(std::int64_t rounds, float* sink) noexcept {
  const TileShapes shapes;
  const Tiles tiles;
  const std::int64_t stride = 64;
  asm volatile("ldtilecfg %0" ::"m"(shapes));
  asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::);
  for (std::int64_t i = 0; i < rounds; ++i) {
    asm volatile(
        "tileloadd (%0,%1,1), %%tmm4\n\t"
        "tileloadd 1024(%0,%1,1), %%tmm5\n\t"
        "tileloadd 2048(%0,%1,1), %%tmm6\n\t"
        "tileloadd 3072(%0,%1,1), %%tmm7\n\t"
        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
        "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
        "tdpbf16ps %%tmm7, %%tmm5, %%tmm3"
        :
        : "r"(tiles.bytes), "r"(stride), "m"(tiles));
  }
  asm volatile("tilerelease" ::);
  *sink += static_cast<float>(rounds);
  return static_cast<double>(rounds) * 4 * 2 * 16 * 16 * 32;
}

__attribute__((target("amx-tile,amx-int8"))) double amx_int8_work(std::int64_t rounds, float* sink) noexcept {
  const TileShapes shapes;
  const Tiles tiles;
  const std::int64_t stride = 64;
  asm volatile("ldtilecfg %0" ::"m"(shapes));
  asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::);
  for (std::int64_t i = 0; i < rounds; ++i) {
    asm volatile(
        "tileloadd (%0,%1,1), %%tmm4\n\t"
        "tileloadd 1024(%0,%1,1), %%tmm5\n\t"
        "tileloadd 2048(%0,%1,1), %%tmm6\n\t"
        "tileloadd 3072(%0,%1,1), %%tmm7\n\t"
        "tdpbusd %%tmm6, %%tmm4, %%tmm0\n\t"
        "tdpbusd %%tmm7, %%tmm4, %%tmm1\n\t"
        "tdpbusd %%tmm6, %%tmm5, %%tmm2\n\t"
        "tdpbusd %%tmm7, %%tmm5, %%tmm3"
        :
        : "r"(tiles.bytes), "r"(stride), "m"(tiles));
  }
  asm volatile("tilerelease" ::);
  *sink += static_cast<float>(rounds);
  return static_cast<double>(rounds) * 4 * 2 * 16 * 16 * 64;
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
