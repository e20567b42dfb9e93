// SPDX-License-Identifier: Apache-2.0
// One row per architecture of llama.cpp: what its code fixes without a key, and what it takes for a key that
// is absent. https://github.com/ggml-org/llama.cpp/tree/master/src/models
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "spec/gguf_keys.h"

namespace locant {

/// How stored channels pair. Converters permute q and k of many families so that neighbours pair.
enum class GgufRope : std::uint8_t {
  none,
  norm,                  ///< (2i, 2i + 1)
  neox,                  ///< (i, i + width/2)
  sections,              ///< as neox, position axes one after another
  interleaved_sections,  ///< as neox, position axes in turn
};

enum class GgufWindow : std::uint8_t {
  none,
  last,       ///< the last attention.sliding_window tokens
  chunk,      ///< the tokens of the own chunk
  symmetric,  ///< half of the window on each side
};

/// The rotation of layers with a window.
enum class GgufLocal : std::uint8_t {
  inherits,  ///< that of the others, under rope.freq_base_swa where it is stated
  own,       ///< base 10000 unless rope.freq_base_swa says otherwise, no scaling
  unscaled,  ///< the base of the others, no scaling
};

struct GgufWindows {
  GgufWindow kind = GgufWindow::none;
  bool required = false;    ///< attention.sliding_window must be stated
  std::int64_t tokens = 0;  ///< where it is not; 0 = then no layer has a window
  std::int64_t period = 0;  ///< every period-th layer sees everything; 0 = a list must say which do
  bool full_first = false;  ///< the first of each period does, not the last
  bool attending = false;   ///< every layer that attends has one; no pattern counts
  GgufLocal local = GgufLocal::inherits;
  std::int64_t only_with_layers = 0;  ///< windows only in a model of so many layers; 0 = in all
};

/// Layers that rotate.
enum class GgufRotates : std::uint8_t { all, windowed, three_of_four };

/// What logit_scale does. Rows say whether it must be stated, or what stands for it.
enum class GgufLogits : std::uint8_t { unscaled, multiplied, divided };

struct GgufArchitecture {
  std::string_view name;      ///< general.architecture
  std::string_view family{};  ///< of transformers; "" = the same name
  GgufRope rope = GgufRope::none;
  bool optional_sections = false;  ///< as sections where rope.dimension_sections states two axes
  bool whole_head = false;         ///< rope.dimension_count must be the width of a head
  bool latent = false;             ///< the rotating channels stand at the end of a head
  bool alpha = false;              ///< rope.scaling.alpha stretches the base
  bool betas = false;              ///< rope.scaling.yarn_beta_fast and yarn_beta_slow are read
  double beta_fast = 32;
  float log_divisor = 0;  ///< mscale_all_dim = rope.scaling.yarn_log_multiplier / this; 0 = not read
  NormKind norm = NormKind::rms;
  Activation activation = Activation::silu;  ///< as published
  bool gated = true;
  bool normed = false;       ///< a norm follows the lookup
  bool causal = true;        ///< where attention.causal is not stated
  bool learned = false;      ///< position_embd.weight
  bool token_types = false;  ///< token_types.weight, where it is there
  bool sinks = false;
  double alibi = 0;        ///< largest slope exponent; 0 = no slopes
  bool alibi_key = false;  ///< attention.max_alibi_bias states it
  GgufRotates rotates = GgufRotates::all;
  GgufWindows windows{};
  bool root_scale = false;       ///< looked-up rows are multiplied by sqrt(embedding_length)
  bool embedding_scale = false;  ///< ... by the key of that name
  double embedding_default = 0;  ///< where that key is absent; 0 = nothing
  GgufLogits logits = GgufLogits::unscaled;
  bool logit_scale_required = false;
  double logit_default = 0;    ///< 0 = nothing
  bool attention_key = false;  ///< attention.scale
  double attention_scale = 0;  ///< 0 = 1/sqrt(width of a head)
  double score_softcap = 0;    ///< where attn_logit_softcapping is absent; 0 = none and not read
  bool logit_softcap_key = false;
  double logit_softcap = 0;        ///< where final_logit_softcapping is absent or not read
  bool rotation_switch = false;    ///< rope.scaling.finetuned = false turns the rotation off
  std::int64_t linear_period = 0;  ///< every period-th layer attends, the others are linear; 0 = all attend
  /// What only this architecture has; called last.
  void (*finish)(GgufKeys&, ModelSpec&, const GgufArchitecture&) = nullptr;
};

/// Null when there is none of that name.
[[nodiscard]] const GgufArchitecture* find_gguf_architecture(std::string_view name) noexcept;

// What single architectures add (gguf_finish.cc).
void finish_gguf_baichuan(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_deepseek2(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_deepseek4(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_gemma(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_gemma4(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_gptneox(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_grok(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_jais(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_llama4(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_minicpm(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_minicpm3(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_mistral3(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_olmo2(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_starcoder(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_step35(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);
void finish_gguf_t5(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row);

}  // namespace locant
