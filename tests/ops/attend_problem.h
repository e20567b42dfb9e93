// SPDX-License-Identifier: Apache-2.0
// One attention problem with its caches, as stored and as doubles, against the double reference.
#pragma once

#include <limits>
#include <memory>

#include "budgets.h"
#include "kernels/targets_and_memory.h"
#include "locant/ops.h"
#include "reference/reference.h"

namespace locant::testing {

struct AttendShape {
  std::int64_t tokens = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t width = 64;
  std::int64_t value_width = 0;  // 0 = width
  std::int64_t first_slot = 0;
  DType keys = DType::f32;
  DType values = DType::f32;
  bool alibi = false;
  Sees sees = Sees::past;
  std::int64_t window = 0;
  std::int64_t slots = 0;  // 0 = first_slot + tokens
  float softcap = 0;
  bool sinks = false;
  std::int64_t distances = 0;  // columns of a relative table; 0 = none
  std::int64_t zero = 0;
  bool bias = false;
  std::int64_t start = 0;  // position of slot 0
  double reach = 4;        // standard deviation of a score
  bool norms = false;      // of keys, for passing over slots
};

inline std::size_t size(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

// One problem with its caches, as stored and as doubles.
struct AttendProblem {
  explicit AttendProblem(const AttendShape& shape_)
      : shape(shape_),
        slots(shape.slots == 0 ? shape.first_slot + shape.tokens : shape.slots),
        capacity(slots + 3),
        pool(1) {
    if (shape.value_width == 0) shape.value_width = shape.width;
    Random random(static_cast<std::uint64_t>(shape.heads * 1000 + shape.width + shape.tokens));
    q.resize(size(shape.tokens * shape.heads * shape.width));
    for (float& x : q) x = static_cast<float>(shape.reach) * random.next();
    k.resize(size(slots * shape.kv_heads * shape.width));
    v.resize(size(slots * shape.kv_heads * shape.value_width));
    for (float& x : k) x = random.next();
    for (float& x : v) x = random.next();
    keys = cache(shape.keys, shape.width, key_memory);
    values = cache(shape.values, shape.value_width, value_memory);
    const std::size_t rows = size(shape.kv_heads * capacity);
    scales.assign(2 * rows, std::numeric_limits<float>::quiet_NaN());
    if (shape.keys == DType::i8) keys.scales = scales.data();
    if (shape.values == DType::i8) values.scales = scales.data() + rows;
    norms.assign(size(shape.kv_heads * ((capacity - 1) / kNormSlots + 1)), 0.0f);
    if (shape.norms) keys.norms = norms.data();
    keep();
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      slopes.push_back(static_cast<float>(
          std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(shape.heads))));
    }
    for (std::int64_t s = 0; s < slots; ++s) key_positions.push_back(shape.start + s);
    for (std::int64_t t = 0; t < shape.tokens; ++t)
      query_positions.push_back(shape.start + shape.first_slot + t);
    // Logits near the scores, so that each of these matters.
    sinks.resize(size(shape.heads));
    relative.resize(size(shape.heads * shape.distances));
    if (shape.bias) bias.resize(size(shape.heads * shape.tokens * slots));
    for (std::vector<float>* some : {&sinks, &relative, &bias}) {
      for (float& x : *some) x = 2 * random.next();
    }
  }

  // k and v into the caches.
  void keep() {
    store({.x = {k.data(), {slots, shape.kv_heads, shape.width}}, .cache = keys}, pool);
    store({.x = {v.data(), {slots, shape.kv_heads, shape.value_width}}, .cache = values}, pool);
  }

  CacheTensor cache(DType dtype, std::int64_t width, std::vector<std::uint8_t>& memory) const {
    memory.assign(size(shape.kv_heads * capacity * width) * size_of(dtype), 0xFF);  // NaN beyond the slots
    return {
        .data = memory.data(), .dtype = dtype, .heads = shape.kv_heads, .capacity = capacity, .width = width};
  }

