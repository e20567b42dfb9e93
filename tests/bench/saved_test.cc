// SPDX-License-Identifier: Apache-2.0
// Runs kept as JSON: pieces make a table, a cut leaves a whole file, other machines are refused.
#include "saved.h"

#include <gtest/gtest.h>

#include "core/temp_dir.h"
#include "locant/core.h"

namespace locant::bench {
namespace {

using tests::TempDir;

Json row(int number, const char* dtype, double ns, const char* flags = "") {
  return {{"row", number}, {"operation", "rotation"}, {"shape", "T=1"}, {"dtype", dtype}, {"threads", 1},
          {"ns", ns},      {"flags", flags}};
}

Json run(const Json& rows, const char* cpu = "one") {
  return {{"version", "1"},
          {"machine", {{"cpu", cpu}, {"target", "AVX2"}, {"forced", false}, {"threads", {1}}}},
          {"peers", {{"torch", "torch 2"}}},
          {"peers_missing", {{"ggml", "not installed"}}},
          {"limits", {{"1", {{"fma", 1}}}}},
          {"rows_known", 4},
          {"rows", rows}};
}

Json array(std::initializer_list<Json> rows) {
  Json all = Json::array();
  for (const Json& one : rows) all.push_back(one);
  return all;
}

TEST(Saved, RowsMeasuredNowReplaceTheirOwnAndTheOthersStay) {
  const Json before = run(array({row(2, "f32", 10), row(4, "bf16", 20)}));
  const Json now = run(array({row(3, "f16", 7), row(2, "f32", 11, "--quick"), row(0, "i8", 9)}));
  const Json both = merged(before, now);
  ASSERT_EQ(both["rows"].size(), 4U);
  EXPECT_EQ(both["rows"][0], row(2, "f32", 11, "--quick"));
  EXPECT_EQ(both["rows"][1], row(3, "f16", 7));
  EXPECT_EQ(both["rows"][2], row(4, "bf16", 20));
  EXPECT_EQ(both["rows"][3], row(0, "i8", 9));
}

TEST(Saved, NothingBeforeIsTheRunItself) {
  const Json now = run(array({row(2, "f32", 10)}));
  EXPECT_EQ(merged(nullptr, now), now);
}

TEST(Saved, PeersOfBothRunsAreNamedAndMissOnlyWhatNeitherHad) {
  Json before = run(array({row(2, "f32", 10)}));
  before["peers"] = {{"torch", "torch 1"}, {"ggml", "ggml 1"}};
  Json now = run(array({row(3, "f32", 10)}));
  now["peers_missing"]["openvino"] = "not installed";
  const Json both = merged(before, now);
  EXPECT_EQ(both["peers"], (Json{{"torch", "torch 2"}, {"ggml", "ggml 1"}}));
  EXPECT_EQ(both["peers_missing"], (Json{{"openvino", "not installed"}}));
}

TEST(Saved, AWrittenRunIsReadBackAndNothingElseIsLeft) {
  const TempDir dir;
  const std::string path = dir.file("run.json");
  const Json now = run(array({row(2, "f32", 10)}));
  EXPECT_TRUE(saved_run(path, now).is_null());
  write_whole(path, run(Json::array()));
  write_whole(path, now);
  EXPECT_EQ(saved_run(path, now), now);
  EXPECT_EQ(dir.names(), std::set<std::string>{"run.json"});
}

TEST(Saved, AFolderThatIsNotThereIsAnError) {
  const TempDir dir;
  EXPECT_THROW(write_whole(dir.file("none/run.json"), run(Json::array())), FileError);
}

TEST(Saved, OtherFilesAndOtherMachinesAreRefusedBeforeAnythingIsMeasured) {
  const TempDir dir;
  const std::string path = dir.file("run.json");
  const Json now = run(Json::array());
  dir.write("run.json", R"({"rows": [)");
  EXPECT_THROW((void)saved_run(path, now), FileError);
  write_whole(path, run(Json::array(), "two"));
  EXPECT_THROW((void)saved_run(path, now), FileError);
}

TEST(Saved, ARowIsThereWhereItWasTimedUnderTheSameFlagsByTheSameVersion) {
  Json wrong = row(2, "bf16", 0);
  wrong["ns"] = nullptr;
  const Json before = run(array({row(2, "f32", 10), row(2, "f16", 10, "--quick"), wrong}));
  Json now = run(Json::array());
  EXPECT_TRUE(has_row(before, now, row(2, "f32", 1)));
  EXPECT_FALSE(has_row(before, now, row(2, "f16", 1)));
  EXPECT_FALSE(has_row(before, now, row(2, "bf16", 1)));
  EXPECT_FALSE(has_row(before, now, row(2, "i8", 1)));
  EXPECT_FALSE(has_row(nullptr, now, row(2, "f32", 1)));
  now["version"] = "2";
  EXPECT_FALSE(has_row(before, now, row(2, "f32", 1)));
}

}  // namespace
}  // namespace locant::bench
