// SPDX-License-Identifier: Apache-2.0
// Rules about what a query sees and what is added to its scores, sentence by sentence; nothing is written.
#include <algorithm>
#include <limits>

#include "kernels/targets_and_memory.h"
#include "locant/ops.h"

namespace locant {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class AttendRules : public ::testing::Test {
 protected:
  // The sentence of a call that breaks a rule: two tokens behind three slots, four heads over two.
  template <class Change>
  std::string sentence(Change change) {
    std::fill(out.begin(), out.end(), 3.0f);
    AttendCall call{.q = {q.data(), {2, 4, 8}},
                    .keys = {.data = a.data(), .dtype = DType::f32, .heads = 2, .capacity = 10, .width = 8},
                    .values = {.data = b.data(), .dtype = DType::f32, .heads = 2, .capacity = 9, .width = 4},
                    .first_slot = 3,
                    .out = {out.data(), {2, 4, 4}}};
    change(call);
    std::string text = "nothing was thrown";
    try {
      attend({&call, 1}, pool);
    } catch (const SpecError& e) {
      text = e.what();
    } catch (const std::out_of_range& e) {
      text = e.what();
    }
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return x == 3.0f; }))
        << "something was written before the rule was checked";
    return text;
  }

  ThreadPool pool{1};
  std::vector<float> a = std::vector<float>(2048, 0.5f);
  std::vector<float> b = std::vector<float>(2048, 0.5f);
  std::vector<float> q = std::vector<float>(2048, 0.5f);
  std::vector<float> out = std::vector<float>(2048, 3.0f);
  std::vector<std::int64_t> positions{0, 1, 2, 3, 4, 5, 6};
};

TEST_F(AttendRules, Slots) {
  EXPECT_EQ(sentence([](auto& c) { c.slots = 6; }),
            "attend: slots is 6 under past, expected first_slot + tokens = 5");
  EXPECT_EQ(sentence([](auto& c) {
              c.sees = Sees::around;
              c.window = 2;
              c.slots = 4;
            }),
            "attend: slots is 4 under around, expected first_slot + tokens = 5");
  EXPECT_EQ(sentence([](auto& c) { c.slots = -1; }), "attend: slots is -1, expected 0 or more");
  EXPECT_EQ(sentence([](auto& c) {
              c.sees = Sees::all;
              c.slots = 10;
            }),
            "attend: slots 0 to 10 are outside capacity 9");
  EXPECT_EQ(sentence([](auto& c) {
              c.sees = Sees::all;
              c.slots = 4;
              c.first_slot = -1;
            }),
            "attend: first_slot is -1, expected 0 or more");
  EXPECT_EQ(sentence([](auto& c) {
              c.sees = Sees::all;
              c.first_slot = 8;
            }),
            "attend: slots 8 to 10 are outside capacity 9");
  // No slot at all: nothing that a query could see.
  EXPECT_EQ(sentence([](auto& c) {
              c.sees = Sees::all;
              c.first_slot = 0;
              c.keys.capacity = 0;
            }),
            "attend: slots 0 to 2 are outside capacity 0");
}

TEST_F(AttendRules, Windows) {
  EXPECT_EQ(sentence([](auto& c) { c.sees = Sees::window; }),
            "attend: window is 0 under window, expected 1 or more");
  EXPECT_EQ(sentence([](auto& c) {
              c.sees = Sees::chunk;
              c.window = -3;
            }),
            "attend: window is -3 under chunk, expected 1 or more");
  EXPECT_EQ(sentence([](auto& c) { c.window = 4; }), "attend: window is 4 under past, expected none");
  EXPECT_EQ(sentence([](auto& c) {
              c.sees = Sees::all;
              c.window = 4;
            }),
            "attend: window is 4 under all, expected none");
}

