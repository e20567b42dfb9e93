// SPDX-License-Identifier: Apache-2.0
// What every rotation states beside its schedule, and what the schedules refuse.
#include <gtest/gtest.h>

#include "positions/cos_sin.h"
#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using golden::planned;
using testing_text::sentence;
using List = std::vector<double>;

/// A rotation of 12 pairs that every schedule can plan.
PositionSpec small(std::string mechanism) {
  PositionSpec spec{std::move(mechanism), {}};
  spec.set("head_dim", std::int64_t{40});
  spec.set("rotary_dim", std::int64_t{24});
  spec.set("theta", 123456.0);
  for (const ParameterDescription& one : find_mechanism(spec.mechanism).parameters) {
    if (!one.default_text.empty() || spec.find(one.name) != nullptr) continue;
    if (one.unit == "1 per pair") {
      spec.set(std::string(one.name), List(12, 2.0));
    } else {
      spec.set(std::string(one.name), std::int64_t{4});
    }
  }
  return spec;
}

std::vector<std::string> rotations() {
  std::vector<std::string> names;
  for (const Mechanism& one : mechanisms()) {
    if (one.site == Site::rotation) names.emplace_back(one.name);
  }
  return names;
}

std::string refusal(const PositionSpec& from, std::string name, ParameterValue value,
                    std::string_view recipe = "exact") {
  PositionSpec spec = from;
  spec.set(std::move(name), std::move(value));
  return sentence<SpecError>([&] { (void)planned<Rotation>(spec, recipe); });
}

TEST(Rotary, EveryScheduleHasTheSharedParameters) {
  EXPECT_EQ(rotations().size(), 9U);
  for (const std::string& name : rotations()) {
    SCOPED_TRACE(name);
    PositionSpec spec = small(name);
    const auto plain = planned<Rotation>(spec);
    EXPECT_EQ(plain.inv_freq.size(), 12U);
    EXPECT_TRUE(plain.axis.empty());
    spec.set("rotary_offset", std::int64_t{16});
    spec.set("pairing", std::string("interleaved"));
    spec.set("write_pairing", std::string("half"));
    spec.set("sign", std::int64_t{-1});
    spec.set("sections", List{4, 5, 3});
    spec.set("divisors", List(12, 4.0));
    const auto rotation = planned<Rotation>(spec);
    EXPECT_EQ(rotation.offset, 16);
    EXPECT_EQ(rotation.read, Pairing::interleaved);
    EXPECT_EQ(rotation.write, Pairing::half);
    EXPECT_EQ(rotation.sign, -1);
    EXPECT_EQ(rotation.axis, (std::vector<std::int64_t>{0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2}));
    EXPECT_EQ(rotation.amplitude, plain.amplitude);
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(rotation.inv_freq[i], plain.inv_freq[i] / 4);
  }
}

TEST(Rotary, ADivisorOf1e30Stops) {
  PositionSpec spec = small("rope");
  List divisors(12, 1.0);
  divisors[3] = 1e30;
  spec.set("divisors", divisors);
  for (const char* recipe : {"exact", "hf", "llama.cpp"}) {
    const auto rotation = planned<Rotation>(spec, recipe);
    const auto table = tables::cos_sin(rotation, find_recipe(recipe).numerics, {16777215});
    EXPECT_EQ(table.c(0, 3), 1);
    EXPECT_LT(std::abs(table.s(0, 3)), 1.0 / (1 << 30));
    EXPECT_NE(table.c(0, 2), 1);
  }
}

TEST(Rotary, TheOtherSignTurnsBack) {
  PositionSpec spec = small("rope");
  const auto there = tables::cos_sin(planned<Rotation>(spec), {}, {2049});
  spec.set("sign", std::int64_t{-1});
  const auto back = tables::cos_sin(planned<Rotation>(spec), {}, {2049});
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(back.c(0, i), there.c(0, i));
    EXPECT_EQ(back.s(0, i), -there.s(0, i));
  }
}

