// SPDX-License-Identifier: Apache-2.0
// What happens to keys of a config that no reader asked for: those of every transformers config that change
// no forward pass are passed over, a key that speaks of the computation is refused, any other becomes a note.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "locant/core.h"
#include "spec/hf_family.h"

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

bool names_one_of(const std::string& key, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return key.find(word) != std::string::npos; });
}

}  // namespace

void refuse_other_kinds(Config& config) {
  if (config.tolerant()) {
    config.ignore(std::array{"is_encoder_decoder"sv, "add_cross_attention"sv, "pruned_heads"sv,
                             "quantization_config"sv, "model_type"sv, "text_config"sv});
    config.ignore(kHarmless);
    return;
  }
  config.require("is_encoder_decoder", false, "this family is a decoder");
  config.require("add_cross_attention", false, "this family is a decoder");
  config.require("pruned_heads", Json::object(), "pruned heads change every shape");
  config.require("quantization_config", nullptr, "quantised Hugging Face checkpoints are not read");
  config.ignore(kHarmless);
}

std::vector<Note> judge_unread(const Config& config) {
  std::vector<Note> notes;
  for (const std::string& key : config.unread()) {
    const Json& value = config.value(key);
    if (value.is_null()) continue;
    if (config.tolerant()) {
      if (value == false || value == Json::object() || value == Json::array()) continue;
      if (!names_one_of(key, kStated) || names_one_of(key, kElsewhere)) continue;
      notes.push_back({.text = fmt::format("{}: {} is not understood and may change the result, got {}",
                                           config.path(), config.full_key(key), json_text(value)),
                       .key = config.full_key(key)});
      continue;
    }
    if (names_one_of(key, kMeaningful))
      config.fail(key, "absent: it would change the result and is not understood");
    notes.push_back({.text = fmt::format("{}: {} is read by nobody", config.path(), key), .key = key});
  }
  return notes;
}

}  // namespace locant
