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

void check_apart(const ProjectCall& writer, const ProjectCall& other) {
  const Extent out = extent_of(writer.out);
  if (overlap(extent_of(other.x), out)) fail("project: out overlaps x of another call");
  if (overlap(extent_of(other.weight), out)) fail("project: out overlaps the weight of another call");
  if (overlap(extent_of(other.bias), out)) fail("project: out overlaps bias of another call");
  if (overlap(extent_of(other.out), out)) fail("project: out overlaps out of another call");
}

// How a call is cut into tokens x rows.
struct Cuts {
  ProductKernel kernel;
  std::int64_t tokens;  // cuts of them
  std::int64_t rows_each;
  std::int64_t pieces;

  Cuts(const ProjectCall& call, int threads) noexcept
      : kernel(product_kernel(call.weight, call.activations, call.x.extent(0))),
        tokens(ceil_div(call.x.extent(0), kernels::kProjectTokens)),
        rows_each(call.out.empty() ? 1 : rows_of_piece(kernel, call.weight.rows, call.x.extent(0), threads)),
        pieces(tokens * ceil_div(call.weight.rows, rows_each)) {}
};

void run_piece(const ProjectCall& call, const Cuts& cuts, std::int64_t piece) noexcept {
  constexpr std::int64_t kTokens = kernels::kProjectTokens;
  const std::int64_t t = piece % cuts.tokens * kTokens;
  const std::int64_t n = piece / cuts.tokens * cuts.rows_each;
  kernels::ProjectBlock block = product_block(call.x, call.weight, call.bias,
                                              {.token = t,
                                               .tokens = std::min(kTokens, call.x.extent(0) - t),
                                               .row = n,
                                               .rows = std::min(cuts.rows_each, call.weight.rows - n)});
  block.scale = call.scale;
  block.out = call.out.data_handle() + t * call.out.stride(0) + n;
  block.out_stride = call.out.stride(0);
  if (call.write == Write::add) block.added = block.out;
  cuts.kernel(block);
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
  project(std::span(&call, 1), pool);
}

void project(std::span<const ProjectCall> calls, ThreadPool& pool) {
  for (const ProjectCall& call : calls) check_project(call);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (std::size_t j = 0; j < calls.size(); ++j) {
      if (i != j) check_apart(calls[i], calls[j]);
    }
  }
  std::int64_t pieces = 0;
  std::int64_t work = 0;
  for (const ProjectCall& call : calls) {
    pieces += Cuts(call, pool.size()).pieces;
    work += call.x.extent(0) * call.weight.rows * call.weight.columns / 4;
  }
  const auto body = [&](std::int64_t piece) {
    for (const ProjectCall& call : calls) {
      const Cuts cuts(call, pool.size());
      if (piece < cuts.pieces) return run_piece(call, cuts, piece);
      piece -= cuts.pieces;
    }
  };
  run_pieces(pool, pieces, work, body);
}

}  // namespace locant
