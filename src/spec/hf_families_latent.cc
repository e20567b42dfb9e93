// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention: a slice of qk_rope_head_dim channels rotates behind (or, in DeepSeek-V4, at
// the end of) each head; YaRN's second magnitude sits in the scale of the scores (DeepSeek-V2, section 2.1).
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "locant/core.h"
#include "spec/hf_experts.h"
#include "spec/hf_layers.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

// Null means that queries come straight from the state, an absent key means the class' rank.
std::int64_t query_rank(Config& config, std::int64_t otherwise) {
  const Keys key = {"q_lora_rank"};
  return config.mentions(key) ? config.integer(key, 1).value_or(0) : otherwise;
}

// The head grows to qk_nope_head_dim + qk_rope_head_dim.
RopeSlice latent_slice(Config& config, ModelSpec& spec) {
  const std::int64_t still = config.integer({"qk_nope_head_dim"}, 0).value_or(0);
  const std::int64_t rotating = config.integer({"qk_rope_head_dim"}, 1).value_or(spec.head_dim);
  (void)config.integer({"qk_head_dim"}, 1);
  for (const auto& [key, width] :
       {std::pair("qk_nope_head_dim"sv, still), std::pair("qk_rope_head_dim"sv, rotating)}) {
    if (width > kWidestHead) config.fail(key, fmt::format("at most {}", kWidestHead));
  }
  spec.head_dim = still + rotating;
  spec.latent = {.kv_rank = config.integer({"kv_lora_rank"}, 1).value_or(512),
                 .q_rank = query_rank(config, 1536),
                 .still = still,
                 .rotating = rotating,
                 .value_width = config.integer({"v_head_dim"}, 1).value_or(128)};
  if (spec.latent.value_width > kWidestHead)
    config.fail("v_head_dim", fmt::format("at most {}", kWidestHead));
  set_attention_scale(spec, 1 / std::sqrt(static_cast<double>(spec.head_dim)));
  return {.head_dim = spec.head_dim, .rotating = rotating, .offset = still};
}

// The square of 0.1 mscale_all_dim ln(factor) + 1, for any schedule that states both.
void scale_by_magnitude(ModelSpec& spec, const PositionSpec& rope) {
  const double all = rope.number("mscale_all_dim").value_or(0);
  const double factor = rope.number("factor").value_or(1);
  if (rope.mechanism == "rope" || all == 0 || factor <= 1) return;
  const double magnitude = 0.1 * all * std::log(factor) + 1;
  for (AttentionSpec& attention : spec.attention) attention.scale *= magnitude * magnitude;
}

void finish_latent(Config& config, ModelSpec& spec, const HfFamily& family) {
  RopeStyle style = family.rope;
  if (!style.write_pairing.empty() && !config.flag({"rope_interleave"}).value_or(true))
    style = {.fixed_width = true};
  const RopeSlice slice = latent_slice(config, spec);
  PositionSpec rope = read_rope(config, style, slice);
  // Runtimes that read no magnitudes in YaRN have code of its own for these families, which does.
  const bool own = family.name.starts_with("deepseek") || family.name.starts_with("kimi");
  if (own && rope.mechanism == "yarn") rope.set("declared", "deepseek_yarn");
  every_layer(spec, rope);
  scale_by_magnitude(spec, rope);
}

// What the classes of DeepSeek fix, and what only code beside old checkpoints reads.
void require_latent(Config& config, const ModelSpec& spec) {
  if (config.tolerant()) return;
  if (spec.kv_heads != spec.heads) {
    config.fail("num_key_value_heads", "the number of heads, keys and values grow out of one latent row");
  }
  constexpr double kRankEps = 1e-6;
  if (spec.norm.eps != kRankEps) {
    config.fail("rms_norm_eps", "1e-06, which the norms of both ranks have whatever it says");
  }
  config.require("attention_bias", false, "biases of latent attention are not read");
  config.require("mlp_bias", false, "experts have no biases");
  config.require("moe_layer_freq", 1, "every layer behind the dense ones has experts");
}

