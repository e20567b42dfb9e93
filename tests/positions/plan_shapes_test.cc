// SPDX-License-Identifier: Apache-2.0
// Position schemes of published models written down as Plan values, most of them without a mechanism that
// makes them: the structures must be able to say them.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>

#include <gtest/gtest.h>

#include "locant/positions.h"

namespace locant {
namespace {

std::string rotation_fault(const Rotation& r) {
  const auto pairs = static_cast<std::int64_t>(r.inv_freq.size());
  if (2 * pairs != r.width) return "two channels per frequency";
  if (r.offset < 0 || r.offset + r.width > r.head_dim) return "the slice lies inside the head";
  if (!r.axis.empty() && r.axis.size() != r.inv_freq.size()) return "an axis per pair";
  if (std::any_of(r.axis.begin(), r.axis.end(), [](std::int64_t axis) { return axis < 0; }))
    return "axes from 0";
  if (r.growth && r.growth->zeta.size() != r.inv_freq.size()) return "a growth per pair";
  if (!(r.amplitude > 0) || std::abs(r.sign) != 1) return "amplitude and sign";
  if (!r.acts_on.q && !r.acts_on.k && !r.acts_on.v) return "acts on something";
  return {};
}

std::string bias_fault(const Bias& b) {
  if (b.heads < 1) return "heads";
  if (b.form == BiasForm::slopes && static_cast<std::int64_t>(b.slopes.size()) != b.heads)
    return "a slope per head";
  const bool bucketed = b.form == BiasForm::buckets || b.form == BiasForm::content;
  if (bucketed && (b.buckets < 2 || b.max_distance <= b.buckets / 2))
    return "buckets reach past the linear half";
  if (b.form != BiasForm::slopes && b.roles.empty()) return "a bias with weights names them";
  return {};
}

/// What is inconsistent in a plan; empty when nothing is.
std::string fault_of(const Plan& plan) {
  for (const PositionEmbedding& e : plan.embedding) {
    if (e.form == EmbeddingForm::sinusoid && static_cast<std::int64_t>(e.inv_freq.size()) != e.width / 2) {
      return "a frequency per two columns";
    }
    if (e.form == EmbeddingForm::table && (e.rows < 1 || e.role.empty()))
      return "a table has rows and a role";
  }
  const auto kinds = static_cast<std::int64_t>(plan.kinds.size());
  for (const std::int64_t layer : plan.layers) {
    if (layer < 0 || layer >= kinds) return "layers index kinds";
  }
  for (std::size_t a = 0; a < plan.kinds.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (plan.kinds[a] == plan.kinds[b]) return "kinds differ";
    }
    const LayerPositions& kind = plan.kinds[a];
    if (kind.rotation && !rotation_fault(*kind.rotation).empty()) return rotation_fault(*kind.rotation);
    if (kind.bias && !bias_fault(*kind.bias).empty()) return bias_fault(*kind.bias);
    if (kind.query_scale && (kind.query_scale->form.empty() || kind.query_scale->floor <= 0))
      return "query scale";
  }
  return {};
}

std::vector<double> ladder(double theta, std::int64_t width) {
  std::vector<double> inv_freq(static_cast<std::size_t>(width / 2));
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
  }
  return inv_freq;
}

Rotation plain(double theta, std::int64_t head_dim) {
  Rotation rotation;
  rotation.inv_freq = ladder(theta, head_dim);
  rotation.head_dim = head_dim;
  rotation.width = head_dim;
  return rotation;
}

Plan uniform(LayerPositions kind, std::size_t layers) {
  Plan plan;
  plan.layers.assign(layers, 0);
  plan.kinds = {std::move(kind)};
  return plan;
}

LayerPositions turning(Rotation rotation) {
  LayerPositions kind;
  kind.rotation = std::move(rotation);
  return kind;
}

LayerPositions biased(Bias bias) {
  LayerPositions kind;
  kind.bias = std::move(bias);
  return kind;
}

/// DeepSeek-V3: 64 rotary channels after 128 without, one rotated key for all heads, adjacent pairs read and
/// halves written, YaRN factor 40 over 4096 tokens, mscale = mscale_all_dim = 1.
Plan deepseek_v3() {
  Rotation r = plain(10000, 64);
  const auto correction = [](double turns) {
    return 64 * std::log(4096 / (turns * 2 * std::numbers::pi)) / (2 * std::log(10000.0));
  };
  const double low = std::floor(correction(32));
  const double high = std::ceil(correction(1));
  for (std::size_t i = 0; i < r.inv_freq.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    r.inv_freq[i] = r.inv_freq[i] * (1 - ramp) + r.inv_freq[i] / 40 * ramp;
  }
  const auto magnitude = [](double mscale) { return 0.1 * mscale * std::log(40.0) + 1; };
  r.amplitude = magnitude(1) / magnitude(1);
  r.read = Pairing::interleaved;
  r.write = Pairing::half;
  r.head_dim = 192;
  r.offset = 128;
  r.shared_key = true;
  return uniform(turning(r), 61);
}

