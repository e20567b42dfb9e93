// SPDX-License-Identifier: Apache-2.0
// A clean recording beside one with a fault: the tensor where they part, and the cause that leads. And the
// recorded faults of releases beside their twins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "check/made_trace.h"
#include "check/small_configs.h"
#include "locant/check.h"

namespace locant {
namespace {

using testing::HasSubstr;
using tests::bloom;
using tests::Json;
using tests::MadeTrace;
using tests::opt;
using tests::partial;
using tests::Recording;
using Where = Recording::Where;

Json llama() {
  return {{"model_type", "llama"},
          {"vocab_size", 97},
          {"hidden_size", 40},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 6},
          {"num_key_value_heads", 2},
          {"head_dim", 12},
          {"intermediate_size", 24},
          {"max_position_embeddings", 512},
          {"tie_word_embeddings", false},
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 50000.0}}}};
}

Json llama3() {
  Json config = llama();
  config["rope_parameters"] = {{"rope_type", "llama3"},   {"rope_theta", 50000.0},
                               {"factor", 8.0},           {"low_freq_factor", 1.0},
                               {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 64}};
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

struct Fault {
  std::string name;
  Recording clean;
  std::function<void(Recording&)> put_in;
  std::string tensor;
  std::string cause;
  std::int64_t step = 0;
};

Recording of(Json config) {
  Recording recording;
  recording.config = std::move(config);
  return recording;
}

Recording with(Json config, const std::function<void(Recording&)>& change) {
  Recording recording = of(std::move(config));
  change(recording);
  return recording;
}

bool rotates(const Where& at) {
  return at.tensor == "q" || at.tensor == "k";
}

std::vector<Fault> position_faults() {
  std::vector<Fault> all;
  all.push_back({"positions 3 too high", of(llama()),
                 [](Recording& r) {
                   r.position = [](const Where& at) {
                     return static_cast<double>(at.due + (rotates(at) ? 3 : 0));
                   };
                 },
                 "layers.0.attn.q", "positions are 3 too high from token 0 of row 0 on: 3 where 0 is due"});
  all.push_back({"far out", with(llama(), [](Recording& r) { r.lengths = {300}; }),
                 [](Recording& r) {
                   r.position = [](const Where& at) {
                     return static_cast<double>(at.due + (rotates(at) && at.due >= 256 ? -1 : 0));
                   };
                 },
                 "layers.0.attn.q", "positions are 1 too low from token 256 of row 0 on"});
  all.push_back({"padding counted in one row",
                 with(llama(),
                      [](Recording& r) {
                        r.lengths = {24, 17};
                        r.with_mask = true;
                      }),
                 [](Recording& r) {
                   r.position = [](const Where& at) {
                     return static_cast<double>(at.due + (rotates(at) ? at.pads : 0));
                   };
                 },
                 "layers.0.attn.q", "positions are 7 too high from token 0 of row 1 on"});
  all.push_back({"a decoded token stands still", with(llama(), [](Recording& r) { r.steps = 4; }),
                 [](Recording& r) {
                   r.position = [](const Where& at) {
                     return static_cast<double>(at.due - (rotates(at) && at.step == 2 ? 1 : 0));
                   };
                 },
                 "layers.0.attn.q", "token 25 of row 0 stands at position 24 where 25 is due", 2});
  all.push_back({"stated positions", of(llama()),
                 [](Recording& r) {
                   r.position = [](const Where& at) {
                     return static_cast<double>(at.due + (at.tensor == "ids" ? 2 : 0));
                   };
                 },
                 "position_ids", "row 0: positions are 2 too high: 2 where 0 is due"});
  all.push_back({"learned rows", of(opt()),
                 [](Recording& r) {
                   r.position = [](const Where& at) {
                     return static_cast<double>(at.due + (at.tensor == "embedding" ? 2 : 0));
                   };
                 },
                 "embed.positions", "the row of a position 2 higher is taken"});
  return all;
}

std::vector<Fault> rotation_faults() {
  std::vector<Fault> all;
  const auto rotation = [](void (*change)(Rotation&)) {
    return [change](Recording& r) {
      r.rotation = [change](Rotation& turned, std::int64_t, const std::string&) { change(turned); };
    };
  };
  const auto theta = [](Rotation& turned) {
    for (std::size_t p = 0; p < turned.inv_freq.size(); ++p)
      turned.inv_freq[p] =
          std::pow(10000.0, -2.0 * static_cast<double>(p) / static_cast<double>(turned.width));
  };
  all.push_back(
      {"theta", of(llama()), rotation(theta), "layers.0.attn.q", "theta is 10000 where 50000 is due"});
  all.push_back({"theta of a partial rotation", of(partial()), rotation(theta), "layers.0.attn.q",
                 "theta is 10000 where 20000 is due"});
  all.push_back({"theta of a table", with(llama(), [](Recording& r) { r.with_tables = true; }),
                 rotation(theta), "rope.cos", "theta is 10000 where 50000 is due"});
  all.push_back({"schedule", with(llama3(), [](Recording& r) { r.lengths = {96}; }),
                 rotation([](Rotation& turned) {
                   for (std::size_t p = 0; p < turned.inv_freq.size(); ++p)
                     turned.inv_freq[p] =
                         std::pow(50000.0, -2.0 * static_cast<double>(p) / static_cast<double>(turned.width));
                 }),
                 "layers.0.attn.q", "50000"});
  all.push_back({"pairing", of(llama()), rotation([](Rotation& turned) {
                   turned.read = Pairing::interleaved;
                   turned.write = Pairing::interleaved;
                 }),
                 "layers.0.attn.q",
                 "interleaved pairs in channels 0 to 11 where half pairs in channels 0 to 11 are due"});
  all.push_back({"amplitude", of(llama()), rotation([](Rotation& turned) { turned.amplitude *= 1.25; }),
                 "layers.0.attn.q", "the amplitude is 1.25 where 1 is due"});
  all.push_back({"divided", of(llama()), rotation([](Rotation& turned) {
                   for (double& one : turned.inv_freq) one /= 4;
                 }),
                 "layers.0.attn.q", "every frequency is divided by 4"});
  all.push_back(
      {"twice", of(llama()), [](Recording& r) { r.rotations = 2; }, "layers.0.attn.q", "applied twice"});
  all.push_back({"missing", of(llama()), [](Recording& r) { r.rotations = 0; }, "layers.0.attn.q",
                 "no rotation is applied"});
  all.push_back({"reversed", of(llama()), [](Recording& r) { r.rotations = -1; }, "layers.0.attn.q",
                 "turns the other way"});
  all.push_back({"rounded angles", with(llama(), [](Recording& r) { r.lengths = {200}; }),
                 [](Recording& r) {
                   r.angle = [](double radians) {
                     return static_cast<double>(f32_from(bfloat16_from_f32(static_cast<float>(radians))));
                   };
                 },
                 "layers.0.attn.q", "angles are rounded to bf16"});
  all.push_back({"crossed table", of(llama()), [](Recording& r) { r.crossed_table = true; },
                 "layers.0.attn.q", "cos and sin are laid out for interleaved pairs"});
  all.push_back({"without what came in", with(llama(), [](Recording& r) { r.with_q_pre = false; }),
                 rotation(theta), "layers.0.attn.q", "the second is the first turned further"});
  return all;
}

std::vector<Fault> other_faults() {
  std::vector<Fault> all;
  all.push_back({"softmax scale", of(llama()), [](Recording& r) { r.scale = 0.5; }, "layers.0.attn.scores",
                 "0.5 times as much"});
  all.push_back({"doubled slopes", of(bloom()),
                 [](Recording& r) { r.slope = [](double due, std::int64_t) { return 2 * due; }; },
                 "layers.0.attn.scores", "every slope is doubled"});
  all.push_back({"no slopes", of(bloom()),
                 [](Recording& r) { r.slope = [](double, std::int64_t) { return 0.0; }; },
                 "layers.0.attn.scores", "no slopes are applied"});
  all.push_back({"no window", of(window()),
                 [](Recording& r) {
                   r.sees = [](bool, std::int64_t, std::int64_t query, std::int64_t key) {
                     return key <= query;
                   };
                 },
                 "layers.0.attn.scores", "a window of 8 is due"});
  all.push_back({"narrower window", of(window()),
                 [](Recording& r) {
                   r.sees = [](bool due, std::int64_t, std::int64_t query, std::int64_t key) {
                     return due && query - key < 7;
                   };
                 },
                 "layers.0.attn.scores", "a window of 7 hides what lies farther back"});
  all.push_back({"future", of(llama()),
                 [](Recording& r) {
                   r.sees = [](bool due, std::int64_t, std::int64_t query, std::int64_t key) {
                     return due || key == query + 1;
                   };
                 },
                 "layers.0.attn.scores", "keys behind the query are seen"});
  all.push_back({"padding is seen",
                 with(llama(),
                      [](Recording& r) {
                        r.lengths = {24, 17};
                        r.with_mask = true;
                      }),
                 [](Recording& r) {
                   r.sees = [](bool, std::int64_t, std::int64_t query, std::int64_t key) {
                     return key <= query;
                   };
                 },
                 "layers.0.attn.scores", "columns of padding are seen in one trace"});
  all.push_back({"embedding scale", of(gemma()), [](Recording& r) { r.embedding_scale = 0.5; }, "embed.out",
                 "rows are multiplied by 3.16228 where 6.32456 is due"});
  all.push_back(
      {"positions added twice", of(opt()), [](Recording& r) { r.positions_times = 2; }, "embed.out", ""});
  all.push_back({"rows of the next token", with(llama(), [](Recording& r) { r.lengths = {90}; }),
                 [](Recording& r) { r.row_offset = 1; }, "embed.tokens",
                 "the row of a token 1 higher is taken"});
  all.push_back({"logit factor", of(llama()), [](Recording& r) { r.logit_factor = 2; }, "logits",
                 "the second is 2 times the first"});
  return all;
}

std::string text_of(const TraceDiff& diff) {
  std::string text;
  for (const Hypothesis& one : diff.hypotheses)
    text +=
        one.cause + " leaves " + std::to_string(one.residual) + " of " + std::to_string(one.budget) + "\n";
  for (const Divergence& one : diff.differing)
    text += one.tensor + " by " + std::to_string(one.difference) + " of " + std::to_string(one.budget) + "\n";
  return text;
}

void expect_found(const Fault& fault, const ModelSpec* spec) {
  const MadeTrace clean(fault.clean);
  Recording recording = fault.clean;
  fault.put_in(recording);
  const MadeTrace faulty(recording);
  const TraceDiff found = diff(
      {.want = clean.path(), .got = faulty.path(), .spec = spec, .recipe = spec == nullptr ? "" : "exact"});
  ASSERT_TRUE(found.first.has_value());
  EXPECT_EQ(found.first->tensor, fault.tensor) << text_of(found);
  EXPECT_EQ(found.first->step, fault.step);
  if (fault.cause.empty()) return;
  ASSERT_FALSE(found.hypotheses.empty()) << text_of(found);
  EXPECT_THAT(found.hypotheses.front().cause, HasSubstr(fault.cause)) << text_of(found);
  EXPECT_LE(found.hypotheses.front().residual, std::max(found.hypotheses.front().budget, 0x1p-20))
      << text_of(found);
  const TraceDiff same = diff({.want = faulty.path(), .got = faulty.path(), .spec = spec});
  EXPECT_FALSE(same.first.has_value());
}

void expect_all(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.name);
    expect_found(fault, nullptr);
  }
}

