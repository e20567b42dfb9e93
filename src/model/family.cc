// SPDX-License-Identifier: Apache-2.0
// The tables of all kinds put together. A new family is one row in the table of its kind.
#include "model/family.h"

#include <algorithm>
#include <array>

#include "locant/model.h"

namespace locant {
namespace {

std::array<std::span<const FamilyWeights>, 5> tables() noexcept {
  return {llama_like_weights(), gpt_like_weights(), mixture_weights(), encoder_weights(),
          encoder_decoder_weights()};
}

}  // namespace

const FamilyWeights* find_family_weights(std::string_view family) noexcept {
  for (const std::span<const FamilyWeights> table : tables()) {
    for (const FamilyWeights& row : table) {
      if (row.family == family) return &row;
    }
  }
  return nullptr;
}

std::vector<std::string_view> runnable_families() {
  std::vector<std::string_view> names;
  for (const std::span<const FamilyWeights> table : tables()) {
    for (const FamilyWeights& row : table) names.push_back(row.family);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace locant
