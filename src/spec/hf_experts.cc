// SPDX-License-Identifier: Apache-2.0
#include "spec/hf_experts.h"

#include <fmt/format.h>

#include "locant/core.h"

namespace locant {

void read_experts(Config& config, ModelSpec& spec, const ExpertKeys& keys) {
  ExpertsSpec& experts = spec.experts;
  experts.count = config.integer(keys.count, 1).value_or(keys.count_otherwise);
  experts.chosen = config.integer(keys.chosen, 1).value_or(keys.chosen_otherwise);
  experts.width = config.integer(keys.width, 1).value_or(keys.width_otherwise);
  if (experts.width == 0) experts.width = spec.mlp.width;
  if (experts.chosen > experts.count) {
    config.refuse(config.present(keys.chosen), fmt::format("at most the {} experts", experts.count));
  }
  experts.layers.assign(static_cast<std::size_t>(spec.layers), experts.count > 0);
}

void keep_experts_where(ModelSpec& spec, const std::function<bool(std::int64_t layer)>& holds) {
  for (std::int64_t layer = 0; layer < static_cast<std::int64_t>(spec.experts.layers.size()); ++layer) {
    if (!holds(layer)) spec.experts.layers[static_cast<std::size_t>(layer)] = false;
  }
}

void read_expert_groups(Config& config, ModelSpec& spec) {
  ExpertsSpec& experts = spec.experts;
  experts.groups = config.integer({"n_group"}, 1).value_or(1);
  experts.chosen_groups = config.integer({"topk_group"}, 1).value_or(experts.groups);
  if (experts.count % experts.groups != 0) {
    config.refuse("n_group", fmt::format("a divisor of the {} experts", experts.count));
  }
  const std::int64_t reach = experts.chosen_groups * (experts.count / experts.groups);
  if (experts.chosen_groups > experts.groups || reach < experts.chosen) {
    config.refuse("topk_group", fmt::format("a number of the {} groups that hold {} experts or more",
                                            experts.groups, experts.chosen));
  }
}

void read_shared_experts(Config& config, ModelSpec& spec, const Keys& key, std::int64_t otherwise) {
  spec.experts.shared_width = spec.experts.width * config.integer(key, 0).value_or(otherwise);
}

void keep_experts_behind_dense_layers(Config& config, ModelSpec& spec, std::int64_t otherwise) {
  const std::int64_t first = config.integer({"first_k_dense_replace"}, 0).value_or(otherwise);
  keep_experts_where(spec, [&](std::int64_t layer) { return layer >= first; });
}

void read_sigmoid_experts(Config& config, ModelSpec& spec, const ExpertKeys& keys) {
  read_experts(config, spec, keys);
  ExpertsSpec& experts = spec.experts;
  experts.router = RouterScore::sigmoid;
  experts.correction = true;
  experts.group_pairs = true;
  experts.normalised = config.flag({"norm_topk_prob"}).value_or(true);
  read_expert_groups(config, spec);
  if (experts.groups > 1 && experts.count / experts.groups < 2) {
    config.refuse("n_group", "groups of two experts or more, a group counts by its two best");
  }
}

}  // namespace locant