TEST(DiffFaults, PositionsAreNamed) {
  expect_all(position_faults());
}

TEST(DiffFaults, RotationsAreNamed) {
  expect_all(rotation_faults());
}

TEST(DiffFaults, ScoresEmbeddingsAndHeadsAreNamed) {
  expect_all(other_faults());
}

TEST(DiffFaults, WithAModelThePlanNamesThem) {
  for (const Fault& fault : position_faults()) {
    SCOPED_TRACE(fault.name);
    const MadeTrace clean(fault.clean);
    expect_found(fault, &clean.spec());
  }
  // what came in is not recorded: the plan's frequencies tell the shift
  const Recording clean = with(llama(), [](Recording& r) { r.with_q_pre = false; });
  const Fault moved{"moved", clean,
                    [](Recording& r) {
                      r.position = [](const Where& at) {
                        return static_cast<double>(at.due + (rotates(at) ? 3 : 0));
                      };
                    },
                    "layers.0.attn.q", "positions are 3 too high"};
  const MadeTrace made(clean);
  expect_found(moved, &made.spec());
}

TEST(DiffFaults, DtypesAloneAreSilent) {
  for (const Json& config : {llama(), llama3(), partial(), bloom(), opt(), gemma(), window()}) {
    SCOPED_TRACE(config.dump());
    const MadeTrace single(with(config, [](Recording& r) {
      r.lengths = {40, 33};
      r.with_mask = true;
      r.steps = 2;
      r.with_tables = true;
    }));
    const MadeTrace narrow(with(config, [](Recording& r) {
      r.lengths = {40, 33};
      r.with_mask = true;
      r.steps = 2;
      r.with_tables = true;
      r.dtype = DType::bf16;
    }));
    for (const auto& [a, b] : {std::pair(&single, &narrow), std::pair(&narrow, &single)}) {
      const TraceDiff found = diff({.want = a->path(), .got = b->path()});
      EXPECT_FALSE(found.first.has_value()) << text_of(found);
    }
  }
}

