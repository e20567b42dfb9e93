// SPDX-License-Identifier: Apache-2.0
// Linear layers and the language-model head: rules, then blocks of tokens x rows.
#include <algorithm>

#include "kernels/project.h"
#include "locant/ops.h"
#include "ops/check.h"

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

using Kernel = void (*)(const kernels::ProjectBlock&) noexcept;

Kernel kernel_of(const ProjectCall& call) noexcept {
  if (!call.weight.blocks) return kernels::project;
  return call.activations == Activations::int8 ? kernels::project_int8 : kernels::project_blocks;
}

// Rows of a piece, which no bit depends on. Every piece in whole numbers rounds x again, so it is as large as
// its sums have room and two pieces a thread allow.
std::int64_t rows_of_piece(Kernel kernel, std::int64_t rows, std::int64_t tokens, int threads) noexcept {
  constexpr std::int64_t kRows = kernels::kProjectRows;
  if (kernel != kernels::project_int8) return kRows;
  const std::int64_t token_cuts = ceil_div(tokens, kernels::kProjectTokens);
  const std::int64_t cuts = threads == 1 ? 1 : ceil_div(2 * std::int64_t{threads}, token_cuts);
  const std::int64_t room = kernels::kInt8Sums / std::min(tokens, kernels::kProjectTokens) / kRows * kRows;
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
  Kernel kernel;
  std::int64_t tokens;  // cuts of them
  std::int64_t rows_each;
  std::int64_t pieces;

  Cuts(const ProjectCall& call, int threads) noexcept
      : kernel(kernel_of(call)),
        tokens(ceil_div(call.x.extent(0), kernels::kProjectTokens)),
        rows_each(call.out.empty() ? 1 : rows_of_piece(kernel, call.weight.rows, call.x.extent(0), threads)),
        pieces(tokens * ceil_div(call.weight.rows, rows_each)) {}
};

void run_piece(const ProjectCall& call, const Cuts& cuts, std::int64_t piece) noexcept {
  constexpr std::int64_t kTokens = kernels::kProjectTokens;
  const std::int64_t t = piece % cuts.tokens * kTokens;
  const std::int64_t n = piece / cuts.tokens * cuts.rows_each;
  float* out = call.out.data_handle() + t * call.out.stride(0) + n;
  cuts.kernel({.x = call.x.data_handle() + t * call.x.stride(0),
               .x_stride = call.x.stride(0),
               .weight = row_of(call.weight, n),
               .dtype = call.weight.dtype,
               .type = call.weight.blocks.value_or(GgmlType::f32),
               .weight_stride = call.weight.row_stride,
               .tokens = std::min(kTokens, call.x.extent(0) - t),
               .rows = std::min(cuts.rows_each, call.weight.rows - n),
               .columns = call.weight.columns,
               .bias = call.bias.empty() ? nullptr : call.bias.data_handle() + n * call.bias.stride(0),
               .bias_stride = call.bias.stride(0),
               .scale = call.scale,
               .added = call.write == Write::add ? out : nullptr,
               .out = out,
               .out_stride = call.out.stride(0)});
}

}  // namespace

std::string_view name_of(Activations activations) noexcept {
  return activations == Activations::int8 ? "int8" : "f32";
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
