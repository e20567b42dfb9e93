// SPDX-License-Identifier: Apache-2.0
// What happens to keys of a config that no reader asked for: those of every transformers config that change
// no forward pass are passed over, a key that speaks of the computation is refused, any other becomes a note.
#include <fmt/format.h>

#include <algorithm>
#include <array>

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

}  // namespace

void refuse_other_kinds(Config& config) {
  config.require("is_encoder_decoder", false, "this family is a decoder");
  config.require("add_cross_attention", false, "this family is a decoder");
  config.require("pruned_heads", Json::object(), "pruned heads change every shape");
  config.require("quantization_config", nullptr, "quantised Hugging Face checkpoints are not read");
  config.ignore(kHarmless);
}

std::vector<std::string> judge_unread(const Config& config) {
  std::vector<std::string> notes;
  for (const std::string& key : config.unread()) {
    const Json& value = config.value(key);
    if (value.is_null()) continue;
    const bool meaningful = std::any_of(kMeaningful.begin(), kMeaningful.end(), [&](std::string_view word) {
      return key.find(word) != std::string::npos;
    });
    if (meaningful) config.fail(key, "absent: it would change the result and is not understood");
    notes.push_back(fmt::format("{}: {} is read by nobody", config.path(), key));
  }
  return notes;
}

}  // namespace locant
