// SPDX-License-Identifier: Apache-2.0
// Dense decoders as run computes them: facts of a block that a key decides, and keys that no forward pass
// reads.
#pragma once

#include <span>
#include <string_view>

#include "spec/hf_layers.h"

namespace locant {

/// Dropouts, initialisers, training switches and tensor-parallel hints of the decoder classes.
[[nodiscard]] std::span<const std::string_view> dense_ignored() noexcept;

/// The row as run computes it: every key of its config is understood or refused.
[[nodiscard]] HfFamily runs(HfFamily family);
/// The same, with biases in attention and mlp whatever the config says.
[[nodiscard]] HfFamily runs_biased(HfFamily family);

/// shared_keys(), with one name for the activation: published configs carry another that the class ignores.
[[nodiscard]] const HfKeys& hidden_act_keys() noexcept;
[[nodiscard]] const HfKeys& hidden_activation_keys() noexcept;

/// Gemma's norms store their factor less 1.
void offset_gains(ModelSpec& spec);
/// Queries, keys and values alone carry the bias that attention_bias asks for.
void unbias_output(ModelSpec& spec);
/// clip_qkv, where it is stated.
void read_clip(Config& config, ModelSpec& spec);
/// use_parallel_residual: both branches read the layer's input.
void read_parallel_residual(Config& config, ModelSpec& spec, Branches when_true, bool by_default);
/// A norm of queries and keys where `key` is true.
void read_qk_norm(Config& config, ModelSpec& spec, std::string_view key, const QkNormSpec& norm);
/// Positions need a rotary_dim: the classes build another rotation where it is null.
void demand_rotary_dim(Config& config);

// Ends of rows, each behind what the family's rotation needs.
void finish_codegen(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_ernie(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_glm(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_helium(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_neox(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_nemotron(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_olmo(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_persimmon(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_phi(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_seed_oss(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_stablelm(Config& config, ModelSpec& spec, const HfFamily& family);

/// Falcon's two architectures: norms, biases and heads of keys.
void read_falcon_block(Config& config, ModelSpec& spec);
/// MPT as transformers computes it.
void read_mpt_block(Config& config, std::optional<Config>& attention, ModelSpec& spec);
/// OPT's switches.
void read_opt_block(Config& config, ModelSpec& spec);

}  // namespace locant
