// SPDX-License-Identifier: Apache-2.0
// A block of out = scale * (x weight^T) + bias.
#pragma once

#include <cstdint>

#include "locant/core.h"

namespace locant::kernels {

/// Tokens and rows of one block at most; blocks of rows should be a multiple of 8.
inline constexpr std::int64_t kProjectTokens = 64;
inline constexpr std::int64_t kProjectRows = 64;
/// Tokens times rows (in whole 64) of one block of project_int8() at most: the more, the rarer is x rounded.
inline constexpr std::int64_t kInt8Sums = kProjectTokens * 256;
/// Rows of one block of project() and project_bf16() at most: the more, the rarer is x copied.
inline constexpr std::int64_t kDenseRows = 256;

/// x [tokens, columns], weight [rows, columns] (f32, f16, bf16; unaligned allowed), out [tokens, rows].
/// Sums over columns run in blocks of 1024 whatever the tile, so an element's bits depend on its row alone.
struct ProjectBlock {
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  const void* weight = nullptr;
  DType dtype = DType::f32;
  GgmlType type = GgmlType::f32;   ///< of blocks
  std::int64_t weight_stride = 0;  ///< elements; whole blocks
  std::int64_t tokens = 0;
  std::int64_t rows = 0;
  std::int64_t following = 0;  ///< rows of the weight behind the block, which may be asked for
  std::int64_t columns = 0;
  const float* bias = nullptr;  ///< [rows] with stride, or null
  std::int64_t bias_stride = 1;
  float scale = 1;
  const float* added = nullptr;  ///< out itself, or null when out is replaced
  float* out = nullptr;
  std::int64_t out_stride = 0;
};
void project(const ProjectBlock& block) noexcept;

/// As project() with x rounded to bf16 and a weight of bf16. Where has_pair_dots(), products are summed in
/// pairs by vdpbf16ps, which takes what is below 2^-126 for zero.
void project_bf16(const ProjectBlock& block) noexcept;

/// As project() with a weight of blocks of `type` instead of `dtype` (is_unpacked()): columns are whole
/// blocks.
void project_blocks(const ProjectBlock& block) noexcept;

/// As project_blocks() with x rounded to whole numbers: groups of 32 share the factor max |x| / 127; a group
/// whose largest |x| is below 2^-119 counts as zero, one that holds a NaN or an infinity makes its token's
/// row NaN.
void project_int8(const ProjectBlock& block) noexcept;

}  // namespace locant::kernels
