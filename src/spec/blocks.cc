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
