// SPDX-License-Identifier: Apache-2.0
// Linear layers and the language-model head: rules, then blocks of tokens x rows.
#include <algorithm>

#include "kernels/amx.h"
#include "kernels/project.h"
#include "locant/ops.h"
#include "ops/check.h"
#include "ops/product.h"

namespace locant {
namespace {

using namespace check_ops;

void check_project(const ProjectCall& call) {
  readable("project", "x", call.x);
  weight("project", "weight", call.weight);
  if (call.weight.columns == 0)
    fail("project: weight is [{},0], expected at least one column", call.weight.rows);
  if (call.x.extent(1) != call.weight.columns)
    fail("project: x is {}, expected [tokens, columns={}]", text(call.x), call.weight.columns);
  has_shape("project", "out", call.out, {{call.x.extent(0), call.weight.rows}, {"tokens", "rows"}});
  writable("project", "out", call.out);
  if (call.bias.data_handle() != nullptr || !call.bias.empty()) {
    vector("project", "bias", call.bias, call.weight.rows, "rows");
  }
  const Extent out = extent_of(call.out);
  if (overlap(extent_of(call.x), out)) fail("project: out overlaps x");
  if (overlap(extent_of(call.weight), out)) fail("project: out overlaps the weight");
  if (overlap(extent_of(call.bias), out)) fail("project: out overlaps bias");
}

// Fewer tokens leave more than half of a tile's columns empty.
constexpr std::int64_t kTileTokens = 8;

// Rows of a piece, which no bit depends on. Every piece rounds or copies x again, so it is as large as its
// sums have room and a few pieces a thread allow.
std::int64_t rows_of_piece(ProductKernel kernel, std::int64_t rows, std::int64_t tokens,
                           int threads) noexcept {
  constexpr std::int64_t kRows = kernels::kProjectRows;
  if (kernel == kernels::project_blocks) return kRows;
  static_assert(kernels::kDenseRows <= kernels::kAmxRows);
  const bool whole = kernel == kernels::project_int8;
  const std::int64_t token_cuts = ceil_div(tokens, kernels::kProjectTokens);
  const std::int64_t cuts = threads == 1 ? 1 : ceil_div((whole ? 2 : 4) * std::int64_t{threads}, token_cuts);
  const std::int64_t room =
      whole ? kernels::kInt8Sums / std::min(tokens, kernels::kProjectTokens) / kRows * kRows
            : kernels::kDenseRows;
  return std::min(room, ceil_div(ceil_div(rows, cuts), kRows) * kRows);
}

}  // namespace

std::string_view name_of(Activations activations) noexcept {
  if (activations == Activations::int8) return "int8";
  return activations == Activations::bf16 ? "bf16" : "f32";
}

ProductKernel product_kernel(const Matrix& weight, Activations activations, std::int64_t tokens) noexcept {
  if (weight.blocks)
    return activations == Activations::int8 ? kernels::project_int8 : kernels::project_blocks;
  const bool narrow = weight.dtype == DType::bf16;
  const bool rounds = narrow && activations == Activations::bf16;
  if (narrow && tokens >= kTileTokens && kernels::amx_units().bf16)
    return rounds ? kernels::project_amx_rounded : kernels::project_amx;
  return rounds ? kernels::project_bf16 : kernels::project;
}

kernels::ProjectBlock product_block(View<const float, 2> x, const Matrix& weight, View<const float, 1> bias,
                                    const BlockAt& at) noexcept {
  return {.x = x.data_handle() + at.token * x.stride(0),
          .x_stride = x.stride(0),
          .weight = row_of(weight, at.row),
          .dtype = weight.dtype,
          .type = weight.blocks.value_or(GgmlType::f32),
          .weight_stride = weight.row_stride,
          .tokens = at.tokens,
          .rows = at.rows,
          .following = weight.rows - at.row - at.rows,
          .columns = weight.columns,
          .bias = bias.empty() ? nullptr : bias.data_handle() + at.row * bias.stride(0),
          .bias_stride = bias.stride(0)};
}

void project(const ProjectCall& call, ThreadPool& pool) {
  check_project(call);
  if (call.out.empty()) return;
  const std::int64_t tokens = call.x.extent(0);
  const std::int64_t rows = call.weight.rows;
  constexpr std::int64_t kTokens = kernels::kProjectTokens;
  const ProductKernel kernel = product_kernel(call.weight, call.activations, tokens);
  const std::int64_t token_cuts = ceil_div(tokens, kTokens);
  const std::int64_t rows_each = rows_of_piece(kernel, rows, tokens, pool.size());
  const auto body = [&](std::int64_t piece) {
    const std::int64_t t = piece % token_cuts * kTokens;
    const std::int64_t n = piece / token_cuts * rows_each;
    kernels::ProjectBlock block = product_block(call.x, call.weight, call.bias,
                                                {.token = t,
                                                 .tokens = std::min(kTokens, tokens - t),
                                                 .row = n,
                                                 .rows = std::min(rows_each, rows - n)});
    block.scale = call.scale;
    block.out = call.out.data_handle() + t * call.out.stride(0) + n;
    block.out_stride = call.out.stride(0);
    if (call.write == Write::add) block.added = block.out;
    kernel(block);
  };
  run_pieces(pool, token_cuts * ceil_div(rows, rows_each), tokens * rows * call.weight.columns / 4, body);
}

}  // namespace locant
