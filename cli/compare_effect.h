// SPDX-License-Identifier: Apache-2.0
// What differences do to a model: the same tokens through it under every reading, and how the logits change.
#pragma once

#include <string>
#include <vector>

#include "cli/answer.h"
#include "cli/feeding.h"
#include "locant/compare.h"

namespace locant::cli {

/// A text that every command can use: docs/passage.txt.
[[nodiscard]] std::string_view bundled_passage() noexcept;

/// Rows of tokens, and where they are from.
struct CompareRows {
  Rows rows;
  std::string text;  ///< CompareEffect::text
};
/// Ids that do not depend on anything but the vocabulary, for a model without a tokenizer.
[[nodiscard]] std::vector<std::int64_t> seeded_ids(std::int64_t vocab, std::int64_t tokens);

struct EffectSide {
  std::string name;
  std::string path;
  std::string recipe;
};
struct EffectJob {
  std::vector<EffectSide> sides;  ///< the first is what others are compared with
  const CompareRows& rows;
  std::int64_t distance = 0;  ///< tokens of a row that are read at most
  std::int64_t capacity = 0;  ///< tokens that a runtime is opened for, where a plan asks for it
  DType run_dtype = DType::f32;
  ThreadPool& pool;
  Host& host;
  Progress& progress;
};
/// A reading that cannot be run is said in `why_not`. Throws FileError for damaged weights, SpecError and
/// std::out_of_range as a session does.
[[nodiscard]] CompareEffect measure_effect(const EffectJob& job);

}  // namespace locant::cli
