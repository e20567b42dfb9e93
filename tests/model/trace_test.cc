// SPDX-License-Identifier: Apache-2.0
// What a traced session hands over: names, shapes, padding, and every value against the double forward pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "budgets.h"
#include "model/feeding.h"
#include "model/oracle.h"
#include "model/recorder.h"

namespace locant {
namespace {

using namespace tests;
using testing::ElementsAre;
using trace_names::Layer;

class Traced : public testing::TestWithParam<std::tuple<std::string, Padding>> {
 protected:
  [[nodiscard]] std::string family() const { return std::get<0>(GetParam()); }
  [[nodiscard]] Padding side() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, Traced,
                         testing::Combine(testing::ValuesIn(four_families()),
                                          testing::Values(Padding::left, Padding::right)),
                         [](const auto& p) {
                           return std::get<0>(p.param) + "_" + std::string(name_of(std::get<1>(p.param)));
                         });

std::set<std::string> expected_names(const std::string& family) {
  std::set<std::string> names = {"input_ids", "position_ids",   "attention_mask", "embed.tokens",
                                 "embed.out", "final_norm.out", "logits"};
  if (family == "gpt2" || family == "xglm") names.insert("embed.positions");
  if (family == "llama") names.insert({"rope.cos", "rope.sin"});
  for (const char* layer : {"layers.0.", "layers.1."}) {
    for (const char* part : {"attn.q", "attn.k", "attn.v", "cache.k", "cache.v", "cache.positions",
                             "attn.scores", "attn.probs", "attn.out", "out"}) {
      names.insert(std::string(layer) + part);
    }
    if (family == "llama")
      names.insert({std::string(layer) + "attn.q_pre", std::string(layer) + "attn.k_pre"});
    if (family == "bloom") names.insert(std::string(layer) + "attn.bias");
  }
  return names;
}

TEST_P(Traced, NamesAndShapes) {
  const Loaded loaded(tiny(family()));
  const OracleShape s = Oracle(loaded.checkpoint).sizes();
  const auto session = loaded.session(2, 20);
  Recorder prompt;
  session->set_trace(&prompt, side());
  (void)feed(*session, {some_ids(5, 71), some_ids(3, 72)});
  EXPECT_EQ(prompt.names(), expected_names(family()));
  const auto shape = [&](const char* name) { return prompt.got.at(name).shape; };
  EXPECT_THAT(shape("input_ids"), ElementsAre(2, 5));
  EXPECT_THAT(shape("position_ids"), ElementsAre(2, 5));
  EXPECT_THAT(shape("attention_mask"), ElementsAre(2, 5));
  EXPECT_THAT(shape("embed.tokens"), ElementsAre(2, 5, s.hidden));
  EXPECT_THAT(shape("layers.1.attn.q"), ElementsAre(2, 5, s.heads, s.head_dim));
  EXPECT_THAT(shape("layers.1.attn.k"), ElementsAre(2, 5, s.kv_heads, s.head_dim));
  EXPECT_THAT(shape("layers.1.attn.v"), ElementsAre(2, 5, s.kv_heads, s.head_dim));
  EXPECT_THAT(shape("layers.1.cache.k"), ElementsAre(2, 5, s.kv_heads, s.head_dim));
  EXPECT_THAT(shape("layers.1.cache.positions"), ElementsAre(2, 5));
  EXPECT_THAT(shape("layers.1.attn.scores"), ElementsAre(2, s.heads, 5, 5));
  EXPECT_THAT(shape("layers.1.attn.probs"), ElementsAre(2, s.heads, 5, 5));
  EXPECT_THAT(shape("layers.1.attn.out"), ElementsAre(2, 5, s.hidden));
  EXPECT_THAT(shape("logits"), ElementsAre(2, 5, kVocab));
  if (family() == "llama") {
    EXPECT_THAT(shape("rope.cos"), ElementsAre(2, 5, 5));
  }
  Recorder step;
  session->set_trace(&step, side());
  (void)feed(*session, {{1}, {2}});
  EXPECT_EQ(step.names(), expected_names(family()));
  EXPECT_THAT(step.got.at("input_ids").shape, ElementsAre(2, 1));
  EXPECT_THAT(step.got.at("attention_mask").shape, ElementsAre(2, 6));
  EXPECT_THAT(step.got.at("layers.0.cache.v").shape, ElementsAre(2, 6, s.kv_heads, s.head_dim));
  EXPECT_THAT(step.got.at("layers.0.attn.scores").shape, ElementsAre(2, s.heads, 1, 6));
  for (const auto* trace : {&prompt, &step}) {
    for (const auto& [name, tensor] : trace->got) {
      const bool whole = name == "input_ids" || name == "position_ids" || name == "attention_mask" ||
                         name.find("cache.positions") != std::string::npos;
      EXPECT_EQ(tensor.dtype, whole ? DType::i64 : DType::f32) << name;
    }
  }
}

// [B, T, width...] of a trace against a row's tokens [T][width]; everything else must be NaN.
void expect_rows(const Recorded& tensor, const std::vector<Rows>& want, const Place& place,
                 const std::string& name) {
  SCOPED_TRACE(name);
  std::size_t width = 1;
  for (std::size_t axis = 2; axis < tensor.shape.size(); ++axis)
    width *= static_cast<std::size_t>(tensor.shape[axis]);
  std::set<std::size_t> filled;
  for (std::size_t row = 0; row < want.size(); ++row) {
    const auto tokens = static_cast<std::int64_t>(want[row].size());
    Rows got;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto at =
          static_cast<std::size_t>(static_cast<std::int64_t>(row) * place.width + place.column(t, tokens));
      filled.insert(at);
      const auto first = tensor.values.begin() + static_cast<std::ptrdiff_t>(at * width);
      got.emplace_back(first, first + static_cast<std::ptrdiff_t>(width));
    }
    EXPECT_LE(distance(got, want[row]), budgets::kConformanceTrace) << row;
  }
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    if (!filled.contains(i / width)) {
      ASSERT_TRUE(std::isnan(tensor.values[i])) << i;
    }
  }
}

