// SPDX-License-Identifier: Apache-2.0
// Traces and questions that cannot be answered: one sentence each; rules without evidence are skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/temp_dir.h"
#include "locant/check.h"
#include "locant/formats.h"
#include "locant/trace.h"

namespace locant {
namespace {

using testing::HasSubstr;
using tests::message_of;
using tests::TempDir;

constexpr std::string_view kConfig = R"({"model_type": "llama", "vocab_size": 20, "hidden_size": 8,
  "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "rope_theta": 10000.0})";

class CheckInput : public testing::Test {
 protected:
  CheckInput() : spec_(read_hf_config(folder_.write("config.json", kConfig), Reading::facts)) {}

  /// A trace of ids [1, 3] and one more tensor.
  std::string trace_with(std::string_view name, const TensorRef& tensor) {
    std::string path = folder_.file("t.safetensors");
    TraceWriter writer(path, {});
    writer.record("input_ids", TensorRef(ids_.data(), DType::i64, {1, 3}));
    if (tensor.data != nullptr) writer.record(name, tensor);
    writer.finish();
    return path;
  }
  CheckReport report(const std::string& trace) {
    CheckQuery query;
    query.spec = &spec_;
    query.traces = {trace};
    return check(query);
  }
  std::string refusal(std::string_view name, const TensorRef& tensor) {
    const std::string path = trace_with(name, tensor);
    return message_of<FileError>([&] { (void)report(path); });
  }

  TempDir folder_;
  ModelSpec spec_;
  std::vector<std::int64_t> ids_{3, 4, 5};
  std::vector<float> floats_ = std::vector<float>(256, 0.5F);
  std::vector<std::int64_t> integers_ = std::vector<std::int64_t>(64, 1);
};

TEST_F(CheckInput, RefusesTensorsOfAnotherShape) {
  EXPECT_THAT(refusal("attention_mask", TensorRef(integers_.data(), DType::i64, {2, 3})),
              HasSubstr("attention_mask is [1,*], got [2,3]"));
  EXPECT_THAT(refusal("attention_mask", TensorRef(integers_.data(), DType::i64, {1, 2})),
              HasSubstr("attention_mask is [1,3], got [1,2]"));
  EXPECT_THAT(refusal("position_ids", TensorRef(integers_.data(), DType::i64, {1, 4})),
              HasSubstr("position_ids is [*,3]"));
  EXPECT_THAT(refusal("segment_ids", TensorRef(integers_.data(), DType::i64, {1, 2})),
              HasSubstr("segment_ids is [1,3]"));
  EXPECT_THAT(refusal("embed.tokens", TensorRef(floats_.data(), DType::f32, {1, 2, 8})),
              HasSubstr("embed.tokens is [1,3,width]"));
  EXPECT_THAT(refusal("layers.0.attn.scores", TensorRef(floats_.data(), DType::f32, {1, 2, 2, 3})),
              HasSubstr("layers.0.attn.scores is [1,heads,3,keys]"));
}

TEST_F(CheckInput, RefusesTensorsOfAnotherKind) {
  EXPECT_THAT(refusal("position_ids", TensorRef(floats_.data(), DType::f32, {1, 3})),
              HasSubstr("integers are needed, got f32"));
  EXPECT_THAT(refusal("embed.tokens", TensorRef(integers_.data(), DType::i64, {1, 3, 8})),
              HasSubstr("floats are needed, got i64"));
}

TEST_F(CheckInput, SkipsWhatHasNoEvidence) {
  const CheckReport found = report(trace_with("", {}));
  EXPECT_TRUE(found.findings.empty());
  const auto skipped = [&](std::string_view id) {
    return std::any_of(found.skipped.begin(), found.skipped.end(),
                       [&](const Skipped& one) { return one.rule->id == id; });
  };
  for (const std::string_view id : {"R101", "B102", "T101", "E101", "P101"}) EXPECT_TRUE(skipped(id)) << id;
  EXPECT_EQ(found.passed.size() + found.skipped.size(), rules().size());
}

TEST_F(CheckInput, SelectsAndIgnores) {
  CheckQuery query;
  query.spec = &spec_;
  query.select = {"R1", "slopes"};
  query.ignore = {"R101"};
  const CheckReport found = check(query);
  for (const Skipped& one : found.skipped)
    EXPECT_TRUE(one.rule->id.starts_with("R1") || one.rule->id == "B101");
  EXPECT_TRUE(std::none_of(found.skipped.begin(), found.skipped.end(),
                           [](const Skipped& one) { return one.rule->id == "R101"; }));
  query.select = {"R9"};
  EXPECT_THAT(message_of<SpecError>([&] { (void)check(query); }), HasSubstr("got \"R9\""));
  query.select = {};
  query.recipe = "hff";
  EXPECT_THAT(message_of<SpecError>([&] { (void)check(query); }), HasSubstr("hf"));
}

TEST_F(CheckInput, AsksNothingOfAModelThatIsNotThere) {
  CheckQuery query;
  query.traces = {trace_with("position_ids", TensorRef(ids_.data(), DType::i64, {1, 3}))};
  const CheckReport found = check(query);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_EQ(found.findings[0].rule->id, "P103");
}

TEST_F(CheckInput, TakesPositionZeroForNoAnswer) {
  // one token at position 0 is rotated by nothing: theta, pairing and the rest are not to be told
  const std::vector<std::int64_t> one{3};
  const std::string path = folder_.file("one.safetensors");
  TraceWriter writer(path, {});
  writer.record("input_ids", TensorRef(one.data(), DType::i64, {1, 1}));
  for (const char* const name :
       {"layers.0.attn.q_pre", "layers.0.attn.q", "layers.0.attn.k_pre", "layers.0.attn.k"})
    writer.record(name, TensorRef(floats_.data(), DType::f32, {1, 1, 2, 4}));
  writer.finish();
  const CheckReport found = report(path);
  EXPECT_TRUE(found.findings.empty());
  for (const Rule* const rule : found.passed)
    EXPECT_FALSE(rule->id == "R106" || rule->id == "R103") << rule->id;
}

}  // namespace
}  // namespace locant
