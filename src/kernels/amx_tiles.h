// SPDX-License-Identifier: Apache-2.0
// The tile registers of AMX, eight of up to 16 rows of 64 bytes: the unit itself, its instructions by name,
// and the same in plain C++, with which the kernels are tested on CPUs without it. C is [16][16] of f32 or
// i32, A [16][K], B holds K / 2 rows of pairs (bf16) or K / 4 rows of fours (bytes) of 16 columns.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (TDPBF16PS, TDPBSUD).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "locant/core.h"

namespace locant::kernels {

/// What LDTILECFG reads.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

/// Eight whole tiles.
[[nodiscard]] constexpr TileConfig whole_tiles() noexcept {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = 16;
  }
  return config;
}

#if defined(__x86_64__)
/// Needs amx_units(). The configuration is an operand of 64 bytes, all of which the compiler must see used.
struct HardwareTiles {
  void configure(const TileConfig& config) noexcept { asm volatile("ldtilecfg %0" : : "m"(config)); }
  void release() noexcept { asm volatile("tilerelease"); }
  template <int T>
  void zero() noexcept {
    asm volatile("tilezero %%tmm%c0" : : "i"(T));
  }
  template <int T>
  void load(const void* from, std::size_t stride) noexcept {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(T), "r"(from), "r"(stride) : "memory");
  }
  template <int T>
  void store(void* to, std::size_t stride) noexcept {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(T), "r"(to), "r"(stride) : "memory");
  }
  /// C += A B of bf16; subnormals count as zero.
  template <int C, int A, int B>
  void add_bf16() noexcept {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }
  /// C += A B of signed by unsigned bytes.
  template <int C, int A, int B>
  void add_bytes() noexcept {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }
};
#endif

/// The same answers, bit for bit.
class EmulatedTiles {
 public:
  void configure(const TileConfig& config) noexcept { config_ = config; }
  void release() noexcept {}
  template <int T>
  void zero() noexcept {
    std::memset(tile_[T], 0, sizeof(tile_[T]));
  }
  template <int T>
  void load(const void* from, std::size_t stride) noexcept {
    zero<T>();
    for (std::size_t r = 0; r < config_.rows[T]; ++r)
      std::memcpy(tile_[T][r], static_cast<const std::byte*>(from) + r * stride, config_.row_bytes[T]);
  }
  template <int T>
  void store(void* to, std::size_t stride) noexcept {
    for (std::size_t r = 0; r < config_.rows[T]; ++r)
      std::memcpy(static_cast<std::byte*>(to) + r * stride, tile_[T][r], config_.row_bytes[T]);
  }
  template <int C, int A, int B>
  void add_bf16() noexcept {
    for (std::size_t m = 0; m < config_.rows[C]; ++m) {
      for (std::size_t n = 0; n < config_.row_bytes[C] / 4U; ++n) {
        // Elements of even and of odd k are summed apart.
        float even = 0, odd = 0;
        for (std::size_t k = 0; k < config_.row_bytes[A] / 4U; ++k) {
          even = flushed(std::fma(wide(tile_[A][m], 2 * k), wide(tile_[B][k], 2 * n), even));
          odd = flushed(std::fma(wide(tile_[A][m], 2 * k + 1), wide(tile_[B][k], 2 * n + 1), odd));
        }
        float sum = 0;
        std::memcpy(&sum, tile_[C][m] + 4 * n, sizeof(sum));
        sum = flushed(flushed(sum) + flushed(even + odd));
        std::memcpy(tile_[C][m] + 4 * n, &sum, sizeof(sum));
      }
    }
  }
  template <int C, int A, int B>
  void add_bytes() noexcept {
    for (std::size_t m = 0; m < config_.rows[C]; ++m) {
      for (std::size_t n = 0; n < config_.row_bytes[C] / 4U; ++n) {
        std::int32_t sum = 0;
        std::memcpy(&sum, tile_[C][m] + 4 * n, sizeof(sum));
        for (std::size_t k = 0; k < config_.row_bytes[A]; ++k) {
          const auto a = static_cast<std::int8_t>(tile_[A][m][k]);
          const auto b = static_cast<std::uint8_t>(tile_[B][k / 4][4 * n + k % 4]);
          sum += std::int32_t{a} * std::int32_t{b};
        }
        std::memcpy(tile_[C][m] + 4 * n, &sum, sizeof(sum));
      }
    }
  }

 private:
  static float flushed(float x) noexcept { return std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }
  static float wide(const std::byte* row, std::size_t i) noexcept {
    BFloat16 x{};
    std::memcpy(&x, row + 2 * i, sizeof(x));
    return flushed(f32_from(x));
  }

  TileConfig config_{};
  std::byte tile_[8][16][64] = {};
};

}  // namespace locant::kernels
