// SPDX-License-Identifier: Apache-2.0
// How layers of a family are put together: what its class fixes without a key. One row per family whose block
// is not the plain pre-norm one.
#include <array>

#include "locant/spec.h"

namespace locant {
namespace {

struct Row {
  std::string_view family;
  BlockSpec block;
};

constexpr ProjectionBiases kQkvBiases{.q = true, .k = true, .v = true};

constexpr BlockSpec branching(Branches branches, ProjectionBiases biases = {}) {
  BlockSpec block;
  block.branches = branches;
  block.biases = biases;
  return block;
}

constexpr BlockSpec biased(ProjectionBiases biases) {
  return branching(Branches::serial, biases);
}

constexpr BlockSpec normed_heads(BlockSpec block = {}) {
  block.qk_norm.kind = QkNorm::head;
  return block;
}

constexpr BlockSpec normed_rows(BlockSpec block = {}) {
  block.qk_norm.kind = QkNorm::row;
  return block;
}

constexpr BlockSpec placed(BranchNorms norms) {
  BlockSpec block;
  block.attention = norms;
  block.mlp = norms;
  return block;
}

constexpr BranchNorms kAfter{.before = false, .after = true};
constexpr BranchNorms kAround{.before = true, .after = true};

constexpr BlockSpec hunyuan() {
  BlockSpec block = normed_heads();
  block.qk_norm.after_rotation = true;
  return block;
}

constexpr BlockSpec qk_normed(QkNorm kind, bool after_rotation = false) {
  BlockSpec block;
  block.qk_norm = {.kind = kind, .norm = {.kind = NormKind::rms}, .after_rotation = after_rotation};
  return block;
}

// The first Transformer and BERT: each sum is normed, nothing else is.
constexpr BlockSpec normed_sums() {
  BlockSpec block;
  block.attention = {.before = false, .sum = true};
  block.mlp = {.before = false, .sum = true};
  block.final_norm = false;
  return block;
}

constexpr BlockSpec first_read_as_it_is() {
  BlockSpec block;
  block.first_norm = false;
  return block;
}

constexpr std::array kRows = {
    Row{"codegen", branching(Branches::shared_norm)},
    Row{"cohere", branching(Branches::shared_norm)},
    Row{"cohere2", branching(Branches::shared_norm)},
    Row{"ctrl", biased(ProjectionBiases{true, true, true, true})},
    Row{"exaone4", normed_heads(placed(kAfter))},
    Row{"falcon", branching(Branches::shared_norm)},
    Row{"gemma2", placed(kAround)},
    Row{"gemma3_text", normed_heads(placed(kAround))},
    Row{"glm4", placed(kAround)},
    Row{"gpt_neo", biased(ProjectionBiases{.out = true})},
    Row{"gpt_neox", branching(Branches::parallel)},
    Row{"gptj", branching(Branches::shared_norm)},
    Row{"hunyuan_v1_dense", hunyuan()},
    Row{"olmo2", normed_rows(placed(kAfter))},
    Row{"olmo3", normed_rows(placed(kAfter))},
    Row{"persimmon", biased(ProjectionBiases{true, true, true, true})},
    Row{"phi", branching(Branches::shared_norm, ProjectionBiases{true, true, true, true})},
    Row{"qwen2", biased(kQkvBiases)},
    Row{"qwen3", normed_heads()},
    // mixtures
    Row{"olmoe", qk_normed(QkNorm::row)},
    Row{"qwen3_moe", qk_normed(QkNorm::head)},
    // encoders
    Row{"albert", normed_sums()},
    Row{"bert", normed_sums()},
    Row{"camembert", normed_sums()},
    Row{"distilbert", normed_sums()},
    Row{"electra", normed_sums()},
    Row{"modernbert", first_read_as_it_is()},
    Row{"roberta", normed_sums()},
    Row{"xlm-roberta", normed_sums()},
    // encoder-decoders
    Row{"bart", normed_sums()},
    Row{"marian", normed_sums()},
};

}  // namespace

BlockSpec family_block(std::string_view family) noexcept {
  for (const Row& row : kRows) {
    if (row.family == family) return row.block;
  }
  return {};
}

}  // namespace locant