TEST_P(Traced, EveryRowOfAPromptIsTheOracles) {
  const Loaded loaded(tiny(family()));
  const Oracle oracle(loaded.checkpoint);
  const std::vector<Ids> rows = {some_ids(4, 73), some_ids(7, 74), some_ids(1, 75)};
  const auto session = loaded.session(3, 7);
  Recorder trace;
  session->set_trace(&trace, side());
  (void)feed(*session, rows);
  const Place place{.width = 7, .side = side()};
  std::vector<OraclePass> passes;
  for (const Ids& ids : rows) passes.push_back(oracle.run(ids));
  const auto compare = [&](const std::string& name, const auto& pick) {
    std::vector<Rows> want;
    for (const OraclePass& pass : passes) want.push_back(pick(pass));
    expect_rows(trace.got.at(name), want, place, name);
  };
  compare("embed.tokens", [](const OraclePass& p) { return p.embed_tokens; });
  if (!passes[0].embed_positions.empty())
    compare("embed.positions", [](const OraclePass& p) { return p.embed_positions; });
  compare("embed.out", [](const OraclePass& p) { return p.embed_out; });
  compare("final_norm.out", [](const OraclePass& p) { return p.final_norm; });
  compare("logits", [](const OraclePass& p) { return p.logits; });
  for (std::size_t l = 0; l < 2; ++l) {
    const std::string at = "layers." + std::to_string(l) + ".";
    if (family() == "llama") {
      compare(at + "attn.q_pre", [&](const OraclePass& p) { return p.layers[l].q_pre; });
      compare(at + "attn.k_pre", [&](const OraclePass& p) { return p.layers[l].k_pre; });
    }
    compare(at + "attn.q", [&](const OraclePass& p) { return p.layers[l].q; });
    compare(at + "attn.k", [&](const OraclePass& p) { return p.layers[l].k; });
    compare(at + "attn.v", [&](const OraclePass& p) { return p.layers[l].v; });
    compare(at + "cache.k", [&](const OraclePass& p) { return p.layers[l].k; });
    compare(at + "cache.v", [&](const OraclePass& p) { return p.layers[l].v; });
    compare(at + "attn.out", [&](const OraclePass& p) { return p.layers[l].attn_out; });
    compare(at + "out", [&](const OraclePass& p) { return p.layers[l].out; });
  }
}

