// SPDX-License-Identifier: Apache-2.0
// `locant inspect` on GGUF files, in this process: the answer, the choice of a file, and bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/host.h"
#include "core/temp_dir.h"
#include "formats/gguf_writer.h"

namespace locant::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using tests::gguf_model;
using tests::GgufModel;
using tests::TempDir;

class TestHost final : public Host {
 public:
  std::ostringstream answer;
  std::ostringstream complaint;
  [[nodiscard]] std::ostream& out() override { return answer; }
  [[nodiscard]] std::ostream& err() override { return complaint; }
  [[nodiscard]] bool out_is_terminal() const override { return false; }
  [[nodiscard]] bool err_is_terminal() const override { return false; }
  [[nodiscard]] std::string environment(const std::string&) const override { return {}; }
  [[nodiscard]] std::string executable() const override { return {}; }
  [[nodiscard]] std::int64_t peak_bytes() const override { return 0; }
};

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

Outcome inspect(std::vector<std::string> args) {
  args.insert(args.begin(), "inspect");
  TestHost host;
  Outcome outcome;
  outcome.status = run(args, host);
  outcome.out = host.answer.str();
  outcome.err = host.complaint.str();
  return outcome;
}

/// Exit 2, nothing on the standard output, one line on the other.
void expect_refused(const Outcome& outcome, const std::string& what) {
  ASSERT_EQ(outcome.status, 2) << what << outcome.err;
  ASSERT_EQ(outcome.out, "") << what;
  ASSERT_THAT(outcome.err, StartsWith("locant: ")) << what;
  ASSERT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << what << outcome.err;
}

TEST(InspectGguf, AnswersAsForOtherModels) {
  const TempDir dir;
  GgufModel model = gguf_model("llama");
  model.zeros("token_embd.weight", {48, 64}, GgmlType::q8_0);
  const std::string path = dir.write("model.gguf", model.bytes());
  const Outcome json = inspect({path, "--json"});
  ASSERT_EQ(json.status, 0) << json.err;
  const auto answer = nlohmann::json::parse(json.out);
  EXPECT_EQ(answer["model"]["format"], "gguf");
  EXPECT_EQ(answer["model"]["family"], "llama");
  EXPECT_EQ(answer["model"]["parameters"], 6208);
  EXPECT_EQ(answer["embedding"]["dtype"], "Q8_0");
  EXPECT_EQ(answer["embedding"]["tensor"], "token_embd.weight");
  EXPECT_EQ(answer["head"]["tensor"], "output.weight");
  EXPECT_EQ(answer["recipe"], "llama.cpp");
  EXPECT_EQ(answer["positions"][0]["pairing"], "interleaved");
  EXPECT_EQ(answer["limits"]["configured"], 4096);
  const Outcome text = inspect({path});
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, HasSubstr("embedding  48 rows of 64, Q8_0 token_embd.weight"));
  EXPECT_THAT(text.out, HasSubstr("positions (recipe llama.cpp)"));
  EXPECT_THAT(inspect({path, "--recipe", "hf"}).out, HasSubstr("positions (recipe hf)"));
}

TEST(InspectGguf, AFolderStandsForItsOnlyFile) {
  const TempDir dir;
  const std::string file = gguf_model("llama").bytes();
  dir.write("model.gguf", file);
  const Outcome one = inspect({dir.path(), "--json"});
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(nlohmann::json::parse(one.out)["model"]["path"], dir.file("model.gguf"));
  dir.write("other.gguf", file);
  const Outcome two = inspect({dir.path()});
  expect_refused(two, "two files");
  EXPECT_THAT(two.err, HasSubstr("holds 2 .gguf files, name one of them: 'model.gguf', 'other.gguf'"));
  const TempDir config;
  config.write("model.gguf", file);
  config.write("config.json", R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
    "num_hidden_layers": 2, "vocab_size": 9, "intermediate_size": 8})");
  const Outcome folder = inspect({config.path(), "--json"});
  ASSERT_EQ(folder.status, 0) << folder.err;
  EXPECT_EQ(nlohmann::json::parse(folder.out)["model"]["format"], "hf") << "a config counts first";
}

TEST(InspectGguf, EveryCutExitsWithTwo) {
  const TempDir dir;
  const std::string file = gguf_model("llama").bytes();
  constexpr std::size_t kData = 2UL * 48 * 64 * sizeof(float) + 64 * sizeof(float);
  const std::size_t header = file.size() - kData;
  const auto refuse = [&](std::size_t size) {
    expect_refused(inspect({dir.write("cut.gguf", file.substr(0, size))}), std::to_string(size) + " bytes ");
  };
  for (std::size_t size = 0; size < header; ++size) refuse(size);
  for (std::size_t i = 0; i < 200; ++i) refuse(header + (file.size() - header) * i / 200);
  EXPECT_EQ(inspect({dir.write("whole.gguf", file)}).status, 0);
}

TEST(InspectGguf, WhatNoModelHasExitsWithTwo) {
  const TempDir dir;
  const auto say = [&](const std::string& bytes) {
    const Outcome outcome = inspect({dir.write("bad.gguf", bytes)});
    expect_refused(outcome, "");
    return outcome.err;
  };
  constexpr std::uint64_t kTooMany = 1ULL << 63U;
  EXPECT_THAT(say(tests::gguf({.pairs = kTooMany})), HasSubstr("9223372036854775808"));
  EXPECT_THAT(say(tests::gguf({.tensors = kTooMany})), HasSubstr("9223372036854775808"));
  EXPECT_THAT(say(tests::gguf({.pairs = 1, .body = tests::raw(kTooMany) + std::string(32, 'k')})),
              HasSubstr("9223372036854775808 bytes"));
  EXPECT_THAT(say(tests::gguf({.pairs = 1, .body = tests::text("k") + tests::raw(std::uint32_t{99})})),
              HasSubstr("99"));
  EXPECT_THAT(say(tests::gguf({.tensors = 1, .body = tests::info({.type = 4})})), HasSubstr("ggml type 4"));
  EXPECT_THAT(say(tests::gguf({.tensors = 2,
                               .body = tests::info({.name = "a"}) + tests::info({.name = "b"}),
                               .data = std::string(64, 'x')})),
              HasSubstr("inside another tensor"));
  EXPECT_THAT(say(gguf_model("llama").set("llama.block_count", 0.5).bytes()),
              HasSubstr("key \"llama.block_count\" is a whole number, got f32"));
  EXPECT_THAT(say(gguf_model("llama").drop("llama.block_count").bytes()),
              HasSubstr("key \"llama.block_count\" must be stated, it is missing"));
  EXPECT_THAT(say("GGUF"), HasSubstr("bad.gguf"));
  EXPECT_THAT(say("PK\x03\x04 something else"), HasSubstr("bad.gguf"));
}

}  // namespace
}  // namespace locant::cli
