// SPDX-License-Identifier: Apache-2.0
// The cache, and attention over it: rules, then pieces of (call, kv head, block of rows, span of slots). The
// cut follows from the shapes alone. Few pieces with long caches are cut over slots, and their parts are
// merged in order.
#include <algorithm>
#include <cmath>

#include "kernels/attend.h"
#include "kernels/rows.h"
#include "locant/ops.h"
#include "ops/check.h"

namespace locant {
namespace {

using namespace check_ops;

void check_cache(std::string_view who, std::string_view name, const CacheTensor& c) {
  if (!is_storable(c.dtype)) fail("{}: {} is {}, expected f32, f16 or bf16", who, name, name_of(c.dtype));
  if (c.heads <= 0 || c.capacity < 0 || c.width <= 0)
    fail("{}: {} is [{},{},{}], expected heads and a width above 0", who, name, c.heads, c.capacity, c.width);
  if (c.capacity != 0 && c.data == nullptr)
    fail("{}: {} is [{},{},{}] without data", who, name, c.heads, c.capacity, c.width);
}

void check_slots(std::string_view who, std::int64_t first, std::int64_t count, std::int64_t capacity) {
  if (first < 0 || first > capacity || count > capacity - first) {
    throw std::out_of_range(
        fmt::format("{}: slots {} to {} are outside capacity {}", who, first, first + count, capacity));
  }
}

std::byte* head_of(const CacheTensor& c, std::int64_t head) {
  return static_cast<std::byte*>(c.data) +
         head * c.capacity * c.width * static_cast<std::int64_t>(size_of(c.dtype));
}

Extent extent_of_cache(const CacheTensor& c) {
  const std::array<std::int64_t, 1> shape{c.heads * c.capacity * c.width};
  const std::array<std::int64_t, 1> strides{1};
  return extent_of(c.data, size_of(c.dtype), shape.data(), strides.data(), 1);
}

bool has_positions(const View<const std::int64_t, 1>& positions, std::int64_t count) {
  return positions.extent(0) == count && (count == 0 || positions.data_handle() != nullptr);
}

std::string_view name_of(Sees sees) {
  switch (sees) {
    case Sees::past:
      return "past";
    case Sees::window:
      return "window";
    case Sees::chunk:
      return "chunk";
    case Sees::all:
      return "all";
    case Sees::around:
      break;
  }
  return "around";
}

std::int64_t slots_of(const AttendCall& call) {
  return call.slots == 0 ? call.first_slot + call.q.extent(0) : call.slots;
}

void check_seen(const AttendCall& call) {
  const std::int64_t capacity = std::min(call.keys.capacity, call.values.capacity);
  if (call.slots < 0) fail("attend: slots is {}, expected 0 or more", call.slots);
  if (call.sees == Sees::all && call.slots != 0) {
    if (call.first_slot < 0) fail("attend: first_slot is {}, expected 0 or more", call.first_slot);
    check_slots("attend", 0, call.slots, capacity);
  } else {
    check_slots("attend", call.first_slot, call.q.extent(0), capacity);
    if (call.slots != 0 && call.slots != call.first_slot + call.q.extent(0))
      fail("attend: slots is {} under {}, expected first_slot + tokens = {}", call.slots, name_of(call.sees),
           call.first_slot + call.q.extent(0));
  }
  const bool windowed = call.sees == Sees::window || call.sees == Sees::chunk || call.sees == Sees::around;
  if (windowed && call.window < 1)
    fail("attend: window is {} under {}, expected 1 or more", call.window, name_of(call.sees));
  if (!windowed && call.window != 0)
    fail("attend: window is {} under {}, expected none", call.window, name_of(call.sees));
}

void check_positions(const AttendCall& call) {
  const std::int64_t tokens = call.q.extent(0);
  if (call.slopes.empty() && call.relative.empty()) {
    if (!call.query_positions.empty() || !call.key_positions.empty())
      fail("attend: positions are given without slopes or relative, expected both or none");
    return;
  }
  if (!has_positions(call.query_positions, tokens))
    fail("attend: query_positions is {}, expected [tokens={}]", text(call.query_positions), tokens);
  if (!has_positions(call.key_positions, slots_of(call)))
    fail("attend: key_positions is {}, expected [slots={}]", text(call.key_positions), slots_of(call));
}

void check_biases(const AttendCall& call) {
  const std::int64_t heads = call.q.extent(1);
  if (!(call.softcap >= 0) || std::isinf(call.softcap))
    fail("attend: softcap is {}, expected 0 or more", call.softcap);
  if (!call.sinks.empty()) vector("attend", "sinks", call.sinks, heads, "heads");
  if (!call.slopes.empty()) vector("attend", "slopes", call.slopes, heads, "heads");
  if (!call.relative.empty()) {
    const std::int64_t columns = call.relative.extent(1);
    has_shape("attend", "relative", call.relative, {{heads, columns}, {"heads", "distances"}});
    readable("attend", "relative", call.relative);
    if (call.relative_zero < 0 || call.relative_zero >= columns)
      fail("attend: relative_zero is {}, expected 0 to {}", call.relative_zero, columns - 1);
  }
  if (!call.bias.empty()) {
    has_shape("attend", "bias", call.bias,
              {{heads, call.q.extent(0), slots_of(call)}, {"heads", "tokens", "slots"}});
    readable("attend", "bias", call.bias);
  }
}

// What is read beside q and the cache must not be written.
void check_apart(const AttendCall& call, std::string_view name, const Extent& written) {
  if (overlap(extent_of(call.sinks), written)) fail("attend: {} overlaps sinks", name);
  if (overlap(extent_of(call.slopes), written)) fail("attend: {} overlaps slopes", name);
  if (overlap(extent_of(call.relative), written)) fail("attend: {} overlaps relative", name);
  if (overlap(extent_of(call.bias), written)) fail("attend: {} overlaps bias", name);
}

void check_attend(const AttendCall& call) {
  const View<const float, 3>& q = call.q;
  readable("attend", "q", q);
  check_cache("attend", "keys", call.keys);
  check_cache("attend", "values", call.values);
  if (q.extent(2) != call.keys.width)
    fail("attend: q is {}, expected [tokens, heads, head_dim={}]", text(q), call.keys.width);
  if (q.extent(1) <= 0 || q.extent(1) % call.keys.heads != 0)
    fail("attend: {} heads are no multiple of {} kv heads", q.extent(1), call.keys.heads);
  if (call.values.heads != call.keys.heads)
    fail("attend: values hold {} heads, keys {}", call.values.heads, call.keys.heads);
  if (std::max(call.keys.width, call.values.width) > kernels::kAttendWidth)
    fail("attend: heads are {} and {} wide, {} at most", call.keys.width, call.values.width,
         kernels::kAttendWidth);
  check_seen(call);
  has_shape("attend", "out", call.out,
            {{q.extent(0), q.extent(1), call.values.width}, {"tokens", "heads", "width"}});
  writable("attend", "out", call.out);
  check_biases(call);
  check_positions(call);
  const Extent out = extent_of(call.out);
  if (overlap(extent_of(q), out)) fail("attend: out overlaps q");
  if (overlap(extent_of_cache(call.keys), out) || overlap(extent_of_cache(call.values), out))
    fail("attend: out overlaps the cache");
  check_apart(call, "out", out);
  if (call.scores.data_handle() == nullptr) {
    if (!call.scores.empty()) fail("attend: scores is {} without data", text(call.scores));
    return;
  }
  has_shape("attend", "scores", call.scores,
            {{q.extent(1), q.extent(0), slots_of(call)}, {"heads", "tokens", "slots"}});
  writable("attend", "scores", call.scores);
  const Extent scores = extent_of(call.scores);
  if (overlap(scores, out) || overlap(scores, extent_of(q)) || overlap(scores, extent_of_cache(call.keys)) ||
      overlap(scores, extent_of_cache(call.values)))
    fail("attend: scores overlap out, q or the cache");
  check_apart(call, "scores", scores);
}

kernels::SeenSlots seen_of(const AttendCall& call) {
  kernels::SeenSlots seen{.slots = slots_of(call)};
  const std::int64_t window = std::min(call.window, kernels::kAllSlots);
  if (call.sees == Sees::window) seen.back = window - 1;
  if (call.sees == Sees::chunk) seen.chunk = window;
  if (call.sees == Sees::all) seen.ahead = kernels::kAllSlots;
  if (call.sees == Sees::around) seen.back = seen.ahead = window;
  return seen;
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

Cut cut(const AttendCall& call) {
  Cut c;
  c.rows = call.q.extent(0) * (call.q.extent(1) / call.keys.heads);
  c.block_rows = kernels::attend_rows(call.keys.width, call.values.width);
  c.blocks = ceil_div(c.rows, c.block_rows);
  c.mask = seen_of(call);
  c.first = c.mask.first(call.first_slot);
  c.seen = c.mask.end(call.first_slot + call.q.extent(0) - 1) - c.first;
  c.span = c.seen;
  return c;
}

constexpr std::int64_t kEnoughPieces = 8;
constexpr std::int64_t kPartialFloats = 24576;

// Cuts the slots so that a call alone gives enough pieces, as far as the parts fit `room` floats.
void cut_slots(const AttendCall& call, std::int64_t units, std::int64_t room, Cut& c) {
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
  if (!call.slopes.empty()) {
    b.slopes = call.slopes.data_handle() + head * call.slopes.stride(0);
    b.slope_stride = call.slopes.stride(0);
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

void store(const StoreCall& call, ThreadPool& pool) {
  readable("store", "x", call.x);
  check_cache("store", "cache", call.cache);
  if (call.x.extent(1) != call.cache.heads || call.x.extent(2) != call.cache.width)
    fail("store: x is {}, expected [tokens, kv_heads={}, width={}]", text(call.x), call.cache.heads,
         call.cache.width);
  check_slots("store", call.first_slot, call.x.extent(0), call.cache.capacity);
  if (overlap(extent_of(call.x), extent_of_cache(call.cache))) fail("store: x overlaps the cache");
  const std::int64_t tokens = call.x.extent(0);
  const auto item = static_cast<std::int64_t>(size_of(call.cache.dtype));
  const std::int64_t rows = std::max<std::int64_t>(1, 16384 / call.cache.width);
  const std::int64_t cuts = ceil_div(tokens, rows);
  const auto body = [&](std::int64_t piece) {
    const std::int64_t head = piece / cuts;
    const std::int64_t first = piece % cuts * rows;
    for (std::int64_t t = first; t < std::min(first + rows, tokens); ++t) {
      kernels::write_row(
          call.x.data_handle() + t * call.x.stride(0) + head * call.x.stride(1), call.cache.width,
          head_of(call.cache, head) + (call.first_slot + t) * call.cache.width * item, call.cache.dtype);
    }
  };
  run_pieces(pool, cuts * call.cache.heads, call.x.size(), body);
}

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
