// SPDX-License-Identifier: Apache-2.0
// One fault at a time in a made trace: the right rule speaks, no other does; without a fault none does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check/made_trace.h"
#include "check/small_configs.h"

namespace locant {
namespace {

using tests::bloom;
using tests::Json;
using tests::MadeTrace;
using tests::opt;
using tests::partial;
using tests::Recording;
using Where = Recording::Where;

/// Six heads share two keys; heads of 12; theta is not the usual one.
Json llama() {
  return {{"model_type", "llama"},
          {"vocab_size", 97},
          {"hidden_size", 40},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 6},
          {"num_key_value_heads", 2},
          {"head_dim", 12},
          {"intermediate_size", 24},
          {"max_position_embeddings", 512},
          {"tie_word_embeddings", false},
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 50000.0}}}};
}

Json scaled(Json block) {
  Json config = llama();
  config["rope_parameters"] = std::move(block);
  return config;
}

Json llama3() {
  return scaled({{"rope_type", "llama3"},
                 {"rope_theta", 50000.0},
                 {"factor", 8.0},
                 {"low_freq_factor", 1.0},
                 {"high_freq_factor", 4.0},
                 {"original_max_position_embeddings", 64}});
}

Json yarn() {
  return scaled({{"rope_type", "yarn"},
                 {"rope_theta", 50000.0},
                 {"factor", 4.0},
                 {"original_max_position_embeddings", 128}});
}

Json xglm() {
  return {{"model_type", "xglm"}, {"vocab_size", 97},        {"d_model", 40},
          {"num_layers", 2},      {"attention_heads", 4},    {"ffn_dim", 24},
          {"pad_token_id", 1},    {"scale_embedding", true}, {"max_position_embeddings", 512}};
}

Json dynamic_ntk() {
  Json config = scaled({{"rope_type", "dynamic"}, {"rope_theta", 50000.0}, {"factor", 2.0}});
  config["max_position_embeddings"] = 64;
  return config;
}

Json gemma() {
  return {{"model_type", "gemma"},  {"vocab_size", 97},         {"hidden_size", 40},
          {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"num_key_value_heads", 1},
          {"head_dim", 12},         {"intermediate_size", 24},  {"max_position_embeddings", 512},
          {"rope_theta", 10000.0}};
}

Json window() {
  Json config = llama();
  config["model_type"] = "mistral";
  config["sliding_window"] = 8;
  return config;
}

/// What a config says of the first layer after that many tokens.
Rotation rotation_of(const Json& config, std::int64_t seen) {
  const tests::TempDir folder;
  write_file(folder.file("config.json"), config.dump());
  const ModelSpec spec = read_hf_config(folder.file("config.json"), Reading::facts);
  return *plan(spec.positions, find_recipe("exact"), Extent{.seen = seen}).kinds.front().rotation;
}

