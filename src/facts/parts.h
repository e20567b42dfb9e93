// SPDX-License-Identifier: Apache-2.0
// The parts that facts_of() puts together.
#pragma once

#include <string>
#include <vector>

#include "locant/facts.h"

namespace locant {

/// Every stack of a model, the main one first.
struct StackView {
  const StackPositions& positions;
  const std::vector<AttentionSpec>& attention;
};
[[nodiscard]] std::vector<StackView> stacks_of(const ModelSpec& spec);

[[nodiscard]] EmbeddingFacts embedding_facts(const ModelSpec& spec, const Recipe& recipe);
[[nodiscard]] HeadFacts head_facts(const ModelSpec& spec, const Recipe& recipe);
[[nodiscard]] std::vector<PositionFacts> position_facts(const ModelSpec& spec, const Recipe& recipe,
                                                        const Extent& extent);
[[nodiscard]] std::vector<AttentionFacts> attention_facts(const ModelSpec& spec);

/// The rotation that the same head has without a schedule; the entry's own where that is not to be had. The
/// entry holds a rotation.
[[nodiscard]] Rotation plain_rotation(const PositionFacts& entry, const Recipe& recipe);

/// `positions`: what position_facts() gave.
[[nodiscard]] LimitFacts limit_facts(const ModelSpec& spec, const std::vector<PositionFacts>& positions,
                                     const Recipe& recipe, const FactsQuery& query);
[[nodiscard]] MemoryFacts memory_facts(const ModelSpec& spec, const std::vector<PositionFacts>& positions);

/// Adds notes on what the recipe refuses or reads otherwise than `exact`, by rule. `facts` has its positions.
void note_recipe(const ModelSpec& spec, const Recipe& recipe, const Extent& extent, Facts& facts);

/// The weights at `path`: the file itself, or those of a folder; "" = none there.
[[nodiscard]] std::string weights_in(const std::string& path);

/// Fills names, dtype and parameters from the headers at `path`; leaves them where there are none.
void read_weight_headers(const std::string& path, const ModelSpec& spec, Facts& facts);

}  // namespace locant