/// Llama 4 Scout: chunked layers with rope; every fourth is full attention without, with temperature.
Plan llama4() {
  Rotation r = plain(500000, 128);
  r.read = Pairing::interleaved;
  r.write = Pairing::interleaved;
  Plan plan;
  for (std::int64_t layer = 0; layer < 48; ++layer) plan.layers.push_back((layer + 1) % 4 == 0 ? 1 : 0);
  plan.kinds = {turning(r), {}};
  plan.kinds[1].query_scale = QueryScale{.form = "log_floor", .scale = 0.1, .floor = 8192, .shift = 1};
  return plan;
}

/// DeBERTa-v3-base: content bias from a table of relative embeddings, nothing at the embedding.
Plan deberta_v3() {
  Bias b;
  b.form = BiasForm::content;
  b.heads = 12;
  b.buckets = 256;
  b.max_distance = 512;
  b.function = "c2p|p2c";
  b.roles = {"rel_embeddings", "rel_embeddings_norm"};
  b.bidirectional = true;
  Plan plan = uniform(biased(b), 12);
  plan.stack = Stack::encoder;
  return plan;
}

/// xPos: zeta[i] = (2i/d + 0.4) / 1.4 around the middle of the sequence (Sun et al. 2022, section 3).
Plan xpos() {
  Rotation r = plain(10000, 64);
  XposGrowth growth;
  for (std::size_t i = 0; i < 32; ++i) growth.zeta.push_back((static_cast<double>(i) / 32 + 0.4) / 1.4);
  growth.scale_base = 512;
  growth.center = 1024;
  r.growth = growth;
  return uniform(turning(r), 24);
}

/// Phi-3-mini-128k: per-pair factors chosen by the length seen, amplitude by the ratio of lengths.
Plan longrope(const Extent& extent) {
  Rotation r = plain(10000, 96);
  const double last_factor = extent.seen > 4096 ? 64 : 1.5;
  for (std::size_t i = 0; i < r.inv_freq.size(); ++i) {
    r.inv_freq[i] /= 1 + (last_factor - 1) * static_cast<double>(i) / 47;
  }
  r.amplitude = std::sqrt(1 + std::log(131072.0 / 4096) / std::log(4096.0));
  return uniform(turning(r), 32);
}

/// T5-small: buckets in both directions in the encoder, backwards only in the decoder, none across.
Plan t5(Stack stack) {
  Plan plan = uniform({}, 6);
  plan.stack = stack;
  if (stack == Stack::cross) return plan;
  Bias b;
  b.form = BiasForm::buckets;
  b.heads = 8;
  b.buckets = 32;
  b.max_distance = 128;
  b.roles = {"relative_attention_bias"};
  b.bidirectional = stack == Stack::encoder;
  plan.kinds[0].bias = b;
  return plan;
}

/// DeepSeek-V4: the last 64 channels rotate, v too, and the attention output is rotated back.
Plan deepseek_v4() {
  Rotation r = plain(10000, 64);
  r.read = Pairing::interleaved;
  r.write = Pairing::interleaved;
  r.head_dim = 512;
  r.offset = 448;
  r.acts_on = {.q = true, .k = true, .v = true, .output_inverse = true};
  r.shared_key = true;
  return uniform(turning(r), 4);
}

/// Qwen2-VL: 16 pairs follow time, 24 the row, 24 the column.
Plan qwen2_vl() {
  Rotation r = plain(1000000, 128);
  for (std::int64_t i = 0; i < 64; ++i) r.axis.push_back(i < 16 ? 0 : i < 40 ? 1 : 2);
  return uniform(turning(r), 28);
}

TEST(PlanShapes, PublishedSchemesFit) {
  for (const Plan& plan :
       {deepseek_v3(), llama4(), deberta_v3(), xpos(), longrope({.seen = 100}), longrope({.seen = 5000}),
        t5(Stack::encoder), t5(Stack::decoder), t5(Stack::cross), deepseek_v4(), qwen2_vl()}) {
    EXPECT_EQ(fault_of(plan), "");
  }
}

TEST(PlanShapes, DeepSeekReadsAdjacentAndWritesHalves) {
  const Rotation r = *deepseek_v3().kinds[0].rotation;
  EXPECT_NE(r.read, r.write);
  EXPECT_EQ(r.offset + r.width, r.head_dim);
  EXPECT_EQ(r.inv_freq[0], 1);
  EXPECT_DOUBLE_EQ(r.inv_freq[31] * 40, ladder(10000, 64)[31]);
  EXPECT_EQ(r.amplitude, 1);
}