TEST_P(Traced, ScoresAndProbabilitiesOfAPrompt) {
  const Loaded loaded(tiny(family()));
  const Oracle oracle(loaded.checkpoint);
  const std::vector<Ids> rows = {some_ids(4, 76), some_ids(7, 77)};
  const auto session = loaded.session(2, 7);
  Recorder trace;
  session->set_trace(&trace, side());
  (void)feed(*session, rows);
  const auto heads = static_cast<std::size_t>(oracle.sizes().heads);
  for (std::size_t row = 0; row < 2; ++row) {
    const OraclePass pass = oracle.run(rows[row]);
    const auto tokens = static_cast<std::int64_t>(rows[row].size());
    for (std::size_t l = 0; l < 2; ++l) {
      const std::string at = "layers." + std::to_string(l) + ".attn.";
      const Recorded& scores = trace.got.at(at + "scores");
      const Recorded& probs = trace.got.at(at + "probs");
      double largest = 0;
      for (const Rows& head : pass.layers[l].scores) {
        for (const auto& line : head) {
          for (const double value : line)
            largest = std::isinf(value) ? largest : std::max(largest, std::abs(value));
        }
      }
      for (std::size_t h = 0; h < heads; ++h) {
        for (std::int64_t t = 0; t < 7; ++t) {
          const auto line = ((row * heads + h) * 7 + static_cast<std::size_t>(t)) * 7;
          const std::int64_t query = side() == Padding::left ? t - (7 - tokens) : t;
          if (query < 0 || query >= tokens) {
            for (std::size_t s = 0; s < 7; ++s) {
              ASSERT_TRUE(std::isnan(scores.values[line + s]));
              ASSERT_TRUE(std::isnan(probs.values[line + s]));
            }
            continue;
          }
          double sum = 0;
          for (std::int64_t s = 0; s < 7; ++s) {
            const auto i = line + static_cast<std::size_t>(s);
            sum += probs.values[i];
            const std::int64_t key = side() == Padding::left ? s - (7 - tokens) : s;
            if (key < 0 || key > query) {
              ASSERT_EQ(scores.values[i], -std::numeric_limits<double>::infinity());
              ASSERT_EQ(probs.values[i], 0);
              continue;
            }
            const auto q = static_cast<std::size_t>(query);
            const auto k = static_cast<std::size_t>(key);
            ASSERT_NEAR(scores.values[i], pass.layers[l].scores[h][q][k],
                        largest * budgets::kConformanceTrace);
            ASSERT_NEAR(probs.values[i], pass.layers[l].probs[h][q][k],
                        std::max(largest, 1.0) * budgets::kConformanceTrace);
            if (family() == "bloom") {
              const double bias = pass.layers[l].slopes[h] * static_cast<double>(key - query);
              ASSERT_NEAR(trace.got.at(at + "bias").values[i], bias, 7 * budgets::kConformanceTrace);
            }
          }
          ASSERT_NEAR(sum, 1, budgets::kModelProbabilitySum);
        }
      }
    }
  }
}

