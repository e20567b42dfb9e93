// SPDX-License-Identifier: Apache-2.0
// What a run found out, and its two forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/answer.h"
#include "cli/memory.h"
#include "cli/pooling.h"
#include "cli/prompts.h"
#include "cli/run_options.h"
#include "cli/scores.h"
#include "cli/windows.h"
#include "locant/model.h"
#include "locant/text.h"

namespace locant::cli {

struct RowContinuation {
  std::vector<std::int64_t> ids;
  std::string text;             ///< "" without a tokenizer
  std::string stop = "length";  ///< length, end_token, not_finite, interrupted
};

struct Timing {
  double load_s = 0;
  std::int64_t prompt_tokens = 0;
  double prompt_s = 0;
  std::int64_t generated_tokens = 0;
  std::int64_t generated_passes = 0;  ///< tokens that took a pass of their own: all but each row's first
  double generated_s = 0;
  std::int64_t peak_bytes = 0;
};
/// Tokens per second, nothing when there was nothing to measure.
[[nodiscard]] std::optional<double> rate(std::int64_t tokens, double seconds);

struct RunReport {
  const RunOptions& options;
  const Model& model;
  const Tokenizer* tokenizer = nullptr;  ///< null = ids only
  const std::vector<std::vector<std::int64_t>>& rows;
  const RowPositions& positions;
  const PromptScores& scores;
  std::vector<std::optional<Loss>> losses;  ///< [B], with --loss
  std::vector<RowContinuation> continuations;
  std::vector<Note> notes;
  Timing timing;
  const std::vector<std::vector<std::int64_t>>* encoder_rows = nullptr;  ///< beside a decoder's `rows`
  const PooledStates* pooled = nullptr;
  std::optional<Windows> windows{};  ///< the loss was scored in these
  std::int64_t windows_read = 0;
  MemoryNeed memory{};
  std::optional<std::int64_t> available{};  ///< bytes, before the session was opened
};

/// Names of the position mechanisms of a model, each once, in the order they stand in.
[[nodiscard]] std::vector<std::string> mechanism_names(const ModelSpec& spec);

[[nodiscard]] OrderedJson run_json(const RunReport& report);

/// The model's line, the tokens, the next or masked tokens, the vectors and the loss.
void write_prompt_text(const RunReport& report, Answer& answer);
/// In front of a row's continuation.
void write_continuation_head(const RunReport& report, std::size_t row, Answer& answer);
/// A whole continuation behind its head; ids where there is no tokenizer.
void write_continuation_text(const RunReport& report, std::size_t row, Answer& answer);
void write_timing_text(const RunReport& report, Answer& answer);

}  // namespace locant::cli