TEST(PlanShapes, LlamaFourAlternatesTwoKinds) {
  const Plan plan = llama4();
  ASSERT_EQ(plan.kinds.size(), 2U);
  EXPECT_EQ(std::count(plan.layers.begin(), plan.layers.end(), 1), 12);
  EXPECT_FALSE(plan.kinds[1].rotation.has_value());
  EXPECT_FALSE(plan.kinds[0].query_scale.has_value());
}

TEST(PlanShapes, LongRopeIsTwoPlans) {
  EXPECT_NE(longrope({.seen = 4096}), longrope({.seen = 4097}));
  EXPECT_EQ(longrope({.seen = 4097}), longrope({.seen = 9000}));
}

TEST(PlanShapes, EncoderDecoderIsThreePlans) {
  EXPECT_NE(t5(Stack::encoder).kinds, t5(Stack::decoder).kinds);
  EXPECT_EQ(t5(Stack::cross).kinds, (std::vector<LayerPositions>{{}}));
}

TEST(PlanShapes, PlansMadeByMechanismsAreConsistent) {
  StackPositions positions;
  PositionSpec rope{"rope", {}};
  rope.set("head_dim", std::int64_t{96});
  rope.set("rotary_dim", std::int64_t{10});
  rope.set("rotary_offset", std::int64_t{86});
  PositionSpec alibi{"alibi", {}};
  alibi.set("heads", std::int64_t{71});
  PositionSpec odd{"sinusoidal", {}};
  odd.set("width", std::int64_t{9});
  odd.set("dialect", std::string("halves"));
  PositionSpec learned{"learned", {}};
  learned.set("rows", std::int64_t{7});
  learned.set("width", std::int64_t{9});
  positions.embedding = {odd, learned};
  positions.layers = {{rope}, {alibi}, {}, {rope, alibi}};
  for (const Recipe& recipe : recipes()) EXPECT_EQ(fault_of(plan(positions, recipe, {})), "") << recipe.name;
}

TEST(PlanShapes, TheChecksFail) {
  const auto broken = [](Plan plan, const std::function<void(Plan&)>& change) {
    change(plan);
    return fault_of(plan);
  };
  EXPECT_EQ(broken(xpos(), [](Plan& p) { p.kinds[0].rotation->inv_freq.pop_back(); }),
            "two channels per frequency");
  EXPECT_EQ(broken(deepseek_v3(), [](Plan& p) { p.kinds[0].rotation->offset += 2; }),
            "the slice lies inside the head");
  EXPECT_EQ(broken(qwen2_vl(), [](Plan& p) { p.kinds[0].rotation->axis.pop_back(); }), "an axis per pair");
  EXPECT_EQ(broken(qwen2_vl(), [](Plan& p) { p.kinds[0].rotation->axis[3] = -1; }), "axes from 0");
  EXPECT_EQ(broken(xpos(), [](Plan& p) { p.kinds[0].rotation->growth->zeta.pop_back(); }),
            "a growth per pair");
  EXPECT_EQ(broken(xpos(), [](Plan& p) { p.kinds[0].rotation->amplitude = 0; }), "amplitude and sign");
  EXPECT_EQ(broken(xpos(), [](Plan& p) { p.kinds[0].rotation->acts_on = {.q = false, .k = false}; }),
            "acts on something");
  EXPECT_EQ(broken(llama4(), [](Plan& p) { p.layers[5] = 2; }), "layers index kinds");
  EXPECT_EQ(broken(llama4(), [](Plan& p) { p.kinds[1] = p.kinds[0]; }), "kinds differ");
  EXPECT_EQ(broken(llama4(), [](Plan& p) { p.kinds[1].query_scale->floor = 0; }), "query scale");
  EXPECT_EQ(broken(deberta_v3(), [](Plan& p) { p.kinds[0].bias->max_distance = 128; }),
            "buckets reach past the linear half");
  EXPECT_EQ(broken(deberta_v3(), [](Plan& p) { p.kinds[0].bias->heads = 0; }), "heads");
  EXPECT_EQ(broken(t5(Stack::decoder), [](Plan& p) { p.kinds[0].bias->roles.clear(); }),
            "a bias with weights names them");
  EXPECT_EQ(broken(t5(Stack::decoder), [](Plan& p) { p.kinds[0].bias->form = BiasForm::slopes; }),
            "a slope per head");
  EXPECT_EQ(broken({},
                   [](Plan& p) {
                     p.embedding.resize(1);
                     p.embedding[0].form = EmbeddingForm::sinusoid;
                     p.embedding[0].width = 8;
                   }),
            "a frequency per two columns");
  EXPECT_EQ(broken({},
                   [](Plan& p) {
                     p.embedding.resize(1);
                     p.embedding[0].form = EmbeddingForm::table;
                     p.embedding[0].width = 8;
                   }),
            "a table has rows and a role");
}

}  // namespace
}  // namespace locant
