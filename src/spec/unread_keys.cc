// SPDX-License-Identifier: Apache-2.0
// What happens to keys of a config that no reader asked for: those of every transformers config that change
// no forward pass are passed over, a key that speaks of the computation is refused, any other becomes a note.
// A tolerant config gets notes under the rules C102, C103 and C106.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "locant/core.h"
#include "spec/config_rules.h"
#include "spec/hf_family.h"
#include "spec/near_key.h"
#include "spec/rope_lint.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

// PretrainedConfig's own keys and generation defaults that old configs carry.
constexpr std::array kHarmless = {"_attn_implementation"sv,
                                  "_attn_implementation_autoset"sv,
                                  "_commit_hash"sv,
                                  "_name_or_path"sv,
                                  "architectures"sv,
                                  "auto_map"sv,
                                  "bad_words_ids"sv,
                                  "begin_suppress_tokens"sv,
                                  "bos_token_id"sv,
                                  "chunk_size_feed_forward"sv,
                                  "cross_attention_hidden_size"sv,
                                  "decoder_start_token_id"sv,
                                  "diversity_penalty"sv,
                                  "do_sample"sv,
                                  "dtype"sv,
                                  "early_stopping"sv,
                                  "encoder_no_repeat_ngram_size"sv,
                                  "eos_token_id"sv,
                                  "exponential_decay_length_penalty"sv,
                                  "finetuning_task"sv,
                                  "forced_bos_token_id"sv,
                                  "forced_eos_token_id"sv,
                                  "gradient_checkpointing"sv,
                                  "id2label"sv,
                                  "initializer_range"sv,
                                  "is_decoder"sv,
                                  "label2id"sv,
                                  "length_penalty"sv,
                                  "max_length"sv,
                                  "min_length"sv,
                                  "no_repeat_ngram_size"sv,
                                  "num_beam_groups"sv,
                                  "num_beams"sv,
                                  "num_labels"sv,
                                  "num_return_sequences"sv,
                                  "output_attentions"sv,
                                  "output_hidden_states"sv,
                                  "output_scores"sv,
                                  "prefix"sv,
                                  "problem_type"sv,
                                  "remove_invalid_values"sv,
                                  "repetition_penalty"sv,
                                  "return_dict"sv,
                                  "return_dict_in_generate"sv,
                                  "sep_token_id"sv,
                                  "suppress_tokens"sv,
                                  "task_specific_params"sv,
                                  "temperature"sv,
                                  "tf_legacy_loss"sv,
                                  "tie_encoder_decoder"sv,
                                  "tokenizer_class"sv,
                                  "top_k"sv,
                                  "top_p"sv,
                                  "torch_dtype"sv,
                                  "torchscript"sv,
                                  "transformers_version"sv,
                                  "typical_p"sv,
                                  "unk_token_id"sv,
                                  "use_bfloat16"sv,
                                  "use_cache"sv};

// A key with one of these in its name speaks of the computation.
constexpr std::array kMeaningful = {
    "act"sv,    "alibi"sv,  "attention"sv, "attn"sv,     "bias"sv,   "cap"sv,   "compress"sv, "conv"sv,
    "dim"sv,    "embd"sv,   "embed"sv,     "expert"sv,   "factor"sv, "head"sv,  "hidden"sv,   "kernel"sv,
    "layer"sv,  "logit"sv,  "lora"sv,      "mask"sv,     "mlp"sv,    "moe"sv,   "mrope"sv,    "multiplier"sv,
    "norm"sv,   "offset"sv, "parallel"sv,  "position"sv, "quant"sv,  "rank"sv,  "residual"sv, "rope"sv,
    "rotary"sv, "scal"sv,   "shared"sv,    "sink"sv,     "size"sv,   "theta"sv, "tie"sv,      "type"sv,
    "vocab"sv,  "window"sv, "yarn"sv};

// The part of the computation that Locant states: embeddings, positions, attention, head.
constexpr std::array kStated = {
    "alibi"sv,   "attention"sv, "attn"sv, "embd"sv,   "embed"sv,  "local"sv,   "logit"sv,      "mrope"sv,
    "nope"sv,    "position"sv,  "rope"sv, "rotary"sv, "scale"sv,  "scaling"sv, "multiplier"sv, "sink"sv,
    "sliding"sv, "softcap"sv,   "swa_"sv, "theta"sv,  "window"sv, "yarn"sv};

// Parts of such names that speak of something else: dropouts, losses, experts, towers of other media.
constexpr std::array kElsewhere = {"audio"sv,
                                   "dropout"sv,
                                   "expert"sv,
                                   "fused"sv,
                                   "image"sv,
                                   "init"sv,
                                   "loss"sv,
                                   "moe"sv,
                                   "router"sv,
                                   "routed"sv,
                                   "pdrop"sv,
                                   "video"sv,
                                   "vision"sv,
                                   "visual"sv,
                                   "flash"sv,
                                   "softmax_in_fp32"sv,
                                   "media"sv,
                                   "mamba"sv,
                                   "ffn"sv,
                                   "down_scale"sv,
                                   "rescale_prenorm"sv,
                                   "logits_to_keep"sv,
                                   "memory_efficient"sv,
                                   "implementation"sv,
                                   "sinkhorn"sv,
                                   "temperature"sv,
                                   "parallel_attn"sv};