// A step: the row's whole history stands in the cache, its last columns are the call's.
TEST_P(Traced, AStepSeesThePast) {
  const Loaded loaded(tiny(family()));
  const Oracle oracle(loaded.checkpoint);
  const OracleShape s = oracle.sizes();
  std::vector<Ids> rows = {some_ids(3, 78), some_ids(6, 79)};
  const auto session = loaded.session(2, 10);
  (void)feed(*session, rows);
  Recorder trace;
  session->set_trace(&trace, side());
  (void)feed(*session, {{11, 12}, {13}});
  rows[0].insert(rows[0].end(), {11, 12});
  rows[1].push_back(13);
  const Ids past = {3, 6};
  const Ids tokens = {2, 1};
  const std::int64_t slots = 6 + 2;
  const Recorded& positions = trace.got.at("layers.1.cache.positions");
  const Recorded& keys = trace.got.at("layers.1.cache.k");
  const Recorded& mask = trace.got.at("attention_mask");
  ASSERT_THAT(positions.shape, ElementsAre(2, slots));
  ASSERT_THAT(mask.shape, ElementsAre(2, slots));
  const auto width = static_cast<std::size_t>(s.kv_heads * s.head_dim);
  for (std::size_t row = 0; row < 2; ++row) {
    const OraclePass pass = oracle.run(rows[row]);
    Ids seen;
    Rows held;
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      const auto at = row * static_cast<std::size_t>(slots) + static_cast<std::size_t>(slot);
      const bool is_token = mask.values[at] == 1;
      ASSERT_TRUE(is_token || mask.values[at] == 0);
      const auto first = keys.values.begin() + static_cast<std::ptrdiff_t>(at * width);
      if (is_token) {
        seen.push_back(static_cast<std::int64_t>(positions.values[at]));
        held.emplace_back(first, first + static_cast<std::ptrdiff_t>(width));
      } else {
        EXPECT_TRUE(std::all_of(first, first + static_cast<std::ptrdiff_t>(width),
                                [](double v) { return std::isnan(v); }));
      }
    }
    Ids counted(rows[row].size());
    for (std::size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<std::int64_t>(i);
    EXPECT_EQ(seen, counted);
    EXPECT_LE(distance(held, pass.layers[1].k), budgets::kConformanceTrace);
    // the last T columns of the mask are the call's
    Ids call_mask;
    for (std::int64_t t = 0; t < 2; ++t) {
      call_mask.push_back(static_cast<std::int64_t>(
          mask.values[(row + 1) * static_cast<std::size_t>(slots) - 2 + static_cast<std::size_t>(t)]));
    }
    const Ids want_mask = tokens[row] == 2 ? Ids{1, 1} : side() == Padding::left ? Ids{0, 1} : Ids{1, 0};
    EXPECT_EQ(call_mask, want_mask);
    for (std::int64_t t = 0; t < tokens[row]; ++t) {
      const Place place{.width = 2, .side = side()};
      const auto at = row * 2 + static_cast<std::size_t>(place.column(t, tokens[row]));
      EXPECT_EQ(trace.got.at("position_ids").values[at], static_cast<double>(past[row] + t));
      EXPECT_EQ(trace.got.at("input_ids").values[at],
                static_cast<double>(rows[row][static_cast<std::size_t>(past[row] + t)]));
    }
  }
}

TEST_P(Traced, TracingChangesNoBit) {
  const Loaded loaded(tiny(family()));
  const std::vector<Ids> rows = {some_ids(4, 80), some_ids(9, 81)};
  const auto traced = loaded.session(2, 20);
  const auto plain = loaded.session(2, 20);
  Recorder trace;
  traced->set_trace(&trace, side());
  EXPECT_EQ(feed(*traced, rows), feed(*plain, rows));
  Recorder step;
  traced->set_trace(&step, side());
  EXPECT_EQ(feed_last(*traced, {{1}, {2}}), feed_last(*plain, {{1}, {2}}));
  EXPECT_FALSE(step.got.empty());
  traced->set_trace(nullptr);
  const std::size_t recorded = step.got.size();
  EXPECT_EQ(feed(*traced, {{3}, {4}}), feed(*plain, {{3}, {4}}));
  EXPECT_EQ(step.got.size(), recorded);
}

// More tokens than one pass of the session holds are still one pass of the trace.
TEST_P(Traced, ALongPromptIsOnePass) {
  const Loaded loaded(tiny(family()));
  const std::vector<Ids> rows = {some_ids(290, 82), some_ids(100, 83)};
  const auto session = loaded.session(2, 300);
  Recorder trace({"logits", "input_ids", "layers.1.out"});
  session->set_trace(&trace, side());
  const std::vector<Logits> got = feed(*session, rows);
  EXPECT_EQ(trace.passes, 1);
  EXPECT_THAT(trace.got.at("logits").shape, ElementsAre(2, 290, kVocab));
  EXPECT_LE(distance(got[1], alone(loaded, rows[1])), budgets::kConformancePadding);
  session->set_trace(nullptr);
  Ids longer = rows[0];
  longer.push_back(5);
  EXPECT_LE(distance(feed(*session, {{5}, {}})[0], Logits{alone(loaded, longer).back()}),
            budgets::kConformancePadding);
}

