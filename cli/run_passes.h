// SPDX-License-Identifier: Apache-2.0
// The passes of `locant run`: prompt, encoder, windows of a loss, states, continuation.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "cli/feeding.h"
#include "cli/interrupt.h"
#include "cli/pooling.h"
#include "cli/run_report.h"
#include "cli/special_ids.h"

namespace locant::cli {

using Clock = std::chrono::steady_clock;
[[nodiscard]] double seconds_since(Clock::time_point begin);

/// What a run wants of the model.
enum class Asks : std::uint8_t { next_tokens, masked_tokens, states };
/// Throws SpecError where the model cannot give it.
[[nodiscard]] Asks what_is_asked(const RunOptions& options, const Model& model);

struct Run {
  const RunOptions& options;
  const Model& model;
  Session* session;  ///< null where windows open their own
  ThreadPool& pool;
  const SpecialIds& special;
  Progress& progress;
};

void read_prompt_rows(const Run& run, const Rows& rows, const RowPositions& positions, PromptScores& scores,
                      Timing& timing);
void read_states(const Run& run, const Rows& rows, const RowPositions& positions, PooledStates& pooled,
                 Timing& timing);
void read_encoder(const Run& run, const Rows& rows, Timing& timing);
/// Ctrl-C ends it before the next window.
[[nodiscard]] WindowAnswer read_windows(const Run& run, const Windows& windows, const Rows& rows,
                                        PromptScores& scores, Timing& timing);

/// `shown` gets the text of a single row as it becomes certain.
using TextReader = std::function<void(const std::string& text)>;
/// Ctrl-C ends it before the next token.
void continue_rows(const Run& run, RunReport& report, const TextReader& shown);

}  // namespace locant::cli
