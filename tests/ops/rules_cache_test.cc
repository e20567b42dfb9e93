// SPDX-License-Identifier: Apache-2.0
// Every rule of the rotation into the cache as its sentence, thrown before anything is written.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "locant/ops.h"

namespace locant {
namespace {

class RotateStoreRules : public ::testing::Test {
 protected:
  ThreadPool pool{1};
  std::vector<float> q = std::vector<float>(2 * 4 * 8, 3.0f);
  std::vector<float> k = std::vector<float>(2 * 2 * 8, 1.0f);
  std::vector<float> v = std::vector<float>(2 * 2 * 6, 1.0f);
  std::vector<float> tables = std::vector<float>(2 * 5000, 1.0f);
  std::vector<float> keys = std::vector<float>(2 * 10 * 8, 3.0f);
  std::vector<float> values = std::vector<float>(2 * 9 * 6, 3.0f);
  RotateStoreCall good{
      .q = {q.data(), {2, 4, 8}},
      .k = {k.data(), {2, 2, 8}},
      .v = {v.data(), {2, 2, 6}},
      .cos = {tables.data(), {2, 4}},
      .sin = {tables.data() + 8, {2, 4}},
      .keys = {.data = keys.data(), .dtype = DType::f32, .heads = 2, .capacity = 10, .width = 8},
      .values = {.data = values.data(), .dtype = DType::f32, .heads = 2, .capacity = 9, .width = 6}};

  std::string with(const std::function<void(RotateStoreCall&)>& change) {
    RotateStoreCall call = good;
    change(call);
    try {
      rotate_store(call, pool);
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }
  void TearDown() override {
    for (const auto* written : {&q, &keys, &values}) {
      for (const float x : *written)
        ASSERT_EQ(x, 3.0f) << "something was written before the rule was checked";
    }
  }
};

TEST_F(RotateStoreRules, Shapes) {
  EXPECT_EQ(with([&](auto& c) {
              c.q = {q.data(), {2, 8, 4}};
            }),
            "rotate_store: q is [2,8,4], expected [tokens=2, heads=8, head_dim=8]");
  EXPECT_EQ(with([&](auto& c) {
              c.k = {k.data(), {1, 2, 8}};
            }),
            "rotate_store: k is [1,2,8], expected [tokens=2, kv_heads=2, head_dim=8]");
  EXPECT_EQ(with([&](auto& c) {
              c.v = {v.data(), {2, 1, 6}};
            }),
            "rotate_store: v is [2,1,6], expected [tokens=2, kv_heads=2, width=6]");
  EXPECT_EQ(with([&](auto& c) {
              c.cos = {tables.data(), {1, 4}};
            }),
            "rotate_store: cos is [1,4], expected [tokens=2, pairs=4]");
  EXPECT_EQ(with([&](auto& c) {
              c.sin = {tables.data(), {2, 3}};
            }),
            "rotate_store: sin is [2,3], expected [tokens=2, pairs=4]");
  EXPECT_EQ(with([](auto& c) { c.shape.offset = 1; }),
            "rotate_store: channels 1 to 9 are outside head_dim 8");
  EXPECT_EQ(with([&](auto& c) {
              c.q = {q.data(), {2, 4, 8}, {32, 4, 1}};
            }),
            "rotate_store: q writes an element twice, stride 4 of axis 1 covers less than 8");
  EXPECT_EQ(with([](auto& c) { c.k = {nullptr, {2, 2, 8}}; }), "rotate_store: k is [2,2,8] without data");
}

TEST_F(RotateStoreRules, Caches) {
  EXPECT_EQ(with([](auto& c) { c.keys.dtype = DType::f64; }),
            "rotate_store: keys is f64, expected f32, f16, bf16 or i8");
  EXPECT_EQ(with([](auto& c) { c.values.dtype = DType::i8; }),
            "rotate_store: values is i8 without scales, expected [heads=2, capacity=9]");
  EXPECT_EQ(with([](auto& c) { c.keys.data = nullptr; }), "rotate_store: keys is [2,10,8] without data");
  EXPECT_EQ(with([](auto& c) { c.first_slot = 8; }), "rotate_store: slots 8 to 10 are outside capacity 9");
  EXPECT_EQ(with([](auto& c) { c.first_slot = -1; }), "rotate_store: slots -1 to 1 are outside capacity 9");
  std::vector<float> wide(4098, 1.0f);
  std::vector<std::int8_t> small(4098);
  std::vector<float> scale(1);
  const auto one_wide = [&](RotateStoreCall& c) {
    c.q = {wide.data(), {1, 1, 4098}};
    c.k = {wide.data(), {1, 1, 4098}};
    c.v = {v.data(), {1, 2, 6}};
    c.cos = {tables.data(), {1, 4}};
    c.sin = {tables.data(), {1, 4}};
    c.keys = {.data = small.data(),
              .dtype = DType::i8,
              .heads = 1,
              .capacity = 1,
              .width = 4098,
              .scales = scale.data()};
  };
  EXPECT_EQ(with(one_wide), "rotate_store: keys of i8 hold 4096 channels at most, width is 4098");
  EXPECT_EQ(
      with([&](auto& c) {
        one_wide(c);
        c.cos = {tables.data(), {1, 2049}};
        c.sin = {tables.data(), {1, 2049}};
        c.shape.write = Pairing::interleaved;
      }),
      "rotate_store: in place from one pairing to the other holds 4096 channels at most, width is 4098");
}

TEST_F(RotateStoreRules, Overlaps) {
  EXPECT_EQ(with([&](auto& c) { c.k = {q.data(), {2, 2, 8}}; }), "rotate_store: q overlaps k or v");
  EXPECT_EQ(with([&](auto& c) { c.v = {q.data() + 40, {2, 2, 6}}; }), "rotate_store: q overlaps k or v");
  EXPECT_EQ(with([&](auto& c) { c.v = {keys.data(), {2, 2, 6}}; }), "rotate_store: k or v overlap the cache");
  EXPECT_EQ(with([&](auto& c) { c.values.norms = k.data(); }), "rotate_store: k or v overlap the cache");
  std::vector<float> room(1024);  // for the whole cache: nothing else lies behind q
  EXPECT_EQ(with([&](auto& c) {
              c.q = {room.data(), c.q.shape()};
              c.values.data = room.data();
            }),
            "rotate_store: q overlaps the cache");
  EXPECT_EQ(with([&](auto& c) { c.values.data = keys.data() + 3; }), "rotate_store: keys overlap values");
  EXPECT_EQ(with([&](auto& c) { c.keys.norms = values.data(); }), "rotate_store: keys overlap values");
  EXPECT_EQ(with([&](auto& c) {
              c.cos = {q.data(), {2, 4}};
            }),
            "rotate_store: q or the cache overlap the tables");
  EXPECT_EQ(with([&](auto& c) {
              c.sin = {values.data(), {2, 4}};
            }),
            "rotate_store: q or the cache overlap the tables");
}

}  // namespace
}  // namespace locant