std::vector<std::string> rules_of(const CheckReport& report) {
  std::vector<std::string> ids;
  for (const Finding& finding : report.findings) {
    const std::string id(finding.rule->id);
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

std::string text_of(const CheckReport& report) {
  std::string text;
  for (const Finding& finding : report.findings)
    text += std::string(finding.rule->id) + " " + finding.message + "\n";
  for (const Explained& explained : report.explained)
    text += "  explained by " + explained.by + ": " + std::string(explained.finding.rule->id) + " " +
            explained.finding.message + "\n";
  return text;
}

struct Case {
  std::string name;
  std::vector<std::string> rules;
  Recording recording;
  std::vector<std::string> words{};  ///< of the first finding's message
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

Recording made(
    Json config, const std::function<void(Recording&)>& change = [](Recording&) {}) {
  Recording recording;
  recording.config = std::move(config);
  change(recording);
  return recording;
}

std::vector<Case> clean_cases() {
  return {
      {"llama", {}, made(llama())},
      {"llama steps", {}, made(llama(), [](Recording& r) { r.steps = 4; })},
      {"llama padded",
       {},
       made(llama(),
            [](Recording& r) {
              r.lengths = {17, 24};
              r.with_mask = true;
              r.steps = 3;
            })},
      {"llama tables", {}, made(llama(), [](Recording& r) { r.with_tables = true; })},
      {"llama bf16",
       {},
       made(llama(),
            [](Recording& r) {
              r.dtype = DType::bf16;
              r.lengths = {300};
            })},
      {"llama far", {}, made(llama(), [](Recording& r) { r.lengths = {400}; })},
      {"llama3", {}, made(llama3(), [](Recording& r) { r.lengths = {200}; })},
      {"yarn", {}, made(yarn(), [](Recording& r) { r.lengths = {200}; })},
      {"partial", {}, made(partial())},
      {"partial bf16", {}, made(partial(), [](Recording& r) { r.dtype = DType::bf16; })},
      {"bloom", {}, made(bloom(), [](Recording& r) { r.steps = 2; })},
      {"bloom padded",
       {},
       made(bloom(),
            [](Recording& r) {
              r.lengths = {24, 17};
              r.with_mask = true;
            })},
      {"opt",
       {},
       made(opt(),
            [](Recording& r) {
              r.lengths = {17, 24};
              r.with_mask = true;
              r.steps = 2;
            })},
      {"gemma", {}, made(gemma())},
      {"xglm", {}, made(xglm(), [](Recording& r) { r.steps = 2; })},
      {"dynamic", {}, made(dynamic_ntk(), [](Recording& r) { r.lengths = {100}; })},
      {"tables in steps",
       {},
       made(llama(),
            [](Recording& r) {
              r.with_tables = true;
              r.steps = 2;
            })},
      {"gemma bf16", {}, made(gemma(), [](Recording& r) { r.dtype = DType::bf16; })},
      {"window", {}, made(window(), [](Recording& r) { r.steps = 2; })},
      {"documents",
       {},
       made(llama(),
            [](Recording& r) {
              r.documents = {10, 14};
            })},
  };
}

double first_of(const Where& at) {
  return at.step > 0 ? 0 : static_cast<double>(at.due);
}
bool is_qk(const Where& at) {
  return at.tensor == "q" || at.tensor == "k";
}

std::vector<Case> fault_cases() {
  std::vector<Case> all;
  const auto add = [&](std::string name, std::vector<std::string> rules, Recording recording,
                       std::vector<std::string> words = {}) {
    all.push_back({std::move(name), std::move(rules), std::move(recording), std::move(words)});
  };
  // positions
  add("decode at 0", {"P101"},
      made(llama(),
           [](Recording& r) {
             r.steps = 3;
             r.position = first_of;
           }),
      {"position 0", "24"});
  add("upper layers one further", {"P102"},
      made(llama(),
           [](Recording& r) {
             r.steps = 3;
             r.position = [](const Where& at) {
               return static_cast<double>(at.due) + (at.step > 0 && at.layer >= 1 && is_qk(at) ? 1 : 0);
             };
           }),
      {"layer 1", "skips 1 position", "24"});
  add("prompt length added again", {"P102"},
      made(llama(),
           [](Recording& r) {
             r.steps = 3;
             r.position = [](const Where& at) {
               return static_cast<double>(at.due) + (at.step > 0 ? 24 : 0);
             };
           }),
      {"24"});
  add("window of one position", {"P101"},
      made(llama(),
           [](Recording& r) {
             r.position = [](const Where& at) {
               return static_cast<double>(std::min<std::int64_t>(at.due, 20));
             };
           }),
      {"position 20", "4 tokens"});
  add("back after eviction", {"P108"},
      made(llama(),
           [](Recording& r) {
             r.steps = 4;
             r.position = [](const Where& at) {
               return static_cast<double>(at.due) - (at.step >= 2 ? 9 : 0);
             };
           }),
      {"16", "25"});
  add("pads counted", {"P104"},
      made(opt(),
           [](Recording& r) {
             r.lengths = {17, 24};
             r.with_mask = true;
             r.with_ids = false;
             r.position = [](const Where& at) { return static_cast<double>(at.due + at.pads); };
           }),
      {"7 pads"});
  add("pads counted in the prompt alone", {"P104"},
      made(llama(),
           [](Recording& r) {
             r.lengths = {17, 24};
             r.with_mask = true;
             r.steps = 2;
             r.position = [](const Where& at) {
               return static_cast<double>(at.due + (at.step == 0 ? at.pads : 0));
             };
           }),
      {});
  add("over the batch", {"P105"},
      made(opt(),
           [](Recording& r) {
             r.lengths = {24, 24};
             r.position = [](const Where& at) { return static_cast<double>(at.due + 24 * at.row); };
           }),
      {"24"});
  add("no reset at a document", {"P107"},
      made(llama(),
           [](Recording& r) {
             r.documents = {10, 14};
             r.position = [](const Where& at) { return static_cast<double>(at.token); };
           }),
      {"10"});
  add("reset in a document", {"P106"},
      made(llama(),
           [](Recording& r) {
             r.position = [](const Where& at) { return static_cast<double>(at.due % 13); };
           }),
      {"13"});
  add("q later than k", {"P103"},
      made(llama(),
           [](Recording& r) {
             r.position = [](const Where& at) {
               return static_cast<double>(at.due + (at.tensor == "q" ? 3 : 0));
             };
           }),
      {"+3"});
  // rotation
  add("theta default", {"R106"},
      made(llama(),
           [](Recording& r) {
             r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) {
               for (std::size_t p = 0; p < rotation.inv_freq.size(); ++p)
                 rotation.inv_freq[p] = std::pow(10000.0, -static_cast<double>(p) / 6);
             };
           }),
      {"10000", "50000"});
  add("theta 70000", {"R106"},
      made(llama(),
           [](Recording& r) {
             r.lengths = {120};
             r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) {
               for (std::size_t p = 0; p < rotation.inv_freq.size(); ++p)
                 rotation.inv_freq[p] = std::pow(70000.0, -static_cast<double>(p) / 6);
             };
           }),
      {"theta 70000"});
  add("twice", {"R103"}, made(llama(), [](Recording& r) { r.rotations = 2; }), {"twice"});
  add("missing on k", {"R104"},
      made(llama(),
           [](Recording& r) {
             r.rotation = [](Rotation& rotation, std::int64_t, const std::string& tensor) {
               if (tensor == "k") std::fill(rotation.inv_freq.begin(), rotation.inv_freq.end(), 0.0);
             };
           }),
      {"k in layers 0 to 2"});
  add("other way", {"R105"}, made(llama(), [](Recording& r) {
        r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) { rotation.sign = -1; };
      }));
  add("interleaved", {"R101"},
      made(llama(),
           [](Recording& r) {
             r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) {
               rotation.read = rotation.write = Pairing::interleaved;
             };
           }),
      {"interleaved"});
  add("crossed table", {"R101"}, made(llama(), [](Recording& r) { r.crossed_table = true; }), {"laid out"});
  add("whole head", {"R102"},
      made(partial(),
           [](Recording& r) {
             r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) {
               rotation.width = rotation.head_dim;
               rotation.inv_freq.clear();
               for (std::int64_t p = 0; p < rotation.width / 2; ++p)
                 rotation.inv_freq.push_back(
                     std::pow(20000.0, -2.0 * static_cast<double>(p) / static_cast<double>(rotation.width)));
             };
           }),
      {"0 to 15", "0 to 7"});
  add("llama3 missing", {"R107"},
      made(llama3(),
           [](Recording& r) {
             r.lengths = {200};
             r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) {
               for (std::size_t p = 0; p < rotation.inv_freq.size(); ++p)
                 rotation.inv_freq[p] = std::pow(50000.0, -static_cast<double>(p) / 6);
             };
           }),
      {"llama3 is not applied"});
  add("amplitude missing", {"R108"},
      made(yarn(),
           [](Recording& r) {
             r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) {
               rotation.amplitude = 1;
             };
           }),
      {"not applied", "1.1386"});
  add("amplitude squared", {"R108"},
      made(yarn(),
           [](Recording& r) {
             r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) {
               rotation.amplitude *= rotation.amplitude;
             };
           }),
      {"twice"});
  add("bf16 positions", {"R112"},
      made(llama(),
           [](Recording& r) {
             r.lengths = {400};
             r.position = [](const Where& at) {
               return at.tensor == "ids"
                          ? static_cast<double>(at.due)
                          : static_cast<double>(f32_from(bfloat16_from_f32(static_cast<float>(at.due))));
             };
           }),
      {"positions are rounded to bf16"});
  add("bf16 frequencies", {"R112"},
      made(llama(),
           [](Recording& r) {
             r.frequency = [](double f) {
               return static_cast<double>(f32_from(bfloat16_from_f32(static_cast<float>(f))));
             };
           }),
      {"frequencies are rounded to bf16"});
  add("halved frequencies", {"R107"},
      made(llama(),
           [](Recording& r) {
             r.lengths = {60};
             r.frequency = [](double f) { return f / 3; };
           }),
      {"3"});
  // tables
  add("table theta", {"T101"},
      made(llama(),
           [](Recording& r) {
             r.with_tables = true;
             r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) {
               for (std::size_t p = 0; p < rotation.inv_freq.size(); ++p)
                 rotation.inv_freq[p] = std::pow(10000.0, -static_cast<double>(p) / 6);
             };
           }),
      {"10000"});
  add("table junk", {"T104"}, made(llama(), [](Recording& r) {
        r.with_tables = true;
        r.with_q_pre = false;
        r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) {
          for (std::size_t p = 0; p < rotation.inv_freq.size(); ++p)
            rotation.inv_freq[p] = std::fmod(7.77 * static_cast<double>(p + 1), 1.3);
        };
      }));
  add("table not finite", {"T104"},
      made(llama(),
           [](Recording& r) {
             r.with_tables = true;
             r.not_finite = std::nan("");
           }),
      {"not finite"});
  add("table swapped", {"T104"},
      made(llama(),
           [](Recording& r) {
             r.with_tables = true;
             r.swapped_table = true;
           }),
      {"swapped"});
  add("table at 0 in steps", {"P101"},
      made(llama(),
           [](Recording& r) {
             r.with_tables = true;
             r.steps = 2;
             r.position = [](const Where& at) {
               return at.tensor == "ids" ? static_cast<double>(at.due) : first_of(at);
             };
           }),
      {"rope.cos", "position 0"});
  add("table of doubled positions", {"P109"},
      made(llama(),
           [](Recording& r) {
             r.with_tables = true;
             r.position = [](const Where& at) {
               return static_cast<double>(at.due) * (at.tensor == "ids" ? 1 : 2);
             };
           }),
      {"multiplied by 2"});
  add("theta in prompt and steps", {"R106"},
      made(llama(),
           [](Recording& r) {
             r.lengths = {120};
             r.steps = 2;
             r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) {
               for (std::size_t p = 0; p < rotation.inv_freq.size(); ++p)
                 rotation.inv_freq[p] = std::pow(1.7e6, -static_cast<double>(p) / 6);
             };
           }),
      {"theta 1.7e+06"});
  add("llama3 factor", {"R107"},
      made(llama3(),
           [](Recording& r) {
             r.lengths = {200};
             r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) {
               Json config = llama3();
               config["rope_parameters"]["factor"] = 5.0;
               rotation.inv_freq = rotation_of(config, 200).inv_freq;
             };
           }),
      {"factor 5"});
  add("llama3 unasked", {"R107"},
      made(llama(),
           [](Recording& r) {
             r.lengths = {200};
             r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) {
               rotation.inv_freq = rotation_of(llama3(), 200).inv_freq;
             };
           }),
      {"fast pairs stay", "by 8"});
  add("base of a longer text", {"R107"},
      made(dynamic_ntk(),
           [](Recording& r) {
             r.lengths = {120};
             r.rotation = [](Rotation& rotation, std::int64_t, const std::string&) {
               rotation.inv_freq = rotation_of(dynamic_ntk(), 5000).inv_freq;
             };
           }),
      {"5000 tokens seen"});
  add("rows left unwritten", {"R104"},
      made(llama(),
           [](Recording& r) {
             r.lengths = {24, 24};
             r.steps = 2;
             r.zero_rows = 1;
           }),
      {"row 1 is not written"});
  add("wrong partner", {"R102"}, made(partial(), [](Recording& r) { r.partner = 8; }),
      {"0 to 3 with 8 to 11"});
  add("over the batch in the prompt alone", {"P105"},
      made(opt(),
           [](Recording& r) {
             r.lengths = {24, 24};
             r.steps = 2;
             r.position = [](const Where& at) {
               return static_cast<double>(at.due + (at.step == 0 ? 24 * at.row : 0));
             };
           }),
      {"up to step 1"});
  add("offset grows", {"P103"},
      made(opt(),
           [](Recording& r) {
             r.steps = 3;
             r.position = [](const Where& at) {
               return static_cast<double>(at.due + (at.tensor == "embedding" ? 2 * (at.step + 1) : 0));
             };
           }),
      {"+2 more with each call"});
  add("sine in interleaved columns", {"E107"},
      made(xglm(),
           [](Recording& r) { r.sinusoid = [](PositionEmbedding& e) { e.columns = Columns::interleaved; }; }),
      {"interleaved columns", "d/2 - 1"});
  add("sine counts half the width", {"E107"},
      made(xglm(),
           [](Recording& r) {
             r.sinusoid = [](PositionEmbedding& e) {
               for (std::size_t i = 0; i < e.inv_freq.size(); ++i)
                 e.inv_freq[i] = std::pow(10000.0, -static_cast<double>(i) / 20);
             };
           }),
      {"by d/2"});
  add("sine times the root of d", {"E107"},
      made(xglm(), [](Recording& r) { r.sinusoid_times = std::sqrt(40.0); }), {"sqrt(d)"});
  // scores
  add("slopes twice", {"B101"},
      made(bloom(), [](Recording& r) { r.slope = [](double s, std::int64_t) { return 2 * s; }; }),
      {"doubled"});
  add("slopes sign", {"B101"},
      made(bloom(), [](Recording& r) { r.slope = [](double s, std::int64_t) { return -s; }; }), {"sign"});
  add("slopes none", {"B101"},
      made(bloom(), [](Recording& r) { r.slope = [](double, std::int64_t) { return 0.0; }; }), {"no slopes"});
  add("slopes geometric", {"B101"},
      made(bloom(),
           [](Recording& r) {
             r.slope = [](double, std::int64_t head) {
               return std::pow(2.0, -8.0 * static_cast<double>(head + 1) / 6);
             };
           }),
      {"geometric"});
  add("slopes of a shard", {"B101"},
      made(bloom(),
           [](Recording& r) {
             r.slope = [](double, std::int64_t head) {
               return std::array{0.25, 0.0625, 0.015625}.at(static_cast<std::size_t>(head % 3));
             };
           }),
      {"shard"});
  add("scale missing", {"B102"}, made(llama(), [](Recording& r) { r.scale = std::sqrt(12.0); }),
      {"not scaled"});
  add("pads seen", {"B103"},
      made(llama(),
           [](Recording& r) {
             r.lengths = {17, 24};
             r.with_mask = true;
             r.sees = [](bool due, std::int64_t row, std::int64_t query, std::int64_t key) {
               return due || (row == 0 && key < 7 && key <= query);
             };
           }),
      {"padding"});
  add("future seen", {"B104"},
      made(llama(),
           [](Recording& r) {
             r.sees = [](bool due, std::int64_t, std::int64_t query, std::int64_t key) {
               return due || key == query + 1;
             };
           }),
      {"later"});
  add("window too wide", {"B105"},
      made(window(),
           [](Recording& r) {
             r.sees = [](bool due, std::int64_t, std::int64_t query, std::int64_t key) {
               return due || (key <= query && query - key == 8);
             };
           }),
      {"8 tokens"});
  add("window too narrow", {"B108"}, made(window(), [](Recording& r) {
        r.sees = [](bool due, std::int64_t, std::int64_t query, std::int64_t key) {
          return due && query - key < 7;
        };
      }));
  add("pads seen in steps", {"B103"},
      made(llama(),
           [](Recording& r) {
             r.lengths = {17, 24};
             r.with_mask = true;
             r.steps = 2;
             r.sees = [](bool due, std::int64_t row, std::int64_t query, std::int64_t key) {
               return due || (row == 0 && key < 7 && query >= 24);
             };
           }),
      {"padding"});
  add("document leak", {"B106"},
      made(llama(),
           [](Recording& r) {
             r.documents = {10, 14};
             r.sees = [](bool, std::int64_t, std::int64_t query, std::int64_t key) { return key <= query; };
           }),
      {"another document"});
  // embedding and head
  add("embedding scale missing", {"E101"},
      made(gemma(), [](Recording& r) { r.embedding_scale = 1 / std::sqrt(40.0); }), {"not applied"});
  add("embedding scale twice", {"E101"},
      made(gemma(), [](Recording& r) { r.embedding_scale = std::sqrt(40.0); }), {"twice"});
  add("row offset", {"E103"}, made(llama(), [](Recording& r) { r.row_offset = 2; }), {"+2"});
  add("positions twice", {"E105"}, made(opt(), [](Recording& r) { r.positions_times = 2; }), {"twice"});
  add("offset missing", {"P103"},
      made(opt(),
           [](Recording& r) {
             r.position = [](const Where& at) {
               return static_cast<double>(at.due - (at.tensor == "embedding" ? 2 : 0));
             };
           }),
      {"-2"});
  add("head of the embedding", {"E108"}, made(llama(), [](Recording& r) { r.head_from_embedding = true; }),
      {"model.embed_tokens.weight"});
  add("logits scaled", {"E109"}, made(llama(), [](Recording& r) { r.logit_factor = 0.0625; }), {"0.0625"});
  return all;
}

class CheckClean : public testing::TestWithParam<Case> {};
TEST_P(CheckClean, FindsNothing) {
  const MadeTrace trace(GetParam().recording);
  for (const std::string recipe : {"exact", "hf"}) {
    const CheckReport report = trace.check(recipe);
    EXPECT_THAT(rules_of(report), testing::IsEmpty()) << recipe << "\n" << text_of(report);
    EXPECT_FALSE(report.passed.empty());
  }
}

class CheckFault : public testing::TestWithParam<Case> {};
TEST_P(CheckFault, IsNamed) {
  const MadeTrace trace(GetParam().recording);
  const CheckReport report = trace.check();
  EXPECT_THAT(rules_of(report), testing::UnorderedElementsAreArray(GetParam().rules)) << text_of(report);
  if (report.findings.empty()) return;
  for (const std::string& word : GetParam().words)
    EXPECT_THAT(report.findings.front().message, testing::HasSubstr(word));
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  std::string name;
  for (const char c : info.param.name) name += c == ' ' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Made, CheckClean, testing::ValuesIn(clean_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Made, CheckFault, testing::ValuesIn(fault_cases()), name_of_case);

}  // namespace
}  // namespace locant
