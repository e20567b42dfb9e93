// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: facts of the router and its experts that several families state in the same words.
#pragma once

#include <cstdint>
#include <functional>

#include "spec/hf_family.h"

namespace locant {

/// What a mixture keeps where; an absent key means the number beside it.
struct ExpertKeys {
  Keys count = {"num_local_experts", "num_experts"};
  std::int64_t count_otherwise = 0;
  Keys chosen = {"num_experts_per_tok"};
  std::int64_t chosen_otherwise = 0;
  Keys width{};  ///< none: as wide as the mlp
  std::int64_t width_otherwise = 0;
};

/// Count, chosen and width of experts, in every layer. SpecError: more are chosen than there are.
void read_experts(Config& config, ModelSpec& spec, const ExpertKeys& keys);

/// Layers for which `holds` is false have an mlp.
void keep_experts_where(ModelSpec& spec, const std::function<bool(std::int64_t layer)>& holds);

/// n_group and topk_group. SpecError where they do not divide the experts.
void read_expert_groups(Config& config, ModelSpec& spec);

/// The router of DeepSeek-V3 (section 2.1.2), which GLM-4.5 has too: sigmoids, a correction for choosing
/// alone, groups that count by their two best, shared experts, dense layers first.
void read_sigmoid_experts(Config& config, ModelSpec& spec, const ExpertKeys& keys);

/// Shared experts are one mlp of n_shared_experts times the width of an expert.
void read_shared_experts(Config& config, ModelSpec& spec, const Keys& key, std::int64_t otherwise);

/// first_k_dense_replace.
void keep_experts_behind_dense_layers(Config& config, ModelSpec& spec, std::int64_t otherwise);

}  // namespace locant
