// SPDX-License-Identifier: Apache-2.0
// Rotation of heads by tables: rules, then blocks of tokens.
#include "ops/rotate.h"

#include <algorithm>

namespace locant {
namespace rotate_ops {

using namespace check_ops;

kernels::Layout layout(Pairing pairing) noexcept {
  return pairing == Pairing::half ? kernels::Layout::half : kernels::Layout::interleaved;
}

void check_tables(std::string_view who, const Tables& tables, std::int64_t tokens, std::int64_t head_dim) {
  const std::int64_t pairs = tables.cos.extent(1);
  has_shape(who, "cos", tables.cos, {{tokens, pairs}, {"tokens", "pairs"}});
  has_shape(who, "sin", tables.sin, {{tokens, pairs}, {"tokens", "pairs"}});
  readable(who, "cos", tables.cos);
  readable(who, "sin", tables.sin);
  const std::int64_t offset = tables.shape.offset;
  if (offset < 0 || offset > head_dim || pairs > (head_dim - offset) / 2)
    fail("{}: channels {} to {} are outside head_dim {}", who, offset, offset + 2 * pairs, head_dim);
}

void check_in_place(std::string_view who, const Tables& tables) {
  const std::int64_t width = 2 * tables.cos.extent(1);
  if (tables.shape.read != tables.shape.write && width > kernels::kRotateInPlaceWidth)
    fail("{}: in place from one pairing to the other holds {} channels at most, width is {}", who,
         kernels::kRotateInPlaceWidth, width);
}

}  // namespace rotate_ops

namespace {

using namespace check_ops;
using namespace rotate_ops;

template <class T>
void check_rotate(const RotateCall<T>& call) {
  const View<const T, 3>& x = call.x;
  const Tables tables{call.cos, call.sin, call.shape};
  readable("rotate", "x", x);
  has_shape("rotate", "out", call.out, {x.shape(), {"tokens", "heads", "head_dim"}});
  writable("rotate", "out", call.out);
  check_tables("rotate", tables, x.extent(0), x.extent(2));
  const bool in_place = same_place(x, call.out);
  const Extent out = extent_of(call.out);
  if (!in_place && overlap(extent_of(x), out))
    fail("rotate: out overlaps x, expected x itself or other memory");
  if (overlap(extent_of(call.cos), out) || overlap(extent_of(call.sin), out))
    fail("rotate: out overlaps the tables");
  if (in_place) check_in_place("rotate", tables);
}

template <class T>
void rotate_tokens(const RotateCall<T>& call, ThreadPool& pool) {
  check_rotate(call);
  if (call.x.empty()) return;
  kernels::RotateBlock<T> whole = block_of<T, T>(call.x, {call.cos, call.sin, call.shape});
  whole.out = call.out.data_handle();
  whole.out_token = call.out.stride(0);
  whole.out_head = call.out.stride(1);
  if (!same_place(call.x, call.out) && is_large<T>(call.x.size())) whole.stores = kernels::Stores::around;
  const std::int64_t tokens = tokens_of_piece(whole.heads * whole.head_dim);
  const auto body = [&](std::int64_t piece) { kernels::rotate(part_of(whole, piece * tokens, tokens)); };
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