struct Real {
  const char* name;
  const char* tensor;
  std::int64_t step;
  const char* cause;
};

TEST(DiffFaults, RecordedFaultsOfReleasesBeginWhereTheyAre) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(LOCANT_TEST_DATA_DIR) / "real-faults";
  if (std::string(LOCANT_TEST_DATA_DIR).empty() || !fs::is_directory(folder))
    GTEST_SKIP() << "the recorded faults of releases are not here";
  const std::vector<Real> all = {
      {"rotary-embedding-torch-offset-cache", "layers.0.attn.q", 2,
       "token 19 of row 0 stands at position 18 where 19"},
      {"transformers-deepseek-v2-softmax-scale", "layers.0.attn.scores", 0, "0.25 where 0.397"},
      {"transformers-dynamic-ntk-sticky", "rope.cos", 0, "theta is 557"},
      {"transformers-falcon-alibi-twice", "layers.0.attn.scores", 0, "every slope is doubled"},
      {"transformers-gemma-scale-rounding", "embed.out", 0, "rows are multiplied by 9.79"},
      {"transformers-mistral-table-bf16", "rope.cos", 0,
       "frequencies and positions and angles are rounded to bf16"},
      {"transformers-neox-left-padding", "layers.0.attn.q", 0,
       "positions are 7 too high from token 0 of row 0"},
      {"transformers-qwen25vl-image-temporal", "position_ids", 0,
       "axis 0 of row 0: positions are multiplied by 2: 8 where 4"},
      {"transformers-t5-encoder-from-head", "embed.tokens", 0,
       "rows come from another table, such as an untied head"},
      {"transformers-xglm-left-padding", "embed.positions", 0,
       "the row of a position 7 higher is taken: 7 where 0"},
  };
  for (const Real& real : all) {
    SCOPED_TRACE(real.name);
    const fs::path place = folder / real.name;
    const std::string fixed = (place / "fixed.safetensors").string();
    const std::string buggy = (place / "buggy.safetensors").string();
    const ModelSpec spec = read_hf_config((place / "model").string(), Reading::facts);
    for (const ModelSpec* const given : {static_cast<const ModelSpec*>(nullptr), &spec}) {
      const TraceDiff found = diff({.want = fixed, .got = buggy, .spec = given});
      ASSERT_TRUE(found.first.has_value());
      EXPECT_EQ(found.first->tensor, real.tensor);
      EXPECT_EQ(found.first->step, real.step);
      ASSERT_FALSE(found.hypotheses.empty());
      // the plan says it in its own words
      if (given == nullptr) {
        EXPECT_THAT(found.hypotheses.front().cause, HasSubstr(real.cause)) << text_of(found);
      }
    }
    for (const std::string& one : {fixed, buggy})
      EXPECT_FALSE(diff({.want = one, .got = one}).first.has_value());
  }
}

}  // namespace
}  // namespace locant