TEST(Rotary, LayoutsOfAxes) {
  using Axes = std::vector<std::int64_t>;
  PositionSpec spec = small("rope");
  const auto axes = [&](List sections, std::string layout, std::string_view recipe = "exact") {
    spec.set("sections", std::move(sections));
    spec.set("axis_layout", std::move(layout));
    return planned<Rotation>(spec, recipe).axis;
  };
  EXPECT_EQ(axes({2, 4, 3, 3}, "chunked"), (Axes{0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3}));
  EXPECT_EQ(axes({4, 4, 4}, "interleaved"), (Axes{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(axes({6, 3, 3}, "interleaved"), (Axes{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0, 0}));
  EXPECT_EQ(axes({6, 3, 3}, "interleaved", "llama.cpp"), (Axes{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 3, 3}));
  EXPECT_EQ(axes({4, 4, 4}, "ernie"), (Axes{1, 2, 1, 2, 1, 2, 1, 2, 0, 0, 0, 0}));
  EXPECT_EQ(axes({8, 8, 8}, "chunked", "sglang"), (Axes{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(axes({5, 5, 7}, "chunked", "sglang"), (Axes{0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2}));
}

TEST(Rotary, ARunningProductRunsOverEveryPairOfAnAxis) {
  PositionSpec spec = small("rope");
  const Numerics numerics = find_recipe("llama.cpp").numerics;
  const auto plain = tables::cos_sin(planned<Rotation>(spec, "llama.cpp"), numerics, {131071});
  spec.set("sections", List{4, 4, 4});
  spec.set("axis_layout", std::string("interleaved"));
  const auto rotation = planned<Rotation>(spec, "llama.cpp");
  std::vector<std::int64_t> positions = {5, 131071, 77};
  std::vector<float> cos(12);
  std::vector<float> sin(12);
  rotation_table(rotation, numerics, View<std::int64_t, 2>(positions.data(), {3, 1}),
                 View<float, 2>(cos.data(), {1, 12}), View<float, 2>(sin.data(), {1, 12}));
  for (std::int64_t i = 1; i < 12; i += 3) {
    EXPECT_EQ(static_cast<double>(cos[static_cast<std::size_t>(i)]), plain.c(0, i)) << i;
    EXPECT_EQ(static_cast<double>(sin[static_cast<std::size_t>(i)]), plain.s(0, i)) << i;
  }
}

TEST(Rotary, RefusesWhatIsNoRotation) {
  const PositionSpec rope = small("rope");
  EXPECT_EQ(refusal(rope, "sign", 0.5), "rope: sign must be 1 or -1, got 0.5");
  EXPECT_EQ(refusal(rope, "sign", std::string("-")), "rope: sign must be a finite number, got \"-\"");
  EXPECT_EQ(refusal(rope, "write_pairing", std::string("none")),
            "rope: write_pairing must be half or interleaved, got \"none\"");
  EXPECT_EQ(refusal(rope, "sections", List{12}), "rope: sections must be 2 to 4 axes, got 1");
  EXPECT_EQ(refusal(rope, "sections", 12.0), "rope: sections must be a list, got 12");
  EXPECT_EQ(refusal(rope, "sections", List{6.5, 5.5}),
            "rope: sections must be whole numbers of pairs, got 6.5");
  EXPECT_EQ(refusal(rope, "sections", List{13, -1}), "rope: sections must be whole numbers of pairs, got -1");
  EXPECT_EQ(refusal(rope, "sections", List{6, 7}), "rope: sections must add up to 12 pairs, got 13");
  EXPECT_EQ(refusal(rope, "sections", List{0, 0}, "sglang"), "rope: sections must add up to 12 pairs, got 0");
  EXPECT_EQ(refusal(rope, "divisors", List(11, 1.0)),
            "rope: divisors must be a list of 12 numbers, got a list of 11");
  EXPECT_EQ(refusal(rope, "divisors", List(12, 0.0)), "rope: divisors must be above 0, got 0");
  EXPECT_EQ(refusal(rope, "divisors", List(12, 1e-320)),
            "rope: theta must give finite frequencies, got 123456");
  PositionSpec two = rope;
  two.set("sections", List{6, 6});
  EXPECT_EQ(refusal(two, "axis_layout", std::string("ernie")),
            "rope: axis_layout must be chunked unless there are 3 sections, got ernie");
}

TEST(Schedules, RefuseWhatTheyCannotCompute) {
  for (const char* name : {"ntk", "dynamic_ntk", "by_parts"}) {
    EXPECT_EQ(refusal(small(name), "rotary_dim", std::int64_t{2}),
              std::string(name) + ": rotary_dim must be above 2, got 2");
  }
  for (const char* name : {"yarn", "by_parts"}) {
    EXPECT_EQ(refusal(small(name), "theta", 1.0), std::string(name) + ": theta must be above 1, got 1");
  }
  for (const char* name : {"linear", "dynamic_ntk", "yarn", "llama3", "proportional", "by_parts"}) {
    EXPECT_EQ(refusal(small(name), "factor", 0.0),
              std::string(name) + ": factor must be a finite number above 0, got 0");
  }
  EXPECT_EQ(refusal(small("dynamic_ntk"), "factor", 0.5), "dynamic_ntk: factor must be at least 1, got 0.5");
  EXPECT_EQ(refusal(small("yarn"), "truncate", std::int64_t{2}),
            "yarn: truncate must be a whole number from 0 to 1, got 2");
  EXPECT_EQ(refusal(small("yarn"), "mscale_all_dim", std::string("x")),
            "yarn: mscale_all_dim must be a finite number, got \"x\"");
  PositionSpec negative = small("yarn");
  negative.set("mscale", -9.0);
  EXPECT_EQ(refusal(negative, "mscale_all_dim", 1.0).substr(0, 49),
            "yarn: factor must give a finite amplitude above 0");
  EXPECT_EQ(refusal(small("longrope"), "long_factor", List(12, -1.0)).substr(0, 41),
            "longrope: long_factor must be above 0, go");
  EXPECT_EQ(refusal(small("longrope"), "short_mscale", 1.1),
            "longrope: long_mscale must be a finite number above 0, got nothing");
  EXPECT_EQ(refusal(small("longrope"), "original_length", std::int64_t{1}),
            "longrope: original_length must be a whole number from 2 to 281474976710656, got 1");
  EXPECT_EQ(refusal(small("llama3"), "low_freq_factor", 5.0),
            "llama3: low_freq_factor must be at most high_freq_factor 4, got 5");
  EXPECT_EQ(refusal(small("proportional"), "proportion", 1.5),
            "proportional: proportion must be at most 1, got 1.5");
}

TEST(Schedules, RefuseWhatTheRecipeCannot) {
  EXPECT_EQ(refusal(small("yarn"), "factor", 8.0, "ctranslate2"),
            "yarn: ctranslate2 has no such schedule, got factor 8");
  EXPECT_EQ(refusal(small("proportional"), "proportion", 0.5, "ctranslate2"),
            "proportional: ctranslate2 has no such schedule, got proportion 0.5");
  for (const char* recipe : {"ctranslate2", "tensorrt-llm", "onnxruntime"}) {
    EXPECT_EQ(
        refusal(small("dynamic_ntk"), "factor", 2.0, recipe),
        std::string("dynamic_ntk: ") + recipe + " has no schedule that follows the length, got factor 2");
  }
}

TEST(Schedules, YarnTakesLengthsFromEachOther) {
  PositionSpec stated = small("yarn");
  stated.set("factor", 4.0);
  stated.set("original_length", std::int64_t{4096});
  PositionSpec derived{"yarn", {}};
  for (const Parameter& one : stated.parameters) {
    if (one.name != "factor") derived.parameters.push_back(one);
  }
  EXPECT_EQ(sentence<SpecError>([&] { (void)planned<Rotation>(derived); }),
            "yarn: factor must be a finite number above 0, got nothing");
  derived.set("max_positions", std::int64_t{16384});
  EXPECT_EQ(planned<Rotation>(derived), planned<Rotation>(stated));
}

TEST(AttentionTemperature, HoldsAndRefuses) {
  PositionSpec spec{"attention_temperature", {}};
  const auto scale = planned<QueryScale>(spec);
  EXPECT_EQ(scale.form, "log_floor");
  EXPECT_EQ(scale.scale, 0.1);
  EXPECT_EQ(scale.floor, 8192);
  EXPECT_EQ(scale.shift, 1);
  spec.set("floor", 0.0, "floor_scale");
  EXPECT_EQ(sentence<SpecError>([&] { (void)planned<QueryScale>(spec); }),
            "attention_temperature: floor (floor_scale) must be a finite number above 0, got 0");
}

}  // namespace
}  // namespace locant
