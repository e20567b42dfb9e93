// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts in GGUF files: how they are chosen by the keys and by what the code of llama.cpp fixes,
// their widths and layers by the tensors that are there, else by keys.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "spec/gguf_parts.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

// Architectures whose code always divides the chosen weights by their sum.
constexpr std::array kNormalised = {"arctic"sv,        "dbrx"sv,      "ernie4_5-moe"sv, "granitemoe"sv,
                                    "granitehybrid"sv, "grok"sv,      "grovemoe"sv,     "hunyuan-moe"sv,
                                    "llama"sv,         "lfm2moe"sv,   "mimo2"sv,        "minicpm"sv,
                                    "minimax-m2"sv,    "mistral3"sv,  "phimoe"sv,       "qwen35moe"sv,
                                    "qwen3moe"sv,      "qwen3next"sv, "qwen3vlmoe"sv,   "smallthinker"sv};
// ... and those whose code never does.
constexpr std::array kNotNormalised = {"deepseek"sv, "gpt-oss"sv,        "jamba"sv,   "llama4"sv,
                                       "olmoe"sv,    "nomic-bert-moe"sv, "qwen2moe"sv};

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

RouterScore router(GgufKeys& keys, const GgufArchitecture& row) {
  const std::int64_t function = keys.integer("expert_gating_func", 0).value_or(0);
  switch (function) {
    case 0:
      break;
    case 1:
      return RouterScore::softmax;
    case 2:
      return RouterScore::sigmoid;
    case 3:
      return RouterScore::softmax_chosen;
    default:
      keys.fail("expert_gating_func", "1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen)");
  }
  if (row.name == "llama4" || row.name == "glm4moe" || row.name == "minimax-m2") return RouterScore::sigmoid;
  return row.name == "gpt-oss" ? RouterScore::softmax_chosen : RouterScore::softmax;
}

void read_weights(GgufKeys& keys, const GgufArchitecture& row, ExpertsSpec& experts) {
  experts.router = router(keys, row);
  const auto stated = keys.flag("expert_weights_norm");
  if (is_among(kNormalised, row.name)) {
    experts.normalised = true;
  } else if (!is_among(kNotNormalised, row.name)) {
    experts.normalised = stated.value_or(false);
  }
  const double scale = keys.number("expert_weights_scale").value_or(0);
  if (scale != 0) experts.scale = scale;
  experts.weighs_input = row.name == "llama4";
}

void read_groups(GgufKeys& keys, const GgufArchitecture& row, ExpertsSpec& experts) {
  experts.groups = std::max<std::int64_t>(1, keys.integer("expert_group_count", 0).value_or(1));
  if (experts.count % experts.groups != 0)
    keys.fail("expert_group_count", fmt::format("a divisor of the {} experts", experts.count));
  experts.chosen_groups = std::max<std::int64_t>(1, keys.integer("expert_group_used_count", 0).value_or(1));
  if (experts.chosen_groups > experts.groups)
    keys.fail("expert_group_used_count", fmt::format("at most the {} groups", experts.groups));
  // DeepSeek-V2, whose gate is a softmax, counts a group by its best expert.
  const bool v2 = row.name == "deepseek2" && experts.router == RouterScore::softmax;
  experts.group_pairs = experts.groups > 1 && !v2;
}

// What keys say of widths and layers.
void read_places(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  ExpertsSpec& experts = spec.experts;
  const auto width = keys.integer("expert_feed_forward_length", 0);
  experts.width = width.value_or(0) != 0 ? *width : spec.mlp.width;
  const std::int64_t shared = keys.integer("expert_shared_count", 0).value_or(row.name == "llama4" ? 1 : 0);
  experts.shared_width =
      keys.integer("expert_shared_feed_forward_length", 0).value_or(shared * experts.width);
  experts.shared_gate = row.name == "qwen2moe" && experts.shared_width > 0;
  const std::int64_t dense = keys.integer("leading_dense_block_count", 0).value_or(0);
  const std::int64_t step =
      std::max<std::int64_t>(1, keys.integer("interleave_moe_layer_step", 0).value_or(1));
  experts.layers.resize(static_cast<std::size_t>(spec.layers));
  for (std::int64_t layer = 0; layer < spec.layers; ++layer)
    experts.layers[static_cast<std::size_t>(layer)] = layer >= dense && (layer + 1) % step == 0;
}

// What tensors say, where the file holds some.
void read_tensors(const GgufKeys& keys, ModelSpec& spec) {
  ExpertsSpec& experts = spec.experts;
  const auto find = [&](std::int64_t layer, std::string_view name) {
    return keys.tensor(fmt::format("blk.{}.{}", layer, name));
  };
  std::vector<bool> layers(experts.layers.size());
  std::int64_t first = -1;
  for (std::int64_t layer = 0; layer < spec.layers; ++layer) {
    if (find(layer, "ffn_gate_inp.weight") == nullptr) continue;
    layers[static_cast<std::size_t>(layer)] = true;
    if (first < 0) first = layer;
  }
  if (first < 0) return;
  experts.layers = std::move(layers);
  if (const GgufTensor* const down = find(first, "ffn_down_exps.weight"); down && down->shape.size() == 3)
    experts.width = down->shape[2];
  const GgufTensor* const shared = find(first, "ffn_down_shexp.weight");
  experts.shared_width = shared != nullptr && shared->shape.size() == 2 ? shared->shape[1] : 0;
  experts.shared_gate = find(first, "ffn_gate_inp_shexp.weight") != nullptr;
  experts.router_bias = find(first, "ffn_gate_inp.bias") != nullptr;
  experts.correction = find(first, "exp_probs_b.bias") != nullptr;
  experts.bias = find(first, "ffn_down_exps.bias") != nullptr;
}

}  // namespace

void read_gguf_experts(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  ExpertsSpec& experts = spec.experts;
  experts.count = keys.integer("expert_count", 0).value_or(0);
  if (experts.count == 0) return;
  experts.chosen = keys.integer("expert_used_count", 0).value_or(0);
  if (experts.chosen < 1 || experts.chosen > experts.count)
    keys.fail("expert_used_count", fmt::format("a whole number from 1 to {}", experts.count));
  read_weights(keys, row, experts);
  read_groups(keys, row, experts);
  read_places(keys, row, spec);
  read_tensors(keys, spec);
}

}  // namespace locant