TEST_F(AttendRules, ScalesAndNorms) {
  EXPECT_EQ(sentence([](auto& c) { c.keys.dtype = DType::i8; }),
            "attend: keys is i8 without scales, expected [heads=2, capacity=10]");
  EXPECT_EQ(sentence([](auto& c) { c.values.dtype = DType::i8; }),
            "attend: values is i8 without scales, expected [heads=2, capacity=9]");
  EXPECT_EQ(sentence([&](auto& c) {
              c.keys.dtype = DType::i8;
              c.keys.scales = out.data() + 31;
            }),
            "attend: out overlaps the scales of the cache");
  EXPECT_EQ(sentence([&](auto& c) { c.keys.norms = out.data() + 31; }),
            "attend: out overlaps the norms of the cache");
  EXPECT_EQ(sentence([&](auto& c) {
              c.values.dtype = DType::i8;
              c.values.scales = q.data() + 1000;
              c.scores = {q.data() + 1000 + 17, {4, 2, 5}};
            }),
            "attend: scores overlaps the scales of the cache");
}

TEST_F(AttendRules, SoftcapsAndSinks) {
  EXPECT_EQ(sentence([](auto& c) { c.softcap = -1; }), "attend: softcap is -1, expected 0 or more");
  EXPECT_EQ(sentence([](auto& c) { c.softcap = kInf; }), "attend: softcap is inf, expected 0 or more");
  EXPECT_EQ(sentence([](auto& c) { c.softcap = std::numeric_limits<float>::quiet_NaN(); }),
            "attend: softcap is nan, expected 0 or more");
  EXPECT_EQ(sentence([&](auto& c) {
              c.sinks = {q.data(), {2}};
            }),
            "attend: sinks is [2], expected [heads=4]");
  EXPECT_EQ(sentence([&](auto& c) { c.sinks = {out.data() + 4, {4}}; }), "attend: out overlaps sinks");
}

TEST_F(AttendRules, RelativeTables) {
  const auto with = [&](auto change) {
    return sentence([&](auto& c) {
      c.relative = {q.data(), {4, 6}};
      c.query_positions = {positions.data(), {2}};
      c.key_positions = {positions.data(), {5}};
      change(c);
    });
  };
  EXPECT_EQ(with([&](auto& c) {
              c.relative = {q.data(), {3, 6}};
            }),
            "attend: relative is [3,6], expected [heads=4, distances=6]");
  EXPECT_EQ(with([&](auto& c) { c.relative = {nullptr, {4, 6}}; }), "attend: relative is [4,6] without data");
  EXPECT_EQ(with([](auto& c) { c.relative_zero = 6; }), "attend: relative_zero is 6, expected 0 to 5");
  EXPECT_EQ(with([](auto& c) { c.relative_zero = -1; }), "attend: relative_zero is -1, expected 0 to 5");
  EXPECT_EQ(with([](auto& c) { c.query_positions = {}; }),
            "attend: query_positions is [0], expected [tokens=2]");
  EXPECT_EQ(with([&](auto& c) {
              c.key_positions = {positions.data(), {6}};
            }),
            "attend: key_positions is [6], expected [slots=5]");
  EXPECT_EQ(with([&](auto& c) {
              c.sees = Sees::all;
              c.slots = 7;
            }),
            "attend: key_positions is [5], expected [slots=7]");
  EXPECT_EQ(with([&](auto& c) { c.relative = {out.data() + 8, {4, 6}}; }), "attend: out overlaps relative");
  EXPECT_EQ(with([&](auto& c) {
              c.relative = {};
              c.slopes = {out.data(), {4}};
            }),
            "attend: out overlaps slopes");
}

TEST_F(AttendRules, Biases) {
  EXPECT_EQ(sentence([&](auto& c) {
              c.bias = {q.data(), {4, 2, 6}};
            }),
            "attend: bias is [4,2,6], expected [heads=4, tokens=2, slots=5]");
  EXPECT_EQ(sentence([&](auto& c) {
              c.bias = {q.data(), {4, 2, 5}, {20, 10, 2}};
            }),
            "attend: the last axis of bias has stride 2, expected 1");
  EXPECT_EQ(sentence([&](auto& c) { c.bias = {out.data() + 9, {4, 2, 5}}; }), "attend: out overlaps bias");
  EXPECT_EQ(sentence([&](auto& c) {
              c.bias = {out.data() + 100, {4, 2, 5}};
              c.scores = {out.data() + 110, {4, 2, 5}};
            }),
            "attend: scores overlaps bias");
}

}  // namespace
}  // namespace locant
