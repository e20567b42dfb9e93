// SPDX-License-Identifier: Apache-2.0
// Families of which every layer rotates in the same way (Su et al. 2021): decoders and encoders.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "spec/hf_dense.h"
#include "spec/hf_granite.h"

namespace locant {
namespace {

const RopeStyle kHalf{};
const RopeStyle kInterleaved{.pairing = "interleaved"};
const RopeStyle kPartial{.partial = true};
const RopeStyle kInterleavedPartial{.pairing = "interleaved", .partial = true};
const RopeStyle kInterleavedWidth{.pairing = "interleaved", .width = {"rotary_dim"}};
const RopeStyle kNeox{.partial = true,
                      .theta = {"rope_theta", "rotary_emb_base"},
                      .partial_keys = {"partial_rotary_factor", "rotary_pct"}};
const RopeStyle kPhi3{.partial = true, .yarn_is_longrope = true};
const RopeStyle kWidth{.partial = true, .width = {"rotary_dim"}};

void finish_rope(Config& config, ModelSpec& spec, const HfFamily& family) {
  set_rotations(config, spec, family, uniform_layers(spec, "full_attention"));
}

// sliding_window, where it is not null, holds for every layer.
void finish_windowed(Config& config, ModelSpec& spec, const HfFamily& family) {
  const bool windowed = config.integer({"sliding_window"}, 0).value_or(0) > 0;
  const LayerTypes types = uniform_layers(spec, windowed ? "sliding_attention" : "full_attention");
  set_windows(config, spec, types);
  set_rotations(config, spec, family, uniform_layers(spec, "full_attention"));
}

void finish_ministral3(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_windowed(config, spec, family);
  add_block_temperature(config, spec, family);
}

void finish_phi3(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_windowed(config, spec, family);
  config.require("full_attn_mod", 1, "every layer has a window of its own or none");
  config.require("interpolate_factor", 1, "positions are not stretched");
  config.require("lm_head_bias", false, "the head of this family has no bias");
}

void finish_starcoder2(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_windowed(config, spec, family);
  config.require("norm_type", "layer_norm", "this family has no other");
  config.require("mlp_type", "default", "this family has no other");
  config.ignore(std::array<std::string_view, 3>{"activation_function", "scale_attention_softmax_in_fp32",
                                                "scale_attn_weights"});
  const bool biased = config.flag({"use_bias"}).value_or(true);
  if (biased) spec.block.biases = ProjectionBiases::all();
  spec.mlp.bias = biased;
}

void finish_gemma(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_rope(config, spec, family);
  scale_embedding(spec, std::sqrt(static_cast<double>(spec.hidden)), {});
  spec.embedding.scale_in_run_dtype = true;
  offset_gains(spec);
  // The first releases say "gelu" and mean its approximation; the class reads them so.
  if (spec.mlp.activation == Activation::gelu_erf) spec.mlp.activation = Activation::gelu_tanh;
  config.require("use_bidirectional_attention", false, "this family is causal");
  config.ignore(std::array<std::string_view, 1>{"hidden_activation"});  // hidden_act counts
}

// Divides the hidden states by hidden / dim_model_base before the head.
void finish_minicpm(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_rope(config, spec, family);
  if (const auto scale = config.number({"scale_emb"}))
    scale_embedding(spec, *scale, config.stated({"scale_emb"}));
  if (const auto base = config.integer({"dim_model_base"}, 1); base && spec.hidden > 0) {
    spec.head.scale = static_cast<double>(*base) / static_cast<double>(spec.hidden);
    spec.head.scale_key = config.stated({"dim_model_base"});
  }
}

void finish_cohere(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_rope(config, spec, family);
  spec.head.scale = config.number({"logit_scale"}).value_or(1);
  spec.head.scale_key = config.stated({"logit_scale"});
  spec.norm.bias = false;
  read_qk_norm(config, spec, "use_qk_norm",
               {.kind = QkNorm::own_heads, .norm = {.kind = NormKind::layer, .bias = false}});
  config.require("use_parallel_block", true, "the branches of this family are parallel");
  config.require("use_embedding_sharing", true, "tie_word_embeddings says so");
}

void finish_nanochat(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_rope(config, spec, family);
  spec.head.softcap = config.number({"final_logit_softcapping"}).value_or(0);
  spec.embedding.normed = true;
}

void finish_phimoe(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_windowed(config, spec, family);
  spec.head.bias = config.flag({"lm_head_bias"}).value_or(false);
}

// rotary_dim stands beside partial_rotary_factor and only the latter counts.
void finish_minimax_m3(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_rope(config, spec, family);
  (void)config.integer({"rotary_dim"}, 1);
}

void finish_hunyuan(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_rope(config, spec, family);
  config.require("use_rotary_pos_emb", true, "this family rotates");
  config.require("use_qk_norm", true, "the queries and keys of this family are normed");
  config.require("use_cla", false, "every layer has keys of its own");
  config.require("norm_type", "rms", "this family has no other");
  // Of the pooling head and the training framework.
  config.ignore(std::array<std::string_view, 6>{"add_classification_head", "cla_share_factor", "dense_list",
                                                "mask_init_id", "org_vocab_size", "pool_type"});
}

// Half of each head rotates; the base grows by rope_ratio.
void finish_chatglm(Config& config, ModelSpec& spec, const HfFamily& family) {
  const double ratio = config.number({"rope_ratio"}).value_or(1);
  PositionSpec rope = read_rope(config, family.rope, whole_head(spec));
  rope.set("theta", 10000 * ratio, config.stated({"rope_ratio"}));
  rope.set("rotary_dim", spec.head_dim / 2);
  every_layer(spec, rope);
  if (config.flag({"multi_query_attention"}).value_or(false)) {
    spec.kv_heads = config.integer({"multi_query_group_num"}, 1).value_or(1);
  }
  config.require("original_rope", true, "this family pairs adjacent channels");
  // Queries are divided by the layer's number and scores multiplied by it again.
  config.ignore(std::array<std::string_view, 1>{"apply_query_key_layer_scaling"});
  const bool biased = config.flag({"add_qkv_bias"}).value_or(false);
  spec.block.biases = {.q = biased, .k = biased, .v = biased};
  spec.lengths.configured = config.integer({"seq_length"}, 1);
  spec.lengths.configured_key = config.stated({"seq_length"});
}

// Past seq_length the base grows in steps and queries with the logarithm of their position.
void follow_seq_length(Config& config, ModelSpec& spec) {
  const std::int64_t trained = *spec.lengths.trained;
  const Keys grows = {"use_dynamic_ntk"};
  const Keys sharpens = {"use_logn_attn"};
  for (auto& layer : spec.positions.layers) {
    if (config.flag(grows).value_or(false)) {
      PositionSpec& rope = layer.front();
      rope.mechanism = "dynamic_ntk";
      rope.set("max_positions", trained, spec.lengths.trained_basis);
      rope.set("factor", 2.0);
      rope.set("growth", std::string("steps"), config.stated(grows));
    }
    if (!config.flag(sharpens).value_or(false)) continue;
    PositionSpec logn{.mechanism = "logn", .parameters = {}};
    logn.set("length", trained, spec.lengths.trained_basis);
    layer.push_back(logn);
  }
}

// The first Qwen: seq_length is what it was trained at.
void finish_qwen(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_rope(config, spec, family);
  spec.mlp.width /= 2;
  if (const auto trained = config.integer({"seq_length"}, 1)) {
    spec.lengths.trained = trained;
    spec.lengths.trained_basis = config.stated({"seq_length"});
  }
  config.ignore(std::array<std::string_view, 1>{"scale_attn_weights"});
  if (spec.lengths.trained) follow_seq_length(config, spec);
}

void finish_dbrx(Config& config, ModelSpec& spec, const HfFamily& family) {
  std::optional<Config> attention = config.object("attn_config");
  PositionSpec rope = read_rope(config, family.rope, whole_head(spec));
  if (attention) {
    if (const auto theta = attention->number({"rope_theta"}))
      rope.set("theta", *theta, attention->stated({"rope_theta"}));
    spec.kv_heads = attention->integer({"kv_n_heads"}, 1).value_or(1);
  }
  if (std::optional<Config> ffn = config.object("ffn_config")) {
    spec.mlp.width = ffn->integer({"ffn_hidden_size"}, 1).value_or(spec.mlp.width);
  }
  every_layer(spec, rope);
}

void finish_mllama(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_rope(config, spec, family);
  for (const double layer : config.numbers({"cross_attention_layers"})) {
    if (layer >= 0 && layer < static_cast<double>(spec.layers)) {
      spec.positions.layers[static_cast<std::size_t>(layer)].clear();
    }
  }
}

void finish_phi3small(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_rope(config, spec, family);
  config.require("rope_position_scale", 1.0, "positions are not stretched");
  if (const auto scale = config.number({"mup_embedding_multiplier"})) {
    scale_embedding(spec, *scale, config.stated({"mup_embedding_multiplier"}));
  }
  if (const auto width = config.number({"mup_width_multiplier"}); width && *width > 0)
    spec.head.scale = 1 / *width;
}

// Token types beside the rotation, a norm after the lookup.
void finish_rope_encoder(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_rope(config, spec, family);
  config.ignore(std::array<std::string_view, 1>{"position_embedding_type"});
  spec.embedding.token_types = config.integer({"type_vocab_size"}, 0).value_or(0);
  if (spec.embedding.token_types == 0) return;
  PositionSpec types{.mechanism = "token_types", .parameters = {}};
  types.set("rows", spec.embedding.token_types, config.stated({"type_vocab_size"}));
  types.set("width", spec.hidden);
  spec.positions.embedding.push_back(types);
}

void finish_roformer(Config& config, ModelSpec& spec, const HfFamily& family) {
  HfFamily own = family;
  if (config.flag({"rotary_value"}).value_or(false)) own.rope.acts_on = "qkv";
  finish_rope_encoder(config, spec, own);
  if (!config.flag({"is_decoder"}).value_or(false)) return;
  for (AttentionSpec& attention : spec.attention) attention.bidirectional = false;
}

// Rows of an image take the even frequencies of one ladder, columns the odd ones.
void finish_pixtral(Config& config, ModelSpec& spec, const HfFamily& family) {
  (void)rope_block(config, family.rope);
  const std::optional<Config> parameters = config.object("rope_parameters");
  double theta = config.number({"rope_theta"}).value_or(10000);
  std::string key = config.stated({"rope_theta"});
  if (std::optional<Config> block = rope_block(config, family.rope)) {
    if (const auto stated = block->number({"rope_theta"})) {
      theta = *stated;
      key = block->stated({"rope_theta"});
    }
  }
  const std::int64_t pairs = spec.head_dim / 2;
  std::vector<double> divisors;
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const std::int64_t wanted = pair < pairs / 2 ? 2 * pair : 2 * (pair - pairs / 2) + 1;
    divisors.push_back(
        std::pow(theta, 2 * static_cast<double>(wanted - pair) / static_cast<double>(spec.head_dim)));
  }
  PositionSpec rope{.mechanism = "rope", .parameters = {}};
  rope.set("head_dim", spec.head_dim);
  rope.set("pairing", std::string("half"));
  rope.set("theta", theta, key);
  const std::int64_t first = pairs / 2;
  rope.set("sections", std::vector<double>{static_cast<double>(first), static_cast<double>(pairs - first)});
  rope.set("axis_layout", std::string("chunked"));
  rope.set("divisors", std::move(divisors));
  every_layer(spec, rope);
}

HfFamily decoder(std::string_view name, const RopeStyle& rope,
                 decltype(HfFamily::finish) finish = finish_rope) {
  return {.name = name, .rope = rope, .finish = finish};
}

// A layer norm and an mlp without a gate, as GPT-2 had them.
HfFamily plain_decoder(std::string_view name, const RopeStyle& rope,
                       decltype(HfFamily::finish) finish = finish_rope) {
  return {.name = name, .norm = NormKind::layer, .gated = false, .rope = rope, .finish = finish};
}

HfFamily with_layer_norm(HfFamily family) {
  family.norm = NormKind::layer;
  return family;
}

// hidden_act alone names the activation.
HfFamily act_in(HfFamily family) {
  family.keys = &hidden_act_keys();
  return family;
}

HfFamily ungated(HfFamily family) {
  family.gated = false;
  return family;
}

HfFamily biased_mlp(HfFamily family) {
  family.mlp_bias = Biases::always;
  return family;
}

HfFamily encoder(std::string_view name, const RopeStyle& rope,
                 decltype(HfFamily::finish) finish = finish_rope_encoder) {
  return {.name = name,
          .norm = NormKind::layer,
          .normed_embedding = true,
          .bidirectional = true,
          .rope = rope,
          .finish = finish};
}

const RopeStyle kGlm4v{.pairing = "interleaved", .partial = true, .axis_layout = "chunked"};
const RopeStyle kQwen3Vl{.axis_layout = "interleaved"};
const RopeStyle kChatglm{.pairing = "interleaved", .theta = {}};
const RopeStyle kPhi3Small{.theta = {"rope_embedding_base"}};
const RopeStyle kNomic{.theta = {"rope_theta", "rotary_emb_base"},
                       .partial_keys = {"partial_rotary_factor", "rotary_emb_fraction"}};
const RopeStyle kGteNew{.partial = true, .partial_keys = {"partial_rotary_factor", "partial_rope_ratio"}};
const RopeStyle kBackwards{.sign = -1};

const std::array kFamilies = {
    decoder("apertus", kHalf),
    runs(ungated(decoder("arcee", kHalf))),
    decoder("bitnet", kHalf),
    decoder("chatglm", kChatglm, finish_chatglm),
    runs(biased_mlp(plain_decoder("codegen", kInterleavedWidth, finish_codegen))),
    runs(with_layer_norm(decoder("cohere", kInterleaved, finish_cohere))),
    with_layer_norm(decoder("dbrx", kHalf, finish_dbrx)),
    runs(decoder("ernie4_5", kInterleaved, finish_ernie)),
    encoder("eurobert", kHalf),
    decoder("exaone", kHalf),
    runs(act_in(decoder("gemma", kHalf, finish_gemma))),
    runs(decoder("glm", kInterleavedPartial, finish_glm)),
    runs(decoder("glm4", kInterleavedPartial, finish_glm)),
    decoder("glm4v_text", kGlm4v),
    runs(biased_mlp(plain_decoder("gpt_neox", kNeox, finish_neox))),
    runs(biased_mlp(plain_decoder("gptj", kInterleavedWidth, finish_codegen))),
    runs(decoder("granite", kHalf, finish_granite)),
    decoder("granite_swa", kHalf, finish_granite_swa),
    decoder("granitemoehybrid", kHalf, finish_granitemoehybrid),
    runs(decoder("helium", kInterleaved, finish_helium)),
    runs(decoder("hunyuan_v1_dense", kHalf, finish_hunyuan)),
    decoder("hunyuan_v1_moe", kHalf, finish_hunyuan),
    decoder("internlm2", kHalf),
    decoder("internlm3", kHalf),
    encoder("jina_embeddings_v3", kHalf),
    decoder("minicpm", kHalf, finish_minicpm),
    decoder("minimax_m2", kWidth),
    decoder("minimax_m3_vl_text", kPartial, finish_minimax_m3),
    runs(decoder("ministral3", kHalf, finish_ministral3)),
    runs(decoder("mistral", kHalf, finish_windowed)),
    decoder("mllama_text_model", kHalf, finish_mllama),
    decoder("molmo", kHalf),
    decoder("nanochat", kBackwards, finish_nanochat),
    runs(plain_decoder("nemotron", kPartial, finish_nemotron)),
    encoder("neobert", kInterleaved),
    encoder("new", kGteNew),
    encoder("nomic_bert", kNomic),
    runs(with_layer_norm(decoder("olmo", kHalf, finish_olmo))),
    runs(decoder("olmo2", kHalf)),
    runs_biased(plain_decoder("persimmon", kPartial, finish_persimmon)),
    runs_biased(plain_decoder("phi", kPartial, finish_phi)),
    runs(decoder("phi3", kPhi3, finish_phi3)),
    decoder("phi3small", kPhi3Small, finish_phi3small),
    decoder("phi4_multimodal", kPhi3, finish_windowed),
    with_layer_norm(decoder("phimoe", kHalf, finish_phimoe)),
    decoder("pixtral", kHalf, finish_pixtral),
    decoder("qwen", kNeox, finish_qwen),
    decoder("qwen3_vl_moe_text", kQwen3Vl),
    decoder("qwen3_vl_text", kQwen3Vl),
    encoder("roformer", kInterleaved, finish_roformer),
    runs(decoder("seed_oss", kHalf, finish_seed_oss)),
    runs(with_layer_norm(decoder("stablelm", kPartial, finish_stablelm))),
    runs(act_in(plain_decoder("starcoder2", kHalf, finish_starcoder2))),
};

}  // namespace

std::span<const HfFamily> rope_families() noexcept {
  return kFamilies;
}

}  // namespace locant
