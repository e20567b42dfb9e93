// SPDX-License-Identifier: Apache-2.0
// Rules of the cache and of attention over it.
#include <algorithm>
#include <cmath>

#include "kernels/attend.h"
#include "ops/attend.h"

namespace locant::attend_ops {

using namespace check_ops;

void check_cache(std::string_view who, std::string_view name, const CacheTensor& c) {
  if (!is_storable(c.dtype) && c.dtype != DType::i8)
    fail("{}: {} is {}, expected f32, f16, bf16 or i8", who, name, name_of(c.dtype));
  if (c.heads <= 0 || c.capacity < 0 || c.width <= 0)
    fail("{}: {} is [{},{},{}], expected heads and a width above 0", who, name, c.heads, c.capacity, c.width);
  if (c.capacity != 0 && c.data == nullptr)
    fail("{}: {} is [{},{},{}] without data", who, name, c.heads, c.capacity, c.width);
  if (c.dtype == DType::i8 && c.capacity != 0 && c.scales == nullptr)
    fail("{}: {} is i8 without scales, expected [heads={}, capacity={}]", who, name, c.heads, c.capacity);
}

void check_slots(std::string_view who, std::int64_t first, std::int64_t count, std::int64_t capacity) {
  if (first < 0 || first > capacity || count > capacity - first) {
    throw std::out_of_range(
        fmt::format("{}: slots {} to {} are outside capacity {}", who, first, first + count, capacity));
  }
}

std::byte* head_of(const CacheTensor& c, std::int64_t head) noexcept {
  return static_cast<std::byte*>(c.data) +
         head * c.capacity * c.width * static_cast<std::int64_t>(size_of(c.dtype));
}

Extent extent_of_scales(const CacheTensor& c) noexcept {
  if (c.dtype != DType::i8) return {};
  return extent_of(View<const float, 1>(c.scales, {c.heads * c.capacity}));
}

Extent extent_of_norms(const CacheTensor& c) noexcept {
  if (c.norms == nullptr) return {};
  return extent_of(View<const float, 1>(c.norms, {c.heads * ceil_div(c.capacity, kNormSlots)}));
}

Extent extent_of_cache(const CacheTensor& c) noexcept {
  const std::array<std::int64_t, 1> shape{c.heads * c.capacity * c.width};
  const std::array<std::int64_t, 1> strides{1};
  return extent_of(c.data, size_of(c.dtype), shape.data(), strides.data(), 1);
}

std::int64_t slots_of(const AttendCall& call) noexcept {
  return call.slots == 0 ? call.first_slot + call.q.extent(0) : call.slots;
}

namespace {

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
  for (const CacheTensor* cache : {&call.keys, &call.values}) {
    if (overlap(extent_of_scales(*cache), written)) fail("attend: {} overlaps the scales of the cache", name);
    if (overlap(extent_of_norms(*cache), written)) fail("attend: {} overlaps the norms of the cache", name);
  }
}

}  // namespace

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

}  // namespace locant::attend_ops