// Keys that the class of a family reads and that Locant does not follow: no fault of the config.
struct Unfollowed {
  std::string_view family;
  std::array<std::string_view, 5> keys;
};
constexpr std::array kUnfollowed = {
    Unfollowed{"gemma3n_text", {"altup_correct_scale"}},
    Unfollowed{"gemma4_text", {"attention_k_eq_v", "use_bidirectional_attention"}},
    Unfollowed{"glm_moe_dsa", {"indexer_rope_interleave"}},
    Unfollowed{"kimi_linear", {"attn_res_block_size"}},
    Unfollowed{"marian", {"share_encoder_decoder_embeddings"}},
    Unfollowed{"mbart", {"normalize_embedding"}},
    Unfollowed{"mimo_v2_flash",
               {"attention_value_scale", "swa_head_dim", "swa_num_attention_heads", "swa_num_key_value_heads",
                "swa_v_head_dim"}},
    Unfollowed{"minicpm", {"scale_depth"}},
    Unfollowed{"minicpm3", {"scale_depth"}},
    Unfollowed{"minimax_m3_vl_text", {"index_local_blocks", "sparse_attention_config"}},
    Unfollowed{"molmo", {"embedding_size", "use_position_ids"}},
    Unfollowed{"phi3small",
               {"blocksparse_num_local_blocks", "dense_attention_every_n_layers", "mup_attn_multiplier",
                "mup_use_scaling"}},
    Unfollowed{"qwen3_5_moe_text", {"attn_output_gate"}},
    Unfollowed{"qwen3_5_text", {"attn_output_gate"}},
    Unfollowed{"roformer", {"embedding_size"}},
    Unfollowed{"step3p5", {"num_sliding_attention_heads", "query_pre_attn_scalar"}},
};

// Keys of a rotation's block alone.
constexpr std::array kBlockKeys = {"beta_fast"sv,   "beta_slow"sv,       "high_freq_factor"sv,
                                   "long_factor"sv, "low_freq_factor"sv, "mscale_all_dim"sv,
                                   "rope_type"sv,   "short_factor"sv};

bool names_one_of(const std::string& key, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return key.find(word) != std::string::npos; });
}

bool is_one_of(const std::string& key, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

bool unfollowed(std::string_view family, const std::string& key) {
  return std::any_of(kUnfollowed.begin(), kUnfollowed.end(),
                     [&](const Unfollowed& row) { return row.family == family && is_one_of(key, row.keys); });
}

// A rotation's block that asks for a schedule, under whatever name.
bool asks_for_schedule(const Json& value) {
  if (!value.is_object()) return false;
  const Json* type = find_member(value, "rope_type");
  if (type == nullptr) type = find_member(value, "type");
  if (type == nullptr || !type->is_string()) return false;
  return *type != "default" &&
         (value.contains("rope_type") || value.contains("factor") || value.contains("long_factor") ||
          !schedule_of(type->get<std::string>()).empty());
}

bool says_nothing(const Json& value) {
  return value == false || value == -1 || value == Json::object() || value == Json::array();
}

// What is to be said of one unread key of a tolerant config; empty = nothing.
Note judge_tolerantly(const Config& config, const HfFamily& family, const std::string& key) {
  const Json& value = config.value(key);
  const auto note = [&](std::string_view rule, const std::string& what) {
    return Note{
        .text = fmt::format("{}: {} {}, got {}", config.path(), config.full_key(key), what, json_text(value)),
        .rule = std::string(rule),
        .key = config.full_key(key)};
  };
  const bool known = !family.name.empty();
  if (key.front() == '_') return {};  // private to a class
  if (known) {
    if (const std::string near = near_key(key, config.asked_in_vain()); !near.empty())
      return note(rules::kNearMissKey, fmt::format("is read by nobody, {} is absent", near));
  }
  if (says_nothing(value)) return {};
  if (unfollowed(family.name, key)) return note({}, "is read by this family's class and not followed here");
  if (known && (asks_for_schedule(value) || (key == "alibi" && value == true)))
    return note(rules::kNotReadHere, "is not read by this family");
  if (key == "rope_parameters" || key == "rope_scaling")
    return {};  // transformers 5 writes plain ones anywhere
  if (known && is_one_of(key, kBlockKeys))
    return note(rules::kNotReadHere, "is read inside rope_parameters or rope_scaling only");
  if (!names_one_of(key, kStated) || names_one_of(key, kElsewhere)) return {};
  if (!known) return note({}, "is not understood and may change the result");
  return note(rules::kUnreadKey, "is read by nobody who knows this family");
}

}  // namespace

void refuse_other_kinds(Config& config, const HfFamily& family) {
  if (config.tolerant()) {
    config.ignore(std::array{"is_encoder_decoder"sv, "add_cross_attention"sv, "pruned_heads"sv,
                             "quantization_config"sv, "model_type"sv, "text_config"sv});
    config.ignore(kHarmless);
    return;
  }
  config.require("is_encoder_decoder", family.encoder_decoder,
                 family.encoder_decoder ? "this family is an encoder and a decoder"
                                        : "this family is one stack of layers");
  config.require("add_cross_attention", false, "cross-attention is no choice of this family");
  config.require("pruned_heads", Json::object(), "pruned heads change every shape");
  config.require("quantization_config", nullptr, "quantised Hugging Face checkpoints are not read");
  config.ignore(kHarmless);
}

std::vector<Note> judge_unread(const Config& config, const HfFamily& family) {
  std::vector<Note> notes;
  for (const std::string& key : config.unread()) {
    if (config.value(key).is_null()) continue;
    if (config.tolerant()) {
      Note note = judge_tolerantly(config, family, key);
      if (!note.text.empty()) notes.push_back(std::move(note));
      continue;
    }
    if (names_one_of(key, kMeaningful))
      config.fail(key, "absent: it would change the result and is not understood");
    notes.push_back({.text = fmt::format("{}: {} is read by nobody", config.path(), key), .key = key});
  }
  return notes;
}

}  // namespace locant
