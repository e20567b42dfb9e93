// SPDX-License-Identifier: Apache-2.0
#include "model/computable.h"

#include <fmt/format.h>

#include <string_view>

#include "core/quote.h"

namespace locant {

namespace {

constexpr std::int64_t kMostExperts = 1024;        // route() holds scores of as many
constexpr std::int64_t kMostRelative = 1LL << 24;  // numbers of a bias by head and distance

// What route() answers for.
void check_experts(const ModelSpec& spec) {
  const ExpertsSpec& experts = spec.experts;
  if (experts.count == 0) return;
  const auto refuse = [&](std::string_view rule, const std::string& got) {
    throw SpecError(fmt::format("{}: {}, got {}", spec.path, rule, got));
  };
  if (experts.count > kMostExperts)
    refuse(fmt::format("run routes among 1 to {} experts", kMostExperts), fmt::format("{}", experts.count));
  if (experts.groups < 1 || experts.count % experts.groups != 0)
    refuse(fmt::format("groups must divide the {} experts", experts.count),
           fmt::format("{}", experts.groups));
  const std::int64_t size = experts.count / experts.groups;
  if (experts.groups > 1 && experts.group_pairs && size < 2)
    refuse("groups that count by their two best must hold two experts or more", "groups of 1");
  if (experts.chosen_groups < 1 || experts.chosen_groups > experts.groups)
    refuse(fmt::format("chosen groups must be 1 to {}", experts.groups),
           fmt::format("{}", experts.chosen_groups));
  const std::int64_t most = experts.groups > 1 ? experts.chosen_groups * size : experts.count;
  if (experts.chosen < 1 || experts.chosen > most)
    refuse(fmt::format("the experts of a token must be 1 to {}", most), fmt::format("{}", experts.chosen));
}

}  // namespace

void check_blocks(const ModelSpec& spec) {
  const auto refuse = [&](std::string_view what) {
    throw SpecError(fmt::format("{}: run computes layers of attention and mlps, got {}", spec.path, what));
  };
  if (spec.generic) {
    throw SpecError(fmt::format("{}: {} must be one that run knows (locant list families), got {}", spec.path,
                                spec.format == "gguf" ? "general.architecture" : "model_type",
                                spec.family.empty() ? "none" : quote(spec.family)));
  }
  for (const AttentionSpec& attention : spec.attention) {
    if (!attention.attends) refuse("a layer that holds no attention");
  }
  constexpr std::size_t kWithCross = 2;
  if (!spec.others.empty() && spec.others.size() != kWithCross)
    refuse(fmt::format("{} stacks beside the main one", spec.others.size()));
  if (spec.block.weight_sets != 0 && spec.layers % spec.block.weight_sets != 0)
    refuse(fmt::format("{} sets of weights for {} layers", spec.block.weight_sets, spec.layers));
  if (spec.latent.kv_rank > 0 && spec.kv_heads != spec.heads)
    refuse(fmt::format("latent attention with {} heads for {} of keys", spec.heads, spec.kv_heads));
  if (!spec.others.empty() && spec.kv_heads != spec.heads)
    refuse(fmt::format("cross-attention with {} heads for {} of keys", spec.heads, spec.kv_heads));
  check_experts(spec);
}

Plan computable_plan(const ModelSpec& spec, const StackPositions& positions, const Recipe& recipe) {
  Plan plan = locant::plan(positions, recipe, Extent{});
  const auto refuse = [&](std::string_view what) {
    throw SpecError(
        fmt::format("{}: positions must be of a kind that run computes, got {}", spec.path, what));
  };
  for (const LayerPositions& kind : plan.kinds) {
    if (kind.bias && kind.bias->form == BiasForm::buckets &&
        kind.bias->heads * (2 * kind.bias->max_distance + 1) > kMostRelative)
      refuse(fmt::format("a bias that changes up to distance {}", kind.bias->max_distance));
    if (kind.bias && kind.bias->form == BiasForm::content) refuse("a bias that depends on q and k");
    if (kind.bias && kind.bias->form == BiasForm::function) refuse("a bias by a learned function");
    if (!kind.rotation) continue;
    const Rotation& rotation = *kind.rotation;
    if (rotation.acts_on.v || rotation.acts_on.output_inverse) refuse("a rotation of v or of the output");
    if (rotation.growth) refuse("a rotation with growth");
  }
  for (const PositionEmbedding& embedding : plan.embedding) {
    if (embedding.first_position != 0) refuse("a first position other than 0");
  }
  return plan;
}

}  // namespace locant