void finish_deepseek_v3(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_latent(config, spec, family);
  read_sigmoid_experts(config, spec,
                       {.count = {"n_routed_experts", "num_local_experts"},
                        .count_otherwise = 256,
                        .chosen_otherwise = 8,
                        .width = {"moe_intermediate_size"},
                        .width_otherwise = 2048});
  spec.experts.scale = config.number({"routed_scaling_factor"}).value_or(2.5);
  read_shared_experts(config, spec, {"n_shared_experts"}, 1);
  keep_experts_behind_dense_layers(config, spec, 3);
  require_latent(config, spec);
  if (config.tolerant()) return;
  config.require("scoring_func", "sigmoid", "the router of this family has sigmoids");
  config.require("topk_method", "noaux_tc", "this family corrects its choice of experts");
}

// Chosen weights are never divided by their sum (transformers 5 reads no norm_topk_prob here).
void finish_deepseek_v2(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_latent(config, spec, family);
  read_experts(config, spec,
               {.count = {"n_routed_experts", "num_experts"},
                .count_otherwise = 64,
                .width = {"moe_intermediate_size"},
                .width_otherwise = 1407});
  spec.experts.scale = config.number({"routed_scaling_factor"}).value_or(1);
  read_shared_experts(config, spec, {"n_shared_experts"}, 2);
  keep_experts_behind_dense_layers(config, spec, 0);
  const std::string method = config.word({"topk_method"}).value_or("greedy");
  if (method == "group_limited_greedy") {
    read_expert_groups(config, spec);
  } else if (method == "greedy") {
    config.ignore(std::array{"n_group"sv, "topk_group"sv});
  } else {
    config.refuse("topk_method", "greedy or group_limited_greedy");
  }
  require_latent(config, spec);
  if (config.tolerant()) return;
  if (spec.experts.chosen == 0) (void)config.required_integer({"num_experts_per_tok"}, 1);
  config.require("norm_topk_prob", false, "weights of experts are not divided by their sum");
  config.require("scoring_func", "softmax", "the router of this family has a softmax");
}

void finish_mistral4(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_latent(config, spec, family);
  add_block_temperature(config, spec, family);
}

void finish_minicpm3(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_latent(config, spec, family);
  if (const auto scale = config.number({"scale_emb"}))
    scale_embedding(spec, *scale, config.stated({"scale_emb"}));
  if (const auto base = config.integer({"dim_model_base"}, 1); base && spec.hidden > 0) {
    spec.head.scale = static_cast<double>(*base) / static_cast<double>(spec.hidden);
    spec.head.scale_key = config.stated({"dim_model_base"});
  }
}

// Latent layers of Kimi-Linear mark no positions although their rotating slice is stated.
void finish_kimi_linear(Config& config, ModelSpec& spec, const HfFamily&) {
  (void)latent_slice(config, spec);
  config.require("mla_use_nope", true, "no layer of this family rotates");
  LayerTypes types = read_layer_types(config, spec, {.period = 4, .other = "linear_attention"});
  if (std::optional<Config> linear = config.object("linear_attn_config")) {
    const std::vector<double> full = linear->numbers({"full_attn_layers"});
    if (!full.empty()) types = uniform_layers(spec, "linear_attention");
    for (const double layer : full) {  // counted from 1
      if (layer >= 1 && layer <= static_cast<double>(spec.layers)) {
        types[static_cast<std::size_t>(layer) - 1] = "full_attention";
      }
    }
  }
  set_positions(config, spec, types, [](const std::string&) { return std::vector<PositionSpec>(); });
}