TEST(TraceSinks, GetOnlyWhatTheyWant) {
  for (const std::string& family : four_families()) {
    const Loaded loaded(tiny(family));
    const auto session = loaded.session(1, 5);
    const std::set<std::string, std::less<>> only = {"logits", "layers.1.attn.probs", "layers.0.attn.q"};
    Recorder trace(only);
    session->set_trace(&trace);
    (void)feed(*session, {some_ids(5, 84)});
    EXPECT_EQ(trace.names(), std::set<std::string>(only.begin(), only.end())) << family;
    EXPECT_EQ(trace.asked.at("logits"), 5 * kVocab);
  }
}

TEST(TraceSinks, ElementsAskedForAreThoseRecorded) {
  const Loaded loaded(tiny("bloom"));
  const auto session = loaded.session(2, 5);
  Recorder trace;
  session->set_trace(&trace, Padding::left);
  (void)feed(*session, {some_ids(5, 85), some_ids(2, 86)});
  for (const auto& [name, tensor] : trace.got) {
    ASSERT_TRUE(trace.asked.contains(name)) << name;
    EXPECT_EQ(trace.asked.at(name), static_cast<std::int64_t>(tensor.values.size())) << name;
  }
}

TEST(TraceSinks, ARefusedCallRecordsNothing) {
  const Loaded loaded(tiny("llama"));
  const auto session = loaded.session(1, 5);
  Recorder trace;
  session->set_trace(&trace);
  EXPECT_THROW((void)feed(*session, {{1, kVocab}}), std::out_of_range);
  EXPECT_TRUE(trace.got.empty());
  EXPECT_EQ(trace.passes, 0);
}

// cos and sin of the trace turn q_pre into q.
TEST(TraceValues, TheTablesRotateTheQueries) {
  const Loaded loaded(tiny("llama"));
  const auto session = loaded.session(1, 6);
  Recorder trace;
  session->set_trace(&trace);
  (void)feed(*session, {some_ids(6, 87)}, {{0, 1, 2, 100, 101, 250}});
  const auto& pre = trace.got.at("layers.0.attn.q_pre").values;
  const auto& cos = trace.got.at("rope.cos").values;
  const auto& sin = trace.got.at("rope.sin").values;
  Rows want(6, std::vector<double>(90)), got = want;
  for (std::size_t t = 0; t < 6; ++t) {
    for (std::size_t i = 0; i < 90; ++i) {
      const std::size_t in_head = i % 10;
      const std::size_t pair = in_head % 5;
      const double partner = pre[t * 90 + (in_head < 5 ? i + 5 : i - 5)] * (in_head < 5 ? -1 : 1);
      want[t][i] = pre[t * 90 + i] * cos[t * 5 + pair] + partner * sin[t * 5 + pair];
      got[t][i] = trace.got.at("layers.0.attn.q").values[t * 90 + i];
    }
    for (std::size_t p = 0; p < 5; ++p) {
      ASSERT_NEAR(std::hypot(cos[t * 5 + p], sin[t * 5 + p]), 1, budgets::kNormKept);
    }
  }
  EXPECT_LE(distance(got, want), budgets::kConformanceTrace);
}

TEST(TraceValues, AFileHoldsTheStepsToo) {
  const Loaded loaded(tiny("llama"));
  const auto session = loaded.session(1, 6);
  const TempDir dir;
  TraceWriter writer(dir.file("t.safetensors"), {.producer = "test", .model = "tiny", .dtype = DType::f32});
  session->set_trace(&writer);
  (void)feed(*session, {{1, 2, 3}});
  const Logits step = feed(*session, {{4}})[0];
  writer.finish();
  const TraceReader reader(dir.file("t.safetensors"));
  EXPECT_EQ(reader.steps(), 2);
  const TensorRef logits = reader.find("step.1/logits");
  ASSERT_NE(logits.data, nullptr);
  ASSERT_EQ(logits.size(), kVocab);
  std::vector<float> read(kVocab);
  std::memcpy(read.data(), logits.data, kVocab * sizeof(float));
  EXPECT_EQ(read, step[0]);
}

}  // namespace
}  // namespace locant
