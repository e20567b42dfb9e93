// SPDX-License-Identifier: Apache-2.0
// Attention over a cache: pieces of (call, kv head, block of rows, span of slots). The cut follows from the
// shapes alone. Few pieces with long caches are cut over slots, and their parts are merged in order.
#include <algorithm>

#include "kernels/attend.h"
#include "locant/ops.h"
#include "ops/attend.h"
#include "ops/check.h"

namespace locant {
namespace {

using namespace check_ops;
using namespace attend_ops;

kernels::SeenSlots seen_of(const AttendCall& call) {
  kernels::SeenSlots seen{.slots = slots_of(call)};
  const std::int64_t window = std::min(call.window, kernels::kAllSlots);
  if (call.sees == Sees::window) seen.back = window - 1;
  if (call.sees == Sees::chunk) seen.chunk = window;
  if (call.sees == Sees::all) seen.ahead = kernels::kAllSlots;
  if (call.sees == Sees::around) seen.back = seen.ahead = window;
  return seen;
}

// Slots that are too far to count are passed over.
bool passes_over(const AttendCall& call) {
  return !call.slopes.empty() && call.keys.norms != nullptr && call.relative.empty() && call.bias.empty() &&
         call.scores.data_handle() == nullptr;
}

// How one call is cut.
struct Cut {
  std::int64_t rows = 0;        // queries x heads of a group
  std::int64_t block_rows = 0;  // of one piece
  std::int64_t blocks = 0;
  std::int64_t spans = 1;
  std::int64_t span = 0;   // slots
  std::int64_t first = 0;  // slot that a query sees
  std::int64_t seen = 0;   // slots from there to the last that one sees
  kernels::SeenSlots mask;
  [[nodiscard]] std::int64_t pieces(const AttendCall& call) const { return call.keys.heads * blocks * spans; }
};

static_assert(kernels::kAttendTile == kNormSlots);

constexpr std::int64_t kEnoughPieces = 8;
constexpr std::int64_t kFewestRows = 48;  // of a block, where blocks are made smaller for more pieces

Cut cut(const AttendCall& call) {
  Cut c;
  c.rows = call.q.extent(0) * (call.q.extent(1) / call.keys.heads);
  const std::int64_t part = ceil_div(c.rows * call.keys.heads, kEnoughPieces);
  c.block_rows = std::min(kernels::attend_rows(call.keys.width, call.values.width),
                          std::max(kFewestRows, ceil_div(part, kFewestRows) * kFewestRows));
  c.blocks = ceil_div(c.rows, c.block_rows);
  c.mask = seen_of(call);
  c.first = c.mask.first(call.first_slot);
  c.seen = c.mask.end(call.first_slot + call.q.extent(0) - 1) - c.first;
  c.span = c.seen;
  return c;
}

constexpr std::int64_t kPartialFloats = 24576;

// Cuts the slots so that a call alone gives enough pieces, as far as the parts fit `room` floats.
void cut_slots(const AttendCall& call, std::int64_t units, std::int64_t room, Cut& c) {
  // A far span alone would not know what is near, and look at its slots.
  if (passes_over(call)) return;
  const std::int64_t part = call.keys.heads * c.rows * kernels::attend_partial(call.values.width);
  const std::int64_t steps = ceil_div(c.seen, kernels::kAttendSpan);
  const std::int64_t wanted = std::min({ceil_div(kEnoughPieces, units), steps, room / part});
  if (wanted < 2) return;
  c.span = ceil_div(steps, wanted) * kernels::kAttendSpan;
  c.spans = ceil_div(c.seen, c.span);
}

struct Piece {
  const AttendCall& call;
  const Cut& cut;
  std::int64_t index;
  float* partial;  // of the call, or null
};

kernels::AttendBlock block_of(const Piece& p) {
  const AttendCall& call = p.call;
  const std::int64_t span = p.index % p.cut.spans;
  const std::int64_t rest = p.index / p.cut.spans;
  const std::int64_t kv_head = rest % call.keys.heads;
  // The last queries see the most slots: they go first.
  const std::int64_t block = p.cut.blocks - 1 - rest / call.keys.heads;
  const std::int64_t group = call.q.extent(1) / call.keys.heads;
  const std::int64_t head = kv_head * group;
  kernels::AttendBlock b{
      .q = call.q.data_handle() + head * call.q.stride(1),
      .q_token = call.q.stride(0),
      .q_head = call.q.stride(1),
      .keys = head_of(call.keys, kv_head),
      .key_dtype = call.keys.dtype,
      .key_width = call.keys.width,
      .values = head_of(call.values, kv_head),
      .value_dtype = call.values.dtype,
      .value_width = call.values.width,
      .group = group,
      .first_row = block * p.cut.block_rows,
      .rows = std::min(p.cut.block_rows, p.cut.rows - block * p.cut.block_rows),
      .first_slot = call.first_slot,
      .seen = p.cut.mask,
      // The first and the last span hold the slots that no query sees.
      .slot_begin = span == 0 ? 0 : p.cut.first + span * p.cut.span,
      .slot_end = span + 1 == p.cut.spans ? p.cut.mask.slots : p.cut.first + (span + 1) * p.cut.span,
      .scale = call.scale,
      .softcap = call.softcap,
      .out = call.out.data_handle() + head * call.out.stride(1),
      .out_token = call.out.stride(0),
      .out_head = call.out.stride(1)};
  if (call.keys.dtype == DType::i8) b.key_scales = call.keys.scales + kv_head * call.keys.capacity;
  if (call.values.dtype == DType::i8) b.value_scales = call.values.scales + kv_head * call.values.capacity;
  if (!call.slopes.empty()) {
    b.slopes = call.slopes.data_handle() + head * call.slopes.stride(0);
    b.slope_stride = call.slopes.stride(0);
    if (passes_over(call)) b.norms = call.keys.norms + kv_head * ceil_div(call.keys.capacity, kNormSlots);
  }
  if (!call.relative.empty()) {
    b.relative = call.relative.data_handle() + head * call.relative.stride(0);
    b.relative_head = call.relative.stride(0);
    b.relative_columns = call.relative.extent(1);
    b.relative_zero = call.relative_zero;
  }
  if (!call.sinks.empty() && span == 0) {
    b.sinks = call.sinks.data_handle() + head * call.sinks.stride(0);
    b.sink_stride = call.sinks.stride(0);
  }
  if (!call.bias.empty()) {
    b.bias = call.bias.data_handle() + head * call.bias.stride(0);
    b.bias_head = call.bias.stride(0);
    b.bias_token = call.bias.stride(1);
  }
  if (!call.query_positions.empty()) {
    b.query_positions = call.query_positions.data_handle();
    b.query_position_stride = call.query_positions.stride(0);
    b.key_positions = call.key_positions.data_handle();
    b.key_position_stride = call.key_positions.stride(0);
  }
  if (call.scores.data_handle() != nullptr) {
    b.scores = call.scores.data_handle() + head * call.scores.stride(0);
    b.score_head = call.scores.stride(0);
    b.score_token = call.scores.stride(1);
    b.score_slot = call.scores.stride(2);
  }
  if (p.partial != nullptr) {
    const std::int64_t row = (kv_head * p.cut.spans + span) * p.cut.rows + b.first_row;
    b.partial = p.partial + row * kernels::attend_partial(call.values.width);
  }
  return b;
}

void merge(const AttendCall& call, const Cut& c, const float* partial) {
  const std::int64_t group = call.q.extent(1) / call.keys.heads;
  const std::int64_t floats = kernels::attend_partial(call.values.width);
  for (std::int64_t g = 0; g < call.keys.heads; ++g) {
    for (std::int64_t r = 0; r < c.rows; ++r) {
      kernels::attend_merge(partial + (g * c.spans * c.rows + r) * floats, c.spans, c.rows * floats,
                            call.values.width, &call.out(r / group, g * group + r % group, 0));
    }
  }
}

// Enough pieces without cutting slots.
void attend_whole(std::span<const AttendCall> calls, std::int64_t pieces, std::int64_t work,
                  ThreadPool& pool) {
  const auto body = [&](std::int64_t piece) {
    for (const AttendCall& call : calls) {
      const Cut c = cut(call);
      if (piece < c.pieces(call)) {
        kernels::attend(block_of({call, c, piece, nullptr}));
        return;
      }
      piece -= c.pieces(call);
    }
  };
  run_pieces(pool, pieces, work, body);
}

// Fewer calls than kEnoughPieces, so their cuts and parts have a place here.
void attend_cut(std::span<const AttendCall> calls, std::int64_t units, std::int64_t work, ThreadPool& pool) {
  std::array<Cut, kEnoughPieces> cuts;
  std::array<float*, kEnoughPieces> parts{};
  alignas(64) float partial[kPartialFloats];
  std::int64_t used = 0;
  std::int64_t pieces = 0;
  for (std::size_t i = 0, n = 0; i < calls.size(); ++i) {
    if (calls[i].q.extent(0) == 0) continue;
    Cut& c = cuts[n];
    c = cut(calls[i]);
    cut_slots(calls[i], units, kPartialFloats - used, c);
    if (c.spans > 1) {
      parts[n] = partial + used;
      used += calls[i].keys.heads * c.rows * c.spans * kernels::attend_partial(calls[i].values.width);
    }
    pieces += c.pieces(calls[i]);
    ++n;
  }
  const auto body = [&](std::int64_t piece) {
    std::size_t n = 0;
    for (const AttendCall& call : calls) {
      if (call.q.extent(0) == 0) continue;
      if (piece < cuts[n].pieces(call)) {
        kernels::attend(block_of({call, cuts[n], piece, parts[n]}));
        return;
      }
      piece -= cuts[n].pieces(call);
      ++n;
    }
  };
  run_pieces(pool, pieces, work, body);
  std::size_t n = 0;
  for (const AttendCall& call : calls) {
    if (call.q.extent(0) == 0) continue;
    if (parts[n] != nullptr) merge(call, cuts[n], parts[n]);
    ++n;
  }
}

}  // namespace

void attend(std::span<const AttendCall> calls, ThreadPool& pool) {
  std::int64_t units = 0;
  std::int64_t work = 0;
  for (const AttendCall& call : calls) {
    check_attend(call);
    if (call.q.extent(0) == 0) continue;
    const Cut c = cut(call);
    units += c.pieces(call);
    work += c.rows * call.keys.heads * c.seen * (call.keys.width + call.values.width) / 8;
  }
  if (units >= kEnoughPieces) {
    attend_whole(calls, units, work, pool);
  } else if (units > 0) {
    attend_cut(calls, units, work, pool);
  }
}

}  // namespace locant