// compress_ratios: 0 = a window alone; any other layer also reads compressed tokens, under another base and
// YaRN without its amplitude.
void finish_deepseek_v4(Config& config, ModelSpec& spec, const HfFamily& family) {
  const std::int64_t rotating = config.integer({"qk_rope_head_dim"}, 1).value_or(spec.head_dim / 8);
  if (rotating > spec.head_dim) config.fail("qk_rope_head_dim", "at most head_dim");
  const RopeSlice slice = {
      .head_dim = spec.head_dim, .rotating = rotating, .offset = spec.head_dim - rotating};
  LayerTypes types = config.words({"layer_types"});
  if (types.empty()) {
    const std::vector<double> ratios = config.numbers({"compress_ratios"});
    for (std::size_t layer = 0; layer < static_cast<std::size_t>(spec.layers); ++layer) {
      const bool window = layer < ratios.size() && ratios[layer] == 0;
      types.emplace_back(window ? "sliding_attention" : "compressed_attention");
    }
  }
  types.resize(static_cast<std::size_t>(spec.layers));
  set_windows(config, spec, uniform_layers(spec, "sliding_attention"));
  set_positions(config, spec, types, [&](const std::string& type) {
    RopeStyle style = family.rope;
    if (type == "sliding_attention") {
      style.scaled = false;
      return std::vector{read_rope(config, style, slice, "main")};
    }
    style.theta = {"compress_rope_theta"};
    PositionSpec rope = read_rope(config, style, slice, "compress");
    if (const auto theta = config.number(style.theta)) rope.set("theta", *theta, config.stated(style.theta));
    if (rope.mechanism == "yarn" && rope.find("attention_factor") == nullptr)
      rope.set("attention_factor", 1.0);
    return std::vector{rope};
  });
  for (AttentionSpec& attention : spec.attention) attention.sinks = true;
  // What the class writes beside the blocks that count.
  config.ignore(std::array<std::string_view, 2>{"partial_rotary_factor", "rope_theta"});
}

HfFamily latent(std::string_view name, const RopeStyle& rope,
                decltype(HfFamily::finish) finish = finish_latent) {
  return {.name = name, .rope = rope, .finish = finish};
}

const RopeStyle kComplex{.pairing = "interleaved", .fixed_width = true};
// Keys are the values, and the output is rotated back at the query's position.
const RopeStyle kValuesToo{.pairing = "interleaved", .fixed_width = true, .acts_on = "qkv_inverse"};
const RopeStyle kPermuting{.pairing = "interleaved", .write_pairing = "half", .fixed_width = true};
const RopeStyle kHalf{.fixed_width = true};

// Losses of training, other layouts of the same weights, and layers that guess ahead (they are no part of a
// pass).
constexpr std::array kDeepseekIgnored = {"attention_dropout"sv,
                                         "aux_loss_alpha"sv,
                                         "ep_size"sv,
                                         "head_dim"sv,
                                         "num_mtp_layers"sv,
                                         "num_nextn_predict_layers"sv,
                                         "output_router_logits"sv,
                                         "pretraining_tp"sv,
                                         "router_aux_loss_coef"sv,
                                         "seq_aux"sv};

const HfKeys kDeepseekKeys = {.vocab = {"vocab_size"},
                              .hidden = {"hidden_size"},
                              .layers = {"num_hidden_layers"},
                              .heads = {"num_attention_heads"},
                              .kv_heads = {"num_key_value_heads"},
                              .head_dim = {"qk_rope_head_dim"},
                              .mlp_width = {"intermediate_size"},
                              .activation = {"hidden_act"},
                              .norm_eps = {"rms_norm_eps"},
                              .length = {"max_position_embeddings"}};

HfFamily deepseek(std::string_view name, const RopeStyle& rope, decltype(HfFamily::finish) finish) {
  return {.name = name,
          .keys = &kDeepseekKeys,
          .mlp_factor = 0,
          .attention_bias = Biases::never,
          .mlp_bias = Biases::never,
          .rope = rope,
          .finish = finish,
          .runs = true,
          .ignored = kDeepseekIgnored};
}

const std::array kFamilies = {
    deepseek("deepseek_v2", kComplex, finish_deepseek_v2),
    deepseek("deepseek_v3", kPermuting, finish_deepseek_v3),
    latent("deepseek_v4", kValuesToo, finish_deepseek_v4),
    latent("glm_moe_dsa", kPermuting),
    latent("kimi_linear", kHalf, finish_kimi_linear),
    latent("minicpm3", kHalf, finish_minicpm3),
    latent("mistral4", kPermuting, finish_mistral4),
};

}  // namespace

std::span<const HfFamily> latent_families() noexcept {
  return kFamilies;
}

}  // namespace locant