  [[nodiscard]] float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape.width)); }

  AttendCall call(View<float, 3> out) {
    AttendCall c{.q = {q.data(), {shape.tokens, shape.heads, shape.width}},
                 .keys = keys,
                 .values = values,
                 .first_slot = shape.first_slot,
                 .slots = shape.slots,
                 .scale = scale(),
                 .sees = shape.sees,
                 .window = shape.window,
                 .softcap = shape.softcap,
                 .out = out};
    if (shape.sinks) c.sinks = {sinks.data(), {shape.heads}};
    if (shape.alibi) c.slopes = {slopes.data(), {shape.heads}};
    if (shape.distances > 0) {
      c.relative = {relative.data(), {shape.heads, shape.distances}};
      c.relative_zero = shape.zero;
    }
    if (shape.bias) c.bias = {bias.data(), {shape.heads, shape.tokens, slots}};
    if (shape.alibi || shape.distances > 0) {
      c.query_positions = {query_positions.data(), {shape.tokens}};
      c.key_positions = {key_positions.data(), {slots}};
    }
    return c;
  }

  [[nodiscard]] std::vector<float> run(ThreadPool& on) {
    std::vector<float> out(size(shape.tokens * shape.heads * shape.value_width));
    const AttendCall c = call({out.data(), {shape.tokens, shape.heads, shape.value_width}});
    attend({&c, 1}, on);
    return out;
  }

  // The reference reads what the cache holds, so that storage is not part of the error.
  static std::vector<double> stored(const CacheTensor& c, std::int64_t slots) {
    std::vector<double> values;
    for (std::int64_t g = 0; g < c.heads; ++g) {
      for (std::int64_t i = 0; i < slots * c.width; ++i) {
        const std::int64_t at = g * c.capacity * c.width + i;
        if (c.dtype == DType::f32) values.push_back(wide(static_cast<const float*>(c.data)[at]));
        if (c.dtype == DType::f16) values.push_back(wide(static_cast<const Half*>(c.data)[at]));
        if (c.dtype == DType::bf16) values.push_back(wide(static_cast<const BFloat16*>(c.data)[at]));
        if (c.dtype == DType::i8)
          values.push_back(wide(c.scales[at / c.width]) * static_cast<const std::int8_t*>(c.data)[at]);
      }
    }
    return values;
  }

  struct Truth {
    std::vector<double> q, k, v, slopes, sinks, relative, bias, out;
    reference::Attention attention;
    double largest = 0;
  };
  [[nodiscard]] std::unique_ptr<Truth> truth() const {
    auto t = std::make_unique<Truth>();
    t->q.assign(q.begin(), q.end());
    t->k = stored(keys, slots);
    t->v = stored(values, slots);
    t->slopes.assign(slopes.begin(), slopes.end());
    t->attention = {.q = {t->q.data(), {shape.tokens, shape.heads, shape.width}},
                    .keys = {t->k.data(), {shape.kv_heads, slots, shape.width}},
                    .values = {t->v.data(), {shape.kv_heads, slots, shape.value_width}},
                    .first_slot = shape.first_slot,
                    .reach = static_cast<reference::Reach>(shape.sees),
                    .window = shape.window,
                    .scale = wide(scale()),
                    .softcap = wide(shape.softcap)};
    t->sinks.assign(sinks.begin(), sinks.end());
    t->relative.assign(relative.begin(), relative.end());
    t->bias.assign(bias.begin(), bias.end());
    if (shape.sinks) t->attention.sinks = {t->sinks.data(), {shape.heads}};
    if (shape.alibi) t->attention.slopes = {t->slopes.data(), {shape.heads}};
    if (shape.distances > 0) {
      t->attention.relative = {t->relative.data(), {shape.heads, shape.distances}};
      t->attention.relative_zero = shape.zero;
    }
    if (shape.bias) t->attention.bias = {t->bias.data(), {shape.heads, shape.tokens, slots}};
    if (shape.alibi || shape.distances > 0) {
      t->attention.query_positions = {query_positions.data(), {shape.tokens}};
      t->attention.key_positions = {key_positions.data(), {slots}};
    }
    t->out.resize(size(shape.tokens * shape.heads * shape.value_width));
    reference::attend(t->attention, {t->out.data(), {shape.tokens, shape.heads, shape.value_width}});
    for (const double x : t->v) t->largest = std::max(t->largest, std::abs(x));
    return t;
  }

  AttendShape shape;
  std::int64_t slots;
  std::int64_t capacity;
  ThreadPool pool;
  std::vector<float> q, k, v, slopes, sinks, relative, bias, scales, norms;
  std::vector<std::uint8_t> key_memory, value_memory;
  CacheTensor keys, values;
  std::vector<std::int64_t> query_positions, key_positions;
};

inline void expect_reference(const AttendShape& shape) {
  SCOPED_TRACE(::testing::Message() << shape.tokens << " tokens, " << shape.heads << "/" << shape.kv_heads
                                    << " heads x " << shape.width << ", first slot " << shape.first_slot
                                    << ", alibi " << shape.alibi << ", sees " << static_cast<int>(shape.sees)
                                    << " " << shape.window << ", slots " << shape.slots << ", softcap "
                                    << shape.softcap << ", sinks " << shape.sinks << ", distances "
                                    << shape.distances << ", bias " << shape.bias);
  AttendProblem p(shape);
  const auto truth = p.truth();
  on_every_target([&] {
    const std::vector<float> out = p.run(p.pool);
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_LE(std::abs(wide(out[i]) - truth->out[i]), budgets::kAttend * truth->largest) << "element " << i;
    }
  });
}

}  // namespace locant::testing
