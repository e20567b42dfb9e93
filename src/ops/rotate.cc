// SPDX-License-Identifier: Apache-2.0
// Rotation of heads by tables: rules, then blocks of tokens.
#include <algorithm>

#include "kernels/rotate.h"
#include "locant/ops.h"
#include "ops/check.h"

namespace locant {
namespace {

using namespace check_ops;

kernels::Layout layout(Pairing pairing) {
  return pairing == Pairing::half ? kernels::Layout::half : kernels::Layout::interleaved;
}

template <class T>
void check_rotate(const RotateCall<T>& call) {
  const View<const T, 3>& x = call.x;
  readable("rotate", "x", x);
  has_shape("rotate", "out", call.out, {x.shape(), {"tokens", "heads", "head_dim"}});
  writable("rotate", "out", call.out);
  const std::int64_t pairs = call.cos.extent(1);
  has_shape("rotate", "cos", call.cos, {{x.extent(0), pairs}, {"tokens", "pairs"}});
  has_shape("rotate", "sin", call.sin, {{x.extent(0), pairs}, {"tokens", "pairs"}});
  readable("rotate", "cos", call.cos);
  readable("rotate", "sin", call.sin);
  const std::int64_t offset = call.shape.offset;
  if (offset < 0 || offset > x.extent(2) || pairs > (x.extent(2) - offset) / 2)
    fail("rotate: channels {} to {} are outside head_dim {}", offset, offset + 2 * pairs, x.extent(2));
  const bool in_place = same_place(x, call.out);
  const Extent out = extent_of(call.out);
  if (!in_place && overlap(extent_of(x), out))
    fail("rotate: out overlaps x, expected x itself or other memory");
  if (overlap(extent_of(call.cos), out) || overlap(extent_of(call.sin), out))
    fail("rotate: out overlaps the tables");
  if (in_place && call.shape.read != call.shape.write && 2 * pairs > kernels::kRotateInPlaceWidth)
    fail("rotate: in place from one pairing to the other holds {} channels at most, width is {}",
         kernels::kRotateInPlaceWidth, 2 * pairs);
}

template <class T>
void rotate_tokens(const RotateCall<T>& call, ThreadPool& pool) {
  check_rotate(call);
  if (call.x.empty()) return;
  kernels::RotateBlock<T> whole{.x = call.x.data_handle(),
                                .x_token = call.x.stride(0),
                                .x_head = call.x.stride(1),
                                .out = call.out.data_handle(),
                                .out_token = call.out.stride(0),
                                .out_head = call.out.stride(1),
                                .cos = call.cos.data_handle(),
                                .cos_token = call.cos.stride(0),
                                .sin = call.sin.data_handle(),
                                .sin_token = call.sin.stride(0),
                                .tokens = call.x.extent(0),
                                .heads = call.x.extent(1),
                                .head_dim = call.x.extent(2),
                                .offset = call.shape.offset,
                                .pairs = call.cos.extent(1),
                                .read = layout(call.shape.read),
                                .write = layout(call.shape.write),
                                .sign = call.shape.direction == Direction::forward ? 1.0f : -1.0f};
  const std::int64_t tokens = std::max<std::int64_t>(1, 16384 / (whole.heads * whole.head_dim));
  const auto body = [&](std::int64_t piece) {
    kernels::RotateBlock<T> block = whole;
    const std::int64_t first = piece * tokens;
    block.tokens = std::min(tokens, whole.tokens - first);
    block.x += first * whole.x_token;
    block.out += first * whole.out_token;
    block.cos += first * whole.cos_token;
    block.sin += first * whole.sin_token;
    kernels::rotate(block);
  };
  run_pieces(pool, ceil_div(whole.tokens, tokens), call.x.size(), body);
}

}  // namespace

void rotate(const RotateCall<float>& call, ThreadPool& pool) {
  rotate_tokens(call, pool);
}
void rotate(const RotateCall<Half>& call, ThreadPool& pool) {
  rotate_tokens(call, pool);
}
void rotate(const RotateCall<BFloat16>& call, ThreadPool& pool) {
  rotate_tokens(call, pool);
}

}  // namespace locant
